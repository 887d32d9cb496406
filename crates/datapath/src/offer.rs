//! Offers connections to a device that forwards by itself: what enters the unified flow cache, as a rule.

use crate::burst::PathTrace;
use crate::flow_kind::FinalActions;
use crate::flow_paths::Hit;
use crate::nat_rewrite::NatRewrite;
use crate::unified::NewEntry;
use crate::worker::Worker;
use base::Instant;
use flow::{Action, FlowId, FlowStats, Headers, OffloadOffer, OffloadRule};
use std::sync::Arc;
use wire::protocol;

/// Offers that may wait to be taken; the loop around takes them after every batch or two.
const OFFERS_MAX: usize = 1024;

impl Worker {
    /// The offers since the last time, if there are any.
    pub fn take_offers(&mut self) -> Option<Vec<OffloadOffer>> {
        (!self.offers.is_empty()).then(|| std::mem::take(&mut self.offers))
    }

    /// Has all connections offered anew, as far as packets of them come.
    pub fn offer_again(&mut self) {
        self.unified.forget();
    }

    /// Counts packets that a device forwarded against the flow that they would have hit.
    pub fn credit_offloaded(&mut self, now: Instant, id: FlowId, stats: FlowStats) {
        if let Some(handle) = self.handle_of(id) {
            self.credit(now, handle, stats.packets, stats.bytes, stats.tcp_flags);
        }
    }
}

/// Offers what was cached of a packet, if it is of an established connection.
#[inline(never)]
pub(crate) fn offer(
    worker: &mut Worker,
    headers: &Headers,
    mask: &Headers,
    entry: &NewEntry,
    trace: &PathTrace,
) {
    if worker.offers.len() < OFFERS_MAX
        && let Some(offer) = make(worker, headers, mask, entry, trace)
    {
        worker.offers.push(offer);
    }
}

fn make(
    worker: &Worker,
    headers: &Headers,
    mask: &Headers,
    entry: &NewEntry,
    trace: &PathTrace,
) -> Option<OffloadOffer> {
    let ct_passes = entry.ct_passes.filter(|it| !it.was_new)?;
    if !matches!(headers.protocol(), protocol::TCP | protocol::UDP) {
        return None;
    }
    let actions: Arc<[Action]> = match worker.final_actions(entry.path_id)? {
        FinalActions::Output(port) => Arc::new([Action::Output(port)]),
        FinalActions::Actions(actions) => actions,
        FinalActions::Nothing | FinalActions::Push(..) => return None,
    };
    let translated = match entry.nat_rewrite {
        None => None,
        Some(NatRewrite::Icmp { .. }) => return None,
        Some(_) => Some(trace.tuple.translated()),
    };
    let flow = |hit: &Hit| Some(worker.flows.get(hit.flow)?.id);
    let flows = trace.passes.iter().map(flow).collect::<Option<Vec<_>>>()?;
    let rule = OffloadRule {
        headers: *headers,
        mask: *mask,
        connection: ct_passes.first.connection,
        second: ct_passes.second.map(|it| it.connection),
        translated,
        actions,
    };
    Some(OffloadOffer { worker: worker.id, rule, flows })
}

#[cfg(test)]
mod tests;
