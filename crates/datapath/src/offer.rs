//! Offers connections that enter the unified cache to a device that forwards by itself.

use crate::burst::PathTrace;
use crate::flow_kind::FinalActions;
use crate::flow_paths::Hit;
use crate::nat_rewrite::NatRewrite;
use crate::outer::{Seen, Shape};
use crate::unified::{NewEntry, mark_of};
use crate::worker::Worker;
use base::Instant;
use flow::{Action, Field, FlowId, FlowStats, Headers, OffloadOffer, OffloadRule, OffloadTunnel};
use std::sync::Arc;
use wire::protocol;

/// Maximum number of waiting offers; the loop around the worker takes them after every batch or two.
const OFFERS_MAX: usize = 1024;
/// The ECN bits of a TOS (RFC 3168).
const ECN: u128 = 3;

impl Worker {
    /// Takes the offers since the last call, if there are any.
    pub fn take_offers(&mut self) -> Option<Vec<OffloadOffer>> {
        (!self.offers.is_empty()).then(|| std::mem::take(&mut self.offers))
    }

    /// Makes all connections be offered anew with their next packets.
    pub fn offer_again(&mut self) {
        self.unified.forget();
    }

    /// Counts packets that a device forwarded for the flow that they would have hit.
    pub fn credit_offloaded(&mut self, now: Instant, id: FlowId, stats: FlowStats) {
        if let Some(handle) = self.handle_of(id) {
            self.credit(now, handle, stats.packets, stats.bytes, stats.tcp_flags);
        }
    }
}

/// Offers the cached path of a packet if it belongs to an established connection. `inner` are its headers and
/// the masked bits, `outer` is its encapsulation, and `place` is the entry's position.
#[inline(never)]
pub(crate) fn offer(
    worker: &mut Worker,
    inner: (&Headers, &Headers),
    outer: Option<(&Headers, Shape, &Seen)>,
    (entry, place): (&NewEntry, u32),
    trace: &PathTrace,
) {
    if worker.offers.len() < OFFERS_MAX
        && let Some(offer) = make(worker, inner, outer, (entry, place), trace)
    {
        worker.offers.push(offer);
    }
}

fn make(
    worker: &Worker,
    (headers, mask): (&Headers, &Headers),
    outer: Option<(&Headers, Shape, &Seen)>,
    (entry, place): (&NewEntry, u32),
    trace: &PathTrace,
) -> Option<OffloadOffer> {
    let ct_passes = entry.ct_passes.filter(|it| !it.was_new)?;
    if !matches!(headers.protocol(), protocol::TCP | protocol::UDP) {
        return None;
    }
    let actions: Arc<[Action]> = match worker.final_actions(entry.path_id)? {
        FinalActions::Output(port) => Arc::new([Action::Output(port)]),
        FinalActions::Actions(actions) => actions,
        FinalActions::Push(to, port) => Arc::new([Action::TunnelPush(to), Action::Output(port)]),
        FinalActions::Nothing => Arc::new([]),
    };
    let nat_rewrite = match entry.nat_rewrite {
        None => None,
        Some(NatRewrite::Icmp { .. }) => return None,
        Some(_) => Some(trace.tuple.nat_rewrite()),
    };
    let flow = |hit: &Hit| Some(worker.flows.get(hit.flow)?.id);
    let flows = trace.passes.iter().map(flow).collect::<Option<Vec<_>>>()?;
    let copies_ecn = copies_ecn(worker, trace, &actions);
    let rule = OffloadRule {
        // In the cache, a class number stands for the tunnel's port.
        headers: outer.map_or(*headers, |(.., seen)| headers.with_in_port(seen.port)),
        mask: *mask,
        connection: ct_passes.first.connection,
        second: ct_passes.second.map(|it| it.connection),
        nat_rewrite,
        copies_ecn,
        actions,
        tunnel: outer.map(tunnel),
        mark: mark_of(place),
    };
    Some(OffloadOffer { worker: worker.id, rule, flows })
}

/// Returns whether only the last flow matches ECN bits, and only because the outer headers copy them.
fn copies_ecn(worker: &Worker, trace: &PathTrace, actions: &[Action]) -> bool {
    let [.., Action::TunnelPush(to), Action::Output(_)] = actions else { return false };
    let Some((_, before)) = trace.passes.split_last() else { return false };
    let is_matched = |hit: &Hit| {
        let mask = worker.flows.mask(hit.flow);
        mask.is_none_or(|mask| mask.get(Field::NwTos) & ECN != 0)
    };
    to.copies_ecn && !before.iter().any(is_matched)
}

/// The encapsulation of a path that begins in a tunnel.
fn tunnel((headers, shape, seen): (&Headers, Shape, &Seen)) -> OffloadTunnel {
    OffloadTunnel {
        kind: seen.kind,
        headers: *headers,
        mask: shape.mask,
        word: seen.word,
        has_checksum: seen.has_checksum,
        header_bytes: seen.header_len,
    }
}

#[cfg(test)]
mod tests;
