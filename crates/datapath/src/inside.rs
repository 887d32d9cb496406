//! Decapsulates packets before the lookup if the unified cache may have an entry for the inner packet.

use crate::burst::Burst;
use crate::outer::Outers;
use crate::outside::{Outside, PortSet};
use crate::tunnel;
use flow::{Action, Headers};
use std::ops::Range;

/// Decapsulates the packets of a batch that belong to a known class and carry a plain inner packet. The inner
/// packet and its headers then replace the packet. `from` is the set of ports whose packets some flow
/// decapsulates.
#[inline]
pub(crate) fn open(outers: &mut Outers, burst: &mut Burst, from: PortSet) {
    burst.opened = 0;
    if from.may_have(burst.in_port) {
        open_all(outers, burst);
    }
}

#[inline(never)]
fn open_all(outers: &mut Outers, burst: &mut Burst) {
    for i in 0..burst.count {
        if burst.headers[i].may_be_outer() && !burst.headers[i].is_none() {
            open_one(outers, burst, i);
        }
    }
}

#[inline]
fn open_one(outers: &mut Outers, burst: &mut Burst, i: usize) {
    let (frame, headers) = (&mut burst.frames[i], &mut burst.headers[i]);
    let (layers, offload) = (frame.layers, frame.packet.offload);
    let transport = layers.l3 + if headers.is_ipv6() { 40 } else { 20 };
    if layers.l3 != 14 || layers.l4 != Some(transport) || offload.gso.is_some() {
        return;
    }
    let data = frame.packet.data();
    let Some(found) = outers.find(headers, data, tunnel::is_trusted(&offload)) else { return };
    let (header_len, end, len) = (found.envelope.len, found.envelope.end, data.len());
    let Some(inside) = data.get(header_len..end) else { return };
    let mut inner = Headers::none();
    let Some(inner_layers) = inner.read(inside, found.number) else { return };
    let (class, port) = (found.number, found.port);
    if !tunnel::cut(&mut frame.packet, header_len, end) {
        return;
    }
    burst.outside[i] = Outside { headers: *headers, class, port, header_len, len, layers, offload };
    (*headers, frame.layers) = (inner, inner_layers);
    burst.opened |= 1 << i;
}

/// Restores the outer part of packets that did not hit the cache.
#[inline]
pub(crate) fn close(burst: &mut Burst, packets: Range<usize>) {
    if burst.opened == 0 {
        return;
    }
    let Burst { frames, headers, outside, .. } = burst;
    for i in packets.filter(|i| burst.opened >> i & 1 != 0) {
        let before = &outside[i];
        frames[i].packet.uncut(before.header_len, before.len, before.offload);
        (headers[i], frames[i].layers) = (before.headers, before.layers);
    }
}

/// Whether actions decapsulate, including those on copies and behind a length check.
pub(crate) fn opens_tunnels(actions: &[Action]) -> bool {
    actions.iter().any(|action| match action {
        Action::TunnelPop { .. } => true,
        Action::Clone(actions) | Action::CloneCut { actions, .. } => opens_tunnels(actions),
        Action::CheckLen(check) => {
            opens_tunnels(&check.greater) || opens_tunnels(&check.less_equal)
        }
        _ => false,
    })
}
