//! Encoding of Nicira's actions (`NXAST_*`).

use super::list::{ActionForm, put_action};
use super::nicira::COPY_FIELD;
use super::{choice, learn, sample, set};
use crate::action::{Action, Ct, SetForm, Subfield, ToController, ZoneSource};
use crate::bytes::Output;
use crate::oxm;
use crate::vendor::{NICIRA, ONF};
use crate::version::Version;
use base::{OfPort, TableId};
use flow::{Field, NatKind, NatRange, PortSelection};
use std::net::IpAddr;

/// Writes one action: header, body, and padding to 8 bytes.
pub(super) fn action(out: &mut Vec<u8>, subtype: u16, body: impl FnOnce(&mut Vec<u8>)) {
    vendors_action(out, NICIRA, subtype, body);
}

fn vendors_action(out: &mut Vec<u8>, vendor: u32, subtype: u16, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_u16(0xffff);
    out.put_u16(0);
    out.put_u32(vendor);
    out.put_u16(subtype);
    body(out);
    out.pad8(start);
    let len = out.len() - start;
    out.set_u16(start + 2, len);
}

/// Writes an action that OpenFlow does not have. Instructions have no encoding in a list of actions, except
/// for those that Nicira's actions express in OpenFlow 1.0.
pub(super) fn put(out: &mut Vec<u8>, what: &Action, form: &mut ActionForm) {
    match what {
        Action::OutputReg { source, max_len } => put_output_reg(out, source, *max_len, form),
        Action::Controller(to) => put_controller(out, to),
        Action::Set { value, form: SetForm::SetTunnel, .. } => put_tunnel(out, *value as u64),
        Action::Set { value, form: SetForm::SetTunnel64, .. } => put_tunnel64(out, *value as u64),
        Action::Set { field, value, mask, form: set_form } => {
            set::put_loads(out, form, *field, (*value, *mask), *set_form);
        }
        Action::Move { source, target, is_copy } => put_move(out, source, target, *is_copy, form),
        Action::StackPush(part) => put_stack(out, 27, part, form),
        Action::StackPop(part) => put_stack(out, 28, part, form),
        Action::SetIpEcn(ecn) => {
            set::put_loads(out, form, Field::IpEcn, ((*ecn).into(), 3), SetForm::Load)
        }
        Action::SetIpTtl(ttl) => {
            set::put_loads(out, form, Field::NwTtl, ((*ttl).into(), 0xff), SetForm::Load)
        }
        Action::DecTtl(ids) if ids.as_slice() == [0] => action(out, 18, |_| {}),
        Action::DecTtl(ids) => action(out, 21, |out| {
            out.put_u16(ids.len() as u16);
            out.put_zeros(4);
            ids.iter().for_each(|&id| out.put_u16(id));
        }),
        Action::Resubmit { in_port, table, with_ct_orig } => {
            put_resubmit(out, *in_port, *table, *with_ct_orig);
        }
        Action::GotoTable(table) if form.version == Version::V10 => {
            put_resubmit(out, None, Some(*table), false);
        }
        Action::Ct(ct) => put_ct(out, ct, form),
        Action::Group(group) => action(out, 40, |out| {
            out.put_zeros(2);
            out.put_u32(*group);
        }),
        Action::CtClear => action(out, 43, |_| {}),
        Action::Nat(range) => put_nat(out, range.as_ref()),
        Action::Clone(actions) => action(out, 42, |out| {
            out.put_zeros(6);
            // VLAN tags changed in a clone are unchanged after it.
            let mut inner = *form;
            actions.iter().for_each(|action| put_action(out, action, &mut inner));
        }),
        Action::Note(bytes) => action(out, 8, |out| out.put(bytes)),
        Action::Exit => action(out, 17, |_| {}),
        Action::SetQueue(queue) => action(out, 4, |out| {
            out.put_zeros(2);
            out.put_u32(*queue);
        }),
        Action::PopQueue => action(out, 5, |_| {}),
        Action::Learn(what) => learn::put(out, what, form),
        Action::Bundle(bundle) => choice::put_bundle(out, bundle, form),
        Action::Multipath(multipath) => choice::put_multipath(out, multipath, form),
        Action::Sample(what) => sample::put(out, what, form),
        Action::FinTimeout { idle_s, hard_s } => action(out, 19, |out| {
            out.put_u16(*idle_s);
            out.put_u16(*hard_s);
            out.put_zeros(2);
        }),
        Action::WriteMetadata { value, mask } if form.version == Version::V10 => {
            action(out, 22, |out| {
                out.put_zeros(6);
                out.put_u64(*value);
                out.put_u64(*mask);
            });
        }
        _ => put_lengths(out, what, form),
    }
}

