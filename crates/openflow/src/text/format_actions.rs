//! Actions as text (ovs: `lib/ofp-actions.c`, `ofpacts_format`).

use super::actions::REASONS;
use super::format_match::{ipv4, ipv6, mac};
use super::value::{is_ipv4, is_ipv6, is_mac};
use super::{choice, encap, learn, mpls, sample};
use crate::action::{
    Action, Conjunction, Ct, SetForm, SetOption, Subfield, ToController, ZoneSource,
};
use crate::actions::{assignable, segments};
use crate::oxm::{Proto, for_field};
use base::OfPort;
use flow::{Field, Match, NatKind, NatRange, PortSelection};
use std::net::IpAddr;

/// Formats actions as `ovs-ofctl dump-flows` prints them; `drop` if there are none. The match determines the
/// protocol of assigned ports.
pub fn format_actions(actions: &[Action], matching: &Match) -> String {
    list(actions, Proto::of(matching))
}

fn list(actions: &[Action], proto: Proto) -> String {
    if actions.is_empty() {
        return "drop".to_owned();
    }
    let texts: Vec<String> = actions.iter().map(|action| one(action, proto)).collect();
    texts.join(",")
}

fn one(action: &Action, proto: Proto) -> String {
    match action {
        Action::Output { port, max_len } => output(*port, *max_len),
        Action::OutputReg { source, .. } => format!("output:{}", bits(source, proto)),
        Action::OutputTrunc { port, max_len } => format!("output(port={port},max_len={max_len})"),
        Action::CheckPktLarger { bytes, target } => larger(*bytes, target, proto),
        Action::DeleteField(option) => delete_field(option.field, proto),
        Action::Controller(to) => controller(to),
        Action::Set { field, value, mask, form } => set(*field, *value, *mask, *form, proto),
        Action::SetOption(set) => set_option(set, proto),
        Action::Move { source, target, .. } => {
            format!("move:{}->{}", bits(source, proto), bits(target, proto))
        }
        Action::StackPush(part) => format!("push:{}", bits(part, proto)),
        Action::StackPop(part) => format!("pop:{}", bits(part, proto)),
        Action::SetVlanVid(vid) => format!("mod_vlan_vid:{vid}"),
        Action::SetVlanPcp(pcp) => format!("mod_vlan_pcp:{pcp}"),
        Action::PushVlan(tpid) => format!("push_vlan:{tpid:#x}"),
        Action::SetEthSrc(address) => format!("mod_dl_src:{address}"),
        Action::SetEthDst(address) => format!("mod_dl_dst:{address}"),
        Action::SetIpv4Src(address) => format!("mod_nw_src:{address}"),
        Action::SetIpv4Dst(address) => format!("mod_nw_dst:{address}"),
        Action::SetIpDscp(tos) => format!("mod_nw_tos:{tos}"),
        Action::SetIpEcn(ecn) => format!("mod_nw_ecn:{ecn}"),
        Action::SetIpTtl(ttl) => format!("mod_nw_ttl:{ttl}"),
        Action::SetTpSrc(port) => format!("mod_tp_src:{port}"),
        Action::SetTpDst(port) => format!("mod_tp_dst:{port}"),
        Action::DecTtl(ids) if ids.as_slice() == [0] => "dec_ttl".to_owned(),
        Action::DecTtl(ids) => {
            let ids: Vec<String> = ids.iter().map(u16::to_string).collect();
            format!("dec_ttl({})", ids.join(","))
        }
        Action::Resubmit { in_port, table, with_ct_orig } => {
            let port = in_port.map(|port| port.to_string());
            let table = table.map(|table| table.to_string());
            match (port, table, with_ct_orig) {
                (Some(port), None, false) => format!("resubmit:{port}"),
                (port, table, ct) => {
                    let (port, table) = (port.unwrap_or_default(), table.unwrap_or_default());
                    format!("resubmit({port},{table}{})", if *ct { ",ct" } else { "" })
                }
            }
        }
        Action::Ct(action) => ct(action, proto),
        Action::Group(group) => format!("group:{group}"),
        Action::Meter(meter) => format!("meter:{meter}"),
        Action::Nat(range) => nat(range.as_ref()),
        Action::Clone(actions) => format!("clone({})", list(actions, proto)),
        Action::Note(bytes) => format!("note:{}", dotted(bytes)),
        Action::SetQueue(queue) => format!("set_queue:{queue}"),
        Action::Enqueue { port, queue } => format!("enqueue:{port}:{queue}"),
        Action::Learn(what) => learn::format(what, proto),
        Action::Conjunction(Conjunction { id, clause, clauses }) => {
            format!("conjunction({id},{}/{clauses})", clause + 1)
        }
        Action::Bundle(bundle) => choice::format_bundle(bundle, proto),
        Action::Multipath(multipath) => choice::format_multipath(multipath, proto),
        Action::Sample(what) => sample::format(what, proto),
        Action::FinTimeout { idle_s, hard_s } => fin_timeout(*idle_s, *hard_s),
        Action::WriteActions(actions) if actions.is_empty() => "write_actions(drop)".to_owned(),
        Action::WriteActions(actions) => format!("write_actions({})", list(actions, proto)),
        Action::WriteMetadata { value, mask: u64::MAX } => format!("write_metadata:{value:#x}"),
        Action::WriteMetadata { value, mask } => format!("write_metadata:{value:#x}/{mask:#x}"),
        Action::GotoTable(table) => format!("goto_table:{table}"),
        action => mpls::format(action)
            .or_else(|| encap::format(action))
            .unwrap_or_else(|| without_arguments(action).to_owned()),
    }
}

