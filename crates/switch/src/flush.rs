//! Connections that controllers want forgotten.

use super::Switch;
use base::Instant;
use conntrack::Flush;
use ofproto::connection::ConnId;
use openflow::message::CtFlush;
use std::rc::Rc;
use std::sync::Arc;

/// Which connections a controller wants forgotten.
fn flush_of(asked: &CtFlush) -> Flush {
    let CtFlush { zone, protocol, original, reply, mark, label } = *asked;
    Flush { zone, protocol, original, reply, mark, label }
}

impl Switch {
    /// Forgets what was asked for. What all connections must be looked through for is done on a thread
    /// beside this one; the session that asked goes on when it is done.
    pub(super) fn flush_connections(&mut self, now: Instant) {
        for zone in self.outbox.conntrack_flush.drain(..) {
            // Finding nothing to forget is no failure here, nor below.
            let _ = self.conntrack.flush(now, &Flush::zone(zone));
        }
        // A session that goes on may ask for more.
        while let Some((id, asked)) = self.outbox.conntrack_flush_tuples.pop() {
            let flush = flush_of(&asked);
            if flush.is_quick() {
                let _ = self.conntrack.flush(now, &flush);
                self.with_sessions(|sessions, switch| sessions.flushed(id, switch));
            } else {
                self.flush_beside(now, id, flush);
            }
        }
    }

    fn flush_beside(&self, now: Instant, id: ConnId, flush: Flush) {
        let conntrack = Arc::clone(&self.conntrack);
        self.spawn(|shared| {
            let shared = Rc::clone(shared);
            tokio::task::spawn_local(async move {
                let work = move || conntrack.flush(now, &flush).is_ok();
                let _ = tokio::task::spawn_blocking(work).await;
                let mut switch = shared.borrow_mut();
                switch.with_sessions(|sessions, switch| sessions.flushed(id, switch));
                // What waited unread may be read now.
                if let Some(output) = switch.outputs.get(&id) {
                    output.notify_one();
                }
                switch.settle();
            })
        });
    }
}
