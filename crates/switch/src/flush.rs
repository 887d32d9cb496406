//! Flushes of connections that controllers request.

use super::Switch;
use base::Instant;
use conntrack::flush::is_quick;
use flow::{CtFlush, TupleMatch};
use log::Level;
use ofproto::connection::ConnId;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;

/// Returns the log message at level DBG of a flush (ovs: `lib/ct-dpif.c`, `ct_dpif_flush`).
fn describe(asked: &CtFlush) -> String {
    let CtFlush { zone, protocol, original, reply, .. } = asked;
    let anything = TupleMatch::default();
    if protocol.is_none() && *original == anything && *reply == anything {
        return zone.map_or_else(|| "<all>".to_owned(), |zone| format!("zone {}", zone.0));
    }
    let tuple = |tuple: &TupleMatch| {
        let address = |it: Option<IpAddr>| it.unwrap_or(Ipv6Addr::UNSPECIFIED.into());
        let (src, dst) = (address(tuple.src), address(tuple.dst));
        let l4 = match (tuple.icmp_id, tuple.icmp_type, tuple.icmp_code) {
            (None, None, None) => {
                let (src, dst) = (tuple.src_port, tuple.dst_port);
                let (src, dst) = (src.unwrap_or_default(), dst.unwrap_or_default());
                format!("ct_tp_src={src},ct_tp_dst={dst}")
            }
            (id, kind, code) => {
                let (id, kind) = (id.unwrap_or_default(), kind.unwrap_or_default());
                let code = code.unwrap_or_default();
                format!("icmp_id={id},icmp_type={kind},icmp_code={code}")
            }
        };
        format!("ct_nw_src={src},ct_nw_dst={dst},{l4}")
    };
    let (zone, protocol) = (zone.map_or(0, |zone| zone.0), protocol.unwrap_or_default());
    let (original, reply) = (tuple(original), tuple(reply));
    format!("zone={zone} '{original},ct_nw_proto={protocol}' '{reply}'")
}

impl Switch {
    fn log_flush(&self, asked: &CtFlush) {
        if log::log_enabled!(target: "ct_dpif", Level::Debug) {
            let name = self.settings.dummy.datapath_name();
            log::debug!(target: "ct_dpif", "{name}: ct_flush: {}", describe(asked));
        }
    }

    /// Carries out requested flushes. One that must go through all connections runs on a separate thread; the
    /// requesting session continues when it is done.
    pub(super) fn flush_connections(&mut self, now: Instant) {
        for zone in std::mem::take(&mut self.outbox.conntrack_flush) {
            let flush = CtFlush::zone(zone);
            self.log_flush(&flush);
            // A flush without matching connections is not an error, here and below.
            let _ = self.conntrack.flush(now, &flush);
        }
        // A session that continues may request further flushes.
        while let Some((id, asked)) = self.outbox.conntrack_flush_tuples.pop() {
            self.log_flush(&asked);
            if is_quick(&asked) {
                let _ = self.conntrack.flush(now, &asked);
                self.with_sessions(|sessions, switch| sessions.flushed(id, switch));
            } else {
                self.flush_beside(now, id, asked);
            }
        }
    }

    fn flush_beside(&self, now: Instant, id: ConnId, flush: CtFlush) {
        let conntrack = Arc::clone(&self.conntrack);
        self.spawn(|shared| {
            let shared = Rc::clone(shared);
            tokio::task::spawn_local(async move {
                let work = move || conntrack.flush(now, &flush).is_ok();
                let _ = tokio::task::spawn_blocking(work).await;
                let mut switch = shared.borrow_mut();
                switch.with_sessions(|sessions, switch| sessions.flushed(id, switch));
                // Its unread input may be processed now.
                if let Some(output) = switch.outputs.get(&id) {
                    output.notify_one();
                }
                switch.settle();
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Zone;

    #[test]
    fn flushes_are_logged_in_the_words_of_open_vswitch() {
        let src = Some("10.1.1.1".parse().unwrap());
        let udp = TupleMatch { src, src_port: Some(1), ..TupleMatch::default() };
        let echo = TupleMatch { icmp_type: Some(8), ..TupleMatch::default() };
        let (zone, none) = (Some(Zone(5)), "ct_nw_src=::,ct_nw_dst=::,ct_tp_src=0,ct_tp_dst=0");
        let all = CtFlush::default();
        let cases = [
            (all, "<all>".to_owned()),
            (CtFlush { zone, ..all }, "zone 5".to_owned()),
            (
                CtFlush { zone, protocol: Some(17), original: udp, ..all },
                format!(
                    "zone=5 'ct_nw_src=10.1.1.1,ct_nw_dst=::,ct_tp_src=1,ct_tp_dst=0,\
                     ct_nw_proto=17' '{none}'"
                ),
            ),
            (
                CtFlush { reply: echo, ..all },
                format!(
                    "zone=0 '{none},ct_nw_proto=0' \
                     'ct_nw_src=::,ct_nw_dst=::,icmp_id=0,icmp_type=8,icmp_code=0'"
                ),
            ),
        ];
        for (asked, expect) in cases {
            assert_eq!(describe(&asked), expect);
        }
    }
}