fn output(port: OfPort, max_len: u16) -> String {
    match port {
        OfPort::CONTROLLER => format!("CONTROLLER:{max_len}"),
        port if port.0 < OfPort::MAX.0 => format!("output:{port}"),
        port => port.to_string(),
    }
}

fn larger(bytes: u16, target: &Subfield, proto: Proto) -> String {
    format!("check_pkt_larger({bytes})->{}", bits(target, proto))
}

fn without_arguments(action: &Action) -> &'static str {
    match action {
        Action::StripVlan => "strip_vlan",
        Action::CtClear => "ct_clear",
        Action::PopQueue => "pop_queue",
        Action::Exit => "exit",
        Action::ClearActions => "clear_actions",
        Action::DebugSlow => "debug_slow",
        Action::DecMplsTtl => "dec_mpls_ttl",
        Action::DecNshTtl => "dec_nsh_ttl",
        _ => "debug_recirc",
    }
}

fn delete_field(field: Field, proto: Proto) -> String {
    let name = for_field(field, proto).map_or(field.name(), |spec| spec.name);
    format!("delete_field:{name}")
}

fn fin_timeout(idle_s: u16, hard_s: u16) -> String {
    let timeouts = [("idle_timeout", idle_s), ("hard_timeout", hard_s)];
    let parts = timeouts.iter().filter(|(_, seconds)| *seconds != 0);
    let parts: Vec<String> = parts.map(|(name, seconds)| format!("{name}={seconds}")).collect();
    format!("fin_timeout({})", parts.join(","))
}

fn dotted(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(".")
}

fn controller(to: &ToController) -> String {
    if to.is_plain() {
        return format!("CONTROLLER:{}", to.max_len);
    }
    let mut parts = Vec::new();
    if to.reason != 1 {
        let name = REASONS.get(usize::from(to.reason)).map(|name| (*name).to_owned());
        parts.push(format!("reason={}", name.unwrap_or_else(|| to.reason.to_string())));
    }
    if to.max_len != u16::MAX {
        parts.push(format!("max_len={}", to.max_len));
    }
    if to.controller_id != 0 {
        parts.push(format!("id={}", to.controller_id));
    }
    if !to.userdata.is_empty() {
        parts.push(format!("userdata={}", dotted(&to.userdata)));
    }
    if to.pause {
        parts.push("pause".to_owned());
    }
    if let Some(meter) = to.meter {
        parts.push(format!("meter_id={meter}"));
    }
    format!("controller({})", parts.join(","))
}

/// `NXM_NX_REG0[0..15]`
pub(super) fn bits(part: &Subfield, proto: Proto) -> String {
    let Some(spec) = for_field(part.field, proto) else {
        return format!("{}[{}..{}]", part.field.name(), part.offset, part.offset + part.bits - 1);
    };
    let name = &spec.nxm_name;
    match (part.offset, part.bits) {
        (0, bits) if bits == spec.bits => format!("{name}[]"),
        (offset, 1) => format!("{name}[{offset}]"),
        (offset, bits) => format!("{name}[{offset}..{}]", offset + bits - 1),
    }
}

fn set_option(set: &SetOption, proto: Proto) -> String {
    let Some(field) = Field::tun_metadata(set.index) else { return String::new() };
    let is_whole = set.is_whole();
    let has_bits = !set.mask.is_zero() && (set.len > 0 || !is_whole);
    if set.form != SetForm::Load && !has_bits {
        return format!("set_field:ANY->{}", field.name());
    }
    if set.form != SetForm::Load {
        let mask = if is_whole { String::new() } else { format!("/{:#x}", set.mask) };
        return format!("set_field:{:#x}{mask}->{}", set.value, field.name());
    }
    let reach = Subfield::whole(field).bits;
    let end = if is_whole { u32::from(set.len) * 8 } else { reach };
    let (mut loads, mut offset) = (Vec::new(), 0);
    while offset < end {
        let rest = set.mask.shift_right(offset).low();
        let run = rest.trailing_ones().min(64).min(end - offset);
        if run > 0 {
            let part = Subfield::new(field, offset, run);
            let value = (set.value & part.wide_mask()).shift_right(offset).low();
            let value = if value == 0 { "0".to_owned() } else { format!("{value:#x}") };
            loads.push(format!("load:{value}->{}", bits(&part, proto)));
        }
        offset += run.max(1);
    }
    loads.join(",")
}

