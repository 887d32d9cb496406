//! Encoding of OpenFlow's own actions (`OFPAT_*`; ovs: `lib/ofp-actions.c`).

use super::list::ActionForm;
use super::set;
use crate::action::{Action, SetForm, Subfield};
use crate::bytes::Output;
use crate::version::Version;
use base::MacAddr;
use flow::Field;
use wire::ethertype;
use wire::protocol;

/// Writes the action if OpenFlow has it in this version. Returns whether it did.
pub(super) fn put(out: &mut Vec<u8>, action: &Action, form: &mut ActionForm) -> bool {
    match form.version {
        Version::V10 => put_old(out, action, form),
        Version::V11 => put_old(out, action, form) || put_shared(out, action, form),
        _ => put12(out, action, form),
    }
}

/// Writes type, length 8, and a number at the start of the remaining 4 bytes.
pub(super) fn short(out: &mut Vec<u8>, kind: u16, value: u128, bytes: usize) {
    out.put_u16(kind);
    out.put_u16(8);
    out.put_uint(value, bytes);
    out.put_zeros(4 - bytes);
}

fn mac(out: &mut Vec<u8>, kind: u16, mac: MacAddr) {
    out.put_u16(kind);
    out.put_u16(16);
    out.put(&mac.0);
    out.put_zeros(6);
}

/// Writes one of the actions of OpenFlow 1.0 and 1.1 for single fields. 1.1 removed `strip_vlan` from their
/// sequence, which renumbers those after it, and added one for ECN.
fn put_old(out: &mut Vec<u8>, action: &Action, form: &mut ActionForm) -> bool {
    let v10 = form.version == Version::V10;
    let moved = |kind: u16| if v10 { kind } else { kind - 1 };
    match action {
        Action::Output { port, max_len } if v10 => {
            short(out, 0, u128::from(port.0) << 16 | u128::from(*max_len), 4);
        }
        Action::SetVlanVid(vid) => {
            ensure_vlan(out, form);
            short(out, 1, (*vid).into(), 2);
        }
        Action::SetVlanPcp(pcp) => {
            ensure_vlan(out, form);
            short(out, 2, (*pcp).into(), 1);
        }
        Action::Enqueue { port, queue } if v10 => {
            out.put_u16(11);
            out.put_u16(16);
            out.put_u16(port.0);
            out.put_zeros(6);
            out.put_u32(*queue);
        }
        Action::StripVlan if v10 => short(out, 3, 0, 0),
        Action::SetEthSrc(address) => mac(out, moved(4), *address),
        Action::SetEthDst(address) => mac(out, moved(5), *address),
        Action::SetIpv4Src(address) => short(out, moved(6), u32::from(*address).into(), 4),
        Action::SetIpv4Dst(address) => short(out, moved(7), u32::from(*address).into(), 4),
        Action::SetIpDscp(tos) => short(out, moved(8), (*tos).into(), 1),
        Action::SetIpEcn(ecn) if !v10 => short(out, 8, (*ecn).into(), 1),
        Action::SetTpSrc(port) => short(out, 9, (*port).into(), 2),
        Action::SetTpDst(port) => short(out, 10, (*port).into(), 2),
        // Setting a VLAN id adds a tag in OpenFlow 1.0.
        Action::PushVlan(_) if v10 => {}
        Action::Set { field, value, mask, form: SetForm::SetField | SetForm::Masked } => {
            return put_old_set(out, *field, (*value, *mask), form);
        }
        _ => return false,
    }
    true
}

/// Writes a `set_field` for which OpenFlow 1.0 or 1.1 has an action.
fn put_old_set(
    out: &mut Vec<u8>,
    field: Field,
    (value, mask): (u128, u128),
    form: &mut ActionForm,
) -> bool {
    if mask != field.all_ones() && field != Field::NwTos {
        return false;
    }
    let is_sctp = form.proto.nw_proto == protocol::SCTP;
    let address = MacAddr::from_u64(value as u64);
    let ipv4 = std::net::Ipv4Addr::from(value as u32);
    let action = match field {
        Field::VlanTci if value & 0x1000 != 0 => {
            put_old(out, &Action::SetVlanVid(value as u16 & 0xfff), form);
            Action::SetVlanPcp((value >> 13) as u8)
        }
        Field::VlanTci if form.version == Version::V10 => Action::StripVlan,
        Field::VlanTci => return put_shared(out, &Action::StripVlan, form),
        // These actions change an existing tag.
        Field::VlanVid | Field::VlanVidPresent => {
            short(out, 1, value & 0xfff, 2);
            return true;
        }
        Field::VlanPcp => {
            short(out, 2, value, 1);
            return true;
        }
        Field::EthSrc => Action::SetEthSrc(address),
        Field::EthDst => Action::SetEthDst(address),
        Field::Ipv4Src => Action::SetIpv4Src(ipv4),
        Field::Ipv4Dst => Action::SetIpv4Dst(ipv4),
        Field::NwTos => Action::SetIpDscp(value as u8 & 0xfc),
        Field::IpDscp => Action::SetIpDscp((value as u8) << 2),
        Field::IpEcn if form.version != Version::V10 => Action::SetIpEcn(value as u8),
        // These are for TCP and UDP.
        Field::TpSrc if !is_sctp => Action::SetTpSrc(value as u16),
        Field::TpDst if !is_sctp => Action::SetTpDst(value as u16),
        _ => return false,
    };
    put_old(out, &action, form)
}