/// Actions on packet lengths and tunnel options, conjunctions, and actions for tests.
fn put_lengths(out: &mut Vec<u8>, what: &Action, form: &mut ActionForm) {
    match what {
        Action::Conjunction(conjunction) => action(out, 34, |out| {
            out.put(&[conjunction.clause, conjunction.clauses]);
            out.put_u32(conjunction.id);
        }),
        Action::OutputTrunc { port, max_len } => action(out, 39, |out| {
            out.put_u16(port.0);
            out.put_u32(*max_len);
        }),
        Action::CheckPktLarger { bytes, target } => action(out, 49, |out| {
            let start = out.len();
            out.put_u16(*bytes);
            out.put_u16(target.offset as u16);
            oxm::put_header(out, target, form.proto, 0);
            out.put_zeros(14 - (out.len() - start));
        }),
        Action::SetOption(set) => set::put_option_load(out, set),
        Action::DeleteField(option) => action(out, 50, |out| {
            let start = out.len();
            oxm::put_header(out, option, form.proto, 0);
            out.put_zeros(14 - (out.len() - start));
        }),
        Action::DebugSlow => action(out, 254, |_| {}),
        Action::DebugRecirc => action(out, 255, |_| {}),
        _ => {}
    }
}

/// Writes a `move`, or in OpenFlow 1.3 the ONF's copy-field if it was one.
fn put_move(
    out: &mut Vec<u8>,
    source: &Subfield,
    target: &Subfield,
    is_copy: bool,
    form: &ActionForm,
) {
    let is_copy = is_copy && form.version == Version::V13;
    let numbers = [target.bits, source.offset, target.offset].map(|number| number as u16);
    let version = if is_copy { form.version as u8 } else { 0 };
    let fields = |out: &mut Vec<u8>| {
        [source, target].into_iter().for_each(|it| oxm::put_header(out, it, form.proto, version));
    };
    if is_copy {
        vendors_action(out, ONF, COPY_FIELD, |out| {
            out.put_zeros(2);
            numbers.into_iter().for_each(|number| out.put_u16(number));
            out.put_zeros(2);
            fields(out);
        });
    } else {
        action(out, 6, |out| {
            numbers.into_iter().for_each(|number| out.put_u16(number));
            fields(out);
        });
    }
}

fn put_output_reg(out: &mut Vec<u8>, source: &Subfield, max_len: u16, form: &ActionForm) {
    let mut header = Vec::new();
    oxm::put_header(&mut header, source, form.proto, 0);
    let short = header.len() == 4;
    action(out, if short { 15 } else { 32 }, |out| {
        out.put_u16(set::pack_offset_bits(source));
        if short {
            out.put(&header);
            out.put_u16(max_len);
            out.put_zeros(6);
        } else {
            out.put_u16(max_len);
            out.put(&header);
            out.put_zeros(2);
        }
    });
}