fn set(field: Field, value: u128, mask: u128, form: SetForm, proto: Proto) -> String {
    if matches!(form, SetForm::SetTunnel | SetForm::SetTunnel64) {
        let is_long = form == SetForm::SetTunnel64 || value > u32::MAX.into();
        let long = if is_long { "64" } else { "" };
        // As C's `%#x`, Open vSwitch prints 0 without `0x`.
        return match value {
            0 => format!("set_tunnel{long}:0"),
            _ => format!("set_tunnel{long}:{value:#x}"),
        };
    }
    if form == SetForm::Load {
        let loads = segments(field, value, mask);
        let loads = loads.iter().map(|(part, value)| {
            // As C's `%#x`, Open vSwitch prints 0 without `0x`.
            let value = if *value == 0 { "0".to_owned() } else { format!("{value:#x}") };
            format!("load:{value}->{}", bits(part, proto))
        });
        return loads.collect::<Vec<_>>().join(",");
    }
    let (field, value, mask) = match field {
        // In OpenFlow 1.5's form, with the bit for the tag.
        Field::VlanVid => (Field::VlanVidPresent, value | 0x1000, mask | 0x1000),
        field => (field, value, mask),
    };
    let name = for_field(field, proto).map_or(field.name(), |spec| spec.name);
    let exact = mask == assignable(field) && !form.is_masked();
    let text = match field {
        _ if is_mac(field) => mac(value, mask),
        _ if is_ipv4(field) => ipv4(value, mask),
        _ if is_ipv6(field) => ipv6(value, mask),
        _ if exact => plain_value(field, value),
        _ => format!("{}/{mask:#x}", plain_value(field, value)),
    };
    format!("set_field:{text}->{name}")
}

/// Formats a whole field as Open vSwitch does (ovs: `lib/meta-flow.c`, `mf_format`).
pub(super) fn plain_value(field: Field, value: u128) -> String {
    match field {
        _ if is_mac(field) => mac(value, field.all_ones()),
        _ if is_ipv4(field) => ipv4(value, field.all_ones()),
        _ if is_ipv6(field) => ipv6(value, field.all_ones()),
        Field::InPort => OfPort(value as u16).to_string(),
        Field::InPortOxm => {
            let port = OfPort::from_wire32(value as u32);
            port.map_or_else(|| value.to_string(), |port| port.to_string())
        }
        // As C's `%#x`, Open vSwitch prints 0 without `0x`.
        _ if value == 0 || is_decimal(field) => value.to_string(),
        _ => format!("{value:#x}"),
    }
}

/// Returns whether Open vSwitch prints the field in decimal.
fn is_decimal(field: Field) -> bool {
    use Field as F;
    matches!(
        field,
        F::VlanVidPresent
            | F::VlanPcp
            | F::MplsLabel
            | F::MplsTc
            | F::MplsBos
            | F::MplsTtl
            | F::NshFlags
            | F::NshTtl
            | F::NshMdtype
            | F::NshNp
            | F::NshSi
            | F::TunErspanVer
            | F::TunErspanDir
            | F::NdReserved
            | F::NdOptionsType
            | F::NwTos
            | F::IpDscp
            | F::IpEcn
            | F::NwTtl
            | F::NwProto
            | F::ArpOp
            | F::TpSrc
            | F::TpDst
            | F::IcmpType
            | F::IcmpCode
    )
}

fn ct(ct: &Ct, proto: Proto) -> String {
    let mut parts = Vec::new();
    if ct.commit {
        parts.push("commit".to_owned());
    }
    if ct.force {
        parts.push("force".to_owned());
    }
    if let Some(table) = ct.table {
        parts.push(format!("table={table}"));
    }
    match &ct.zone {
        ZoneSource::Field(part) => parts.push(format!("zone={}", bits(part, proto))),
        ZoneSource::Immediate(0) => {}
        ZoneSource::Immediate(zone) => parts.push(format!("zone={zone}")),
    }
    let mut exec = ct.exec.as_slice();
    if let [Action::Nat(range), rest @ ..] = exec {
        parts.push(nat(range.as_ref()));
        exec = rest;
    }
    if !exec.is_empty() {
        parts.push(format!("exec({})", list(exec, proto)));
    }
    match ct.alg {
        0 => {}
        21 => parts.push("alg=ftp".to_owned()),
        69 => parts.push("alg=tftp".to_owned()),
        other => parts.push(format!("alg={other}")),
    }
    format!("ct({})", parts.join(","))
}

fn nat(range: Option<&NatRange>) -> String {
    let Some(range) = range else { return "nat".to_owned() };
    let mut text = if range.kind == NatKind::Src { "src" } else { "dst" }.to_owned();
    let address = |address: IpAddr| match address {
        IpAddr::V6(address) if range.ports.is_some() => format!("[{address}]"),
        address => address.to_string(),
    };
    if let Some((first, last)) = range.addresses {
        text += &format!("={}", address(first));
        if last != first {
            text += &format!("-{}", address(last));
        }
    }
    if let Some((first, last)) = range.ports {
        text += &format!(":{first}");
        if last != first {
            text += &format!("-{last}");
        }
    }
    if range.persistent {
        text += ",persistent";
    }
    text += match range.selection {
        PortSelection::Default => "",
        PortSelection::Hash => ",hash",
        PortSelection::Random => ",random",
    };
    format!("nat({text})")
}
