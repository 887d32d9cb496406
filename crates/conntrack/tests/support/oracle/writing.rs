//! Writes into packets: connection fields, and other addresses.

use super::alg::{self, Expected};
use super::reading::{self, What};
use super::{Known, nat, reverse};
use base::{PortNo, Zone};
use flow::{CtFields, CtState, FlowKey, Frame, Tuple, TupleL4};
use packet::{Checksum, Packet};
use std::net::IpAddr;

/// The connection in a packet's key.
pub enum Naming<'a> {
    Nothing,
    Tuple(Tuple),
    Known(&'a Known),
    /// The parent's fields, for an expected connection.
    Expected(&'a Expected),
}

pub fn write(frame: &mut Frame, zone: Zone, state: CtState, naming: Naming<'_>) {
    let (tuple, mark, label) = match naming {
        Naming::Nothing => (None, 0, 0),
        Naming::Tuple(tuple) => (Some(tuple), 0, 0),
        Naming::Known(it) => (Some(it.parent.unwrap_or(it.original)), it.mark, it.label),
        Naming::Expected(it) => (Some(it.parent), it.mark, it.label),
    };
    let halves = |bits: u128| [(bits >> 64) as u64, bits as u64];
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let mut fields = CtFields {
        state: state | CtState::TRK,
        zone,
        mark,
        label: halves(label),
        ..CtFields::default()
    };
    if let Some(tuple) = tuple {
        fields.src = halves(bits(tuple.src));
        fields.dst = halves(bits(tuple.dst));
        fields.protocol = tuple.protocol;
        fields.ports = match tuple.l4 {
            TupleL4::Ports { src, dst } => [src, dst],
            TupleL4::Icmp { icmp_type, code, .. } => [icmp_type.into(), code.into()],
            TupleL4::None => [0, 0],
        };
    }
    frame.key.set_ct(&fields);
}

/// Copies the connection fields of one packet to another.
pub fn copy_ct(to: &mut FlowKey, from: &FlowKey) {
    const CT_WORDS: std::ops::Range<usize> = 1..9;
    to.words_mut()[CT_WORDS].copy_from_slice(&from.words()[CT_WORDS]);
}

pub fn rewrite_nat(frame: &mut Frame, known: &Known, is_reply: bool, source: bool) {
    let mut bytes = frame.packet.data().to_vec();
    let (_, ip) = reading::network(&bytes);
    let is_partial = frame.packet.offload.checksum == Checksum::Partial;
    let after = known.after_nat(is_reply);
    let seen = reading::read(frame).expect("it was read before");
    if let What::Error { .. } = seen.what {
        let (src, dst) = reading::addresses(&bytes, ip);
        let outer = if source { (after.src, dst) } else { (src, after.dst) };
        nat::write_error(&mut bytes, ip, outer, &reverse(after));
    } else {
        if let What::Tcp(segment) = seen.what {
            let from = usize::from(is_reply);
            alg::rewrite(&mut bytes, ip, &known.session, from, &segment);
        }
        nat::write_tuple(&mut bytes, ip, &after, is_partial);
    }
    let offload = frame.packet.offload;
    let mut packet = Packet::from_bytes(&bytes);
    packet.offload = offload;
    *frame = Frame::parse(packet, PortNo(1)).expect("an Ethernet header");
}