/// Actions that are the same from OpenFlow 1.1 on.
fn put_shared(out: &mut Vec<u8>, action: &Action, form: &mut ActionForm) -> bool {
    match action {
        Action::Output { port, max_len } => {
            out.put_u16(0);
            out.put_u16(16);
            out.put_u32(port.to_wire32());
            out.put_u16(*max_len);
            out.put_zeros(6);
        }
        Action::StripVlan => {
            form.proto.has_vlan = false;
            short(out, 18, 0, 0);
        }
        Action::PushVlan(tpid) => {
            form.proto.has_vlan = true;
            short(out, 17, (*tpid).into(), 2);
        }
        Action::SetQueue(queue) => short(out, 21, (*queue).into(), 4),
        // Later versions set the queue with a separate action.
        Action::Enqueue { port, queue } => {
            let output = Action::Output { port: *port, max_len: u16::MAX };
            for action in [Action::SetQueue(*queue), output, Action::PopQueue] {
                super::list::put_action(out, &action, form);
            }
        }
        Action::Group(group) => short(out, 22, (*group).into(), 4),
        Action::SetIpTtl(ttl) => short(out, 23, (*ttl).into(), 1),
        Action::DecTtl(ids) if ids.as_slice() == [0] => short(out, 24, 0, 0),
        _ => return false,
    }
    true
}

fn put12(out: &mut Vec<u8>, action: &Action, form: &mut ActionForm) -> bool {
    let port_number = |kind: u16| (form.proto.nw_proto, kind);
    match action {
        Action::SetVlanVid(vid) => {
            ensure_vlan(out, form);
            set::put_whole(out, form, Field::VlanVidPresent, 0x1000 | u128::from(*vid));
        }
        Action::SetVlanPcp(pcp) => {
            ensure_vlan(out, form);
            set::put_whole(out, form, Field::VlanPcp, (*pcp).into());
        }
        Action::SetEthSrc(mac) => set::put_whole(out, form, Field::EthSrc, mac.to_u64().into()),
        Action::SetEthDst(mac) => set::put_whole(out, form, Field::EthDst, mac.to_u64().into()),
        Action::SetIpv4Src(ip) => set::put_whole(out, form, Field::Ipv4Src, u32::from(*ip).into()),
        Action::SetIpv4Dst(ip) => set::put_whole(out, form, Field::Ipv4Dst, u32::from(*ip).into()),
        Action::SetIpDscp(tos) => set::put_whole(out, form, Field::IpDscp, u128::from(tos >> 2)),
        Action::SetIpEcn(ecn) => set::put_whole(out, form, Field::IpEcn, (*ecn).into()),
        Action::SetTpSrc(port) => match port_number(9) {
            (protocol::TCP | protocol::UDP | protocol::SCTP, _) => {
                set::put_whole(out, form, Field::TpSrc, (*port).into())
            }
            (_, kind) => short(out, kind, (*port).into(), 2),
        },
        Action::SetTpDst(port) => match port_number(10) {
            (protocol::TCP | protocol::UDP | protocol::SCTP, _) => {
                set::put_whole(out, form, Field::TpDst, (*port).into())
            }
            (_, kind) => short(out, kind, (*port).into(), 2),
        },
        Action::Set { field, value, mask, form: set_form } => {
            return set::put_set_field(out, form, *field, *value, *mask, *set_form);
        }
        Action::SetOption(set) => return set::put_set_option(out, form, set),
        Action::Meter(meter) if form.version == Version::V15 => short(out, 29, (*meter).into(), 4),
        Action::Move { source, target, .. } if form.version == Version::V15 => {
            put_copy_field(out, source, target, form);
        }
        _ => return put_shared(out, action, form),
    }
    true
}

/// OpenFlow 1.0's `mod_vlan_vid` adds a tag if there is none; later versions need an explicit action.
fn ensure_vlan(out: &mut Vec<u8>, form: &mut ActionForm) {
    if !form.proto.has_vlan && form.version != Version::V10 {
        short(out, 17, ethertype::VLAN.into(), 2);
        form.proto.has_vlan = true;
    }
}

fn put_copy_field(out: &mut Vec<u8>, source: &Subfield, target: &Subfield, form: &ActionForm) {
    let start = out.len();
    out.put_u16(28);
    out.put_u16(0);
    out.put_u16(target.bits as u16);
    out.put_u16(source.offset as u16);
    out.put_u16(target.offset as u16);
    out.put_zeros(2);
    crate::oxm::put_header(out, source, form.proto, form.version as u8);
    crate::oxm::put_header(out, target, form.proto, form.version as u8);
    out.pad8(start);
    let len = out.len() - start;
    out.set_u16(start + 2, len);
}