fn put_controller(out: &mut Vec<u8>, to: &ToController) {
    if to.userdata.is_empty() && !to.pause && to.meter.is_none() {
        return action(out, 20, |out| {
            out.put_u16(to.max_len);
            out.put_u16(to.controller_id);
            out.put(&[to.reason, 0]);
        });
    }
    fn property(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
        let start = out.len();
        out.put_u16(kind);
        out.put_u16(4 + value.len() as u16);
        out.put(value);
        out.pad8(start);
    }
    action(out, 37, |out| {
        out.put_zeros(6);
        // Numbers of 16 bits are padded within the property (ovs: `lib/ofp-prop.c`, `ofpprop_put_u16`).
        let short = |value: u16| (u32::from(value) << 16).to_be_bytes();
        if to.max_len != u16::MAX {
            property(out, 0, &short(to.max_len));
        }
        if to.controller_id != 0 {
            property(out, 1, &short(to.controller_id));
        }
        if to.reason != 1 {
            property(out, 2, &[to.reason]);
        }
        if !to.userdata.is_empty() {
            property(out, 3, &to.userdata);
        }
        if to.pause {
            property(out, 4, &[]);
        }
        if let Some(meter) = to.meter {
            property(out, 5, &meter.get().to_be_bytes());
        }
    });
}

/// Writes `NXAST_SET_TUNNEL`, or `NXAST_SET_TUNNEL64` for a key that is too large for it.
fn put_tunnel(out: &mut Vec<u8>, key: u64) {
    match u32::try_from(key) {
        Ok(key) => action(out, 2, |out| {
            out.put_zeros(2);
            out.put_u32(key);
        }),
        Err(_) => put_tunnel64(out, key),
    }
}

fn put_tunnel64(out: &mut Vec<u8>, key: u64) {
    action(out, 9, |out| {
        out.put_zeros(6);
        out.put_u64(key);
    });
}

fn put_stack(out: &mut Vec<u8>, subtype: u16, part: &Subfield, form: &ActionForm) {
    action(out, subtype, |out| {
        let start = out.len();
        out.put_u16(part.offset as u16);
        oxm::put_header(out, part, form.proto, 0);
        out.put_u16(part.bits as u16);
        out.put_zeros(14 - (out.len() - start));
    });
}

fn put_resubmit(out: &mut Vec<u8>, in_port: Option<OfPort>, table: Option<TableId>, ct: bool) {
    action(out, if ct { 44 } else { 14 }, |out| {
        out.put_u16(in_port.unwrap_or(OfPort::IN_PORT).0);
        out.put_u8(table.map_or(0xff, |table| table.0));
        out.put_zeros(3);
    });
}

fn put_ct(out: &mut Vec<u8>, ct: &Ct, form: &ActionForm) {
    action(out, 35, |out| {
        out.put_u16(u16::from(ct.commit) | u16::from(ct.force) << 1);
        match ct.zone {
            ZoneSource::Immediate(zone) => {
                out.put_u32(0);
                out.put_u16(zone);
            }
            ZoneSource::Field(part) => {
                oxm::put_header(out, &part, form.proto, 0);
                out.put_u16(set::pack_offset_bits(&part));
            }
        }
        out.put_u8(ct.table.map_or(0xff, |table| table.0));
        out.put_zeros(3);
        out.put_u16(ct.alg);
        let mut inner = *form;
        ct.exec.iter().for_each(|action| put_action(out, action, &mut inner));
    });
}

fn put_nat(out: &mut Vec<u8>, range: Option<&NatRange>) {
    action(out, 36, |out| {
        out.put_zeros(2);
        let Some(range) = range else { return out.put_zeros(4) };
        let mut flags: u16 = if range.kind == NatKind::Src { 1 } else { 2 };
        flags |= u16::from(range.persistent) << 2;
        flags |= match range.selection {
            PortSelection::Default => 0,
            PortSelection::Hash => 8,
            PortSelection::Random => 16,
        };
        let mut present = 0u16;
        let mut options = Vec::new();
        if let Some((first, last)) = range.addresses {
            for (address, place) in [(Some(first), 0), ((last != first).then_some(last), 1)] {
                match address {
                    Some(IpAddr::V4(address)) => {
                        present |= 1 << place;
                        options.put(&address.octets());
                    }
                    Some(IpAddr::V6(address)) => {
                        present |= 4 << place;
                        options.put(&address.octets());
                    }
                    None => {}
                }
            }
        }
        if let Some((first, last)) = range.ports {
            present |= 16;
            options.put_u16(first);
            if last != first {
                present |= 32;
                options.put_u16(last);
            }
        }
        out.put_u16(flags);
        out.put_u16(present);
        out.put(&options);
    });
}
