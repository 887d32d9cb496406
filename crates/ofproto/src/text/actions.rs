//! Datapath actions as text.

use super::field::{Fields, Number, hex};
use super::key::{bracketed, port_header};
use super::tunnel::{format_push, told_tunnel};
use super::{PortNames, mpls, nsh};
use flow::{
    Action, CtAction, Field, FlowKey, HashAlgorithm, Mask, Nat, NatKind, NatRange, PortSelection,
    SetField,
};
use wire::protocol;
use wire::{LabelEntry, ethertype};

/// The actions as text: `ct(commit),recirc(0x1)`, or `drop`. `key` is the key of a packet of the flow: it
/// determines the header that a port or a TTL belongs to.
pub fn format_actions(actions: &[Action], key: &FlowKey, names: PortNames<'_>) -> String {
    if actions.is_empty() {
        return "drop".to_owned();
    }
    let mut parts: Vec<String> = Vec::new();
    let mut rest = actions;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            // Fields of one header, set one by one, are written together.
            Action::Set(set) => {
                let header = header_of(set.field, key);
                let same = rest.iter().take_while(|action| match action {
                    Action::Set(other) => header_of(other.field, key) == header,
                    _ => false,
                });
                let same = same.count();
                let sets = std::iter::once(first).chain(&rest[..same]);
                parts.push(format_set(header, sets, key));
                rest = &rest[same..];
            }
            // Open vSwitch writes the truncation before the tunnel; both apply to the output behind them.
            Action::SetTunnel(to) if matches!(rest.first(), Some(Action::OutputCut { .. })) => {
                let Some(Action::OutputCut { port, max_len }) = rest.first() else { continue };
                let (tunnel, port) = (told_tunnel(to), names.device(*port));
                parts.push(format!("trunc({max_len}),set(tunnel({tunnel})),{port}"));
                rest = &rest[1..];
            }
            other => parts.push(format_action(other, key, names)),
        }
    }
    parts.join(",")
}

fn format_action(action: &Action, key: &FlowKey, names: PortNames<'_>) -> String {
    match action {
        Action::Output(port) => names.device(*port),
        Action::OutputCut { port, max_len } => format!("trunc({max_len}),{}", names.device(*port)),
        Action::Controller(to) => format!(
            "userspace(pid=0,controller(reason={},dont_send=0,continuation={},recirc_id={},\
             rule_cookie={},controller_id={},max_len={}))",
            to.reason,
            u8::from(to.pauses),
            to.recirc_id,
            hex(to.rule_cookie.into()),
            to.controller_id,
            to.max_len
        ),
        Action::Protocol(to) => format!("userspace(pid=0,slow_path({}))", to.protocol.name()),
        Action::Set(set) => format_set(header_of(set.field, key), std::iter::once(action), key),
        Action::PushVlan { tpid, tci } => {
            let tpid = if *tpid == ethertype::VLAN {
                String::new()
            } else {
                format!("tpid=0x{tpid:04x},")
            };
            format!("push_vlan({tpid}vid={},pcp={})", tci & 0xfff, tci >> 13)
        }
        Action::PopVlan => "pop_vlan".to_owned(),
        Action::PushEth { source, destination } => {
            format!("push_eth(src={source},dst={destination})")
        }
        Action::PopEth => "pop_eth".to_owned(),
        Action::PushMpls { ethertype, entry } => {
            format!("push_mpls({},eth_type={ethertype:#x})", mpls::format_entry(*entry))
        }
        Action::PopMpls { ethertype } => format!("pop_mpls(eth_type={ethertype:#x})"),
        Action::AddMpls { ethertype, entry } => {
            format!("add_mpls({},eth_type={ethertype:#x})", mpls::format_entry(*entry))
        }
        Action::PushNsh(header) => format!("push_nsh({})", nsh::format_header(header)),
        Action::PopNsh => "pop_nsh()".to_owned(),
        Action::Ct(ct) => format_ct(ct),
        Action::CtClear => "ct_clear".to_owned(),
        Action::Hash { algorithm, basis } => {
            let name = match algorithm {
                HashAlgorithm::L4 => "l4",
                HashAlgorithm::SymmetricL4 => "sym_l4",
            };
            format!("hash({name}({basis}))")
        }
        Action::Recirc(id) => format!("recirc({})", hex(id.0.into())),
        Action::TunnelPush(push) => format_push(push, names),
        Action::TunnelPop { port, .. } => format!("tnl_pop({})", names.device(*port)),
        Action::CloneCut { max_len, actions } => {
            format!("trunc({max_len}),clone({})", format_actions(actions, key, names))
        }
        Action::CheckLen(check) => {
            let [greater, less_equal] =
                [&check.greater, &check.less_equal].map(|it| format_actions(it, key, names));
            format!("check_pkt_len(size={},gt({greater}),le({less_equal}))", check.bytes)
        }
        Action::Meter(meter) => format!("meter({})", meter.0.number()),
        Action::SetTunnel(to) => format!("set(tunnel({}))", told_tunnel(to)),
        // Open vSwitch meters packets to controllers within a sample of all packets.
        Action::Clone(inner) if matches!(**inner, [Action::Meter(_), Action::Controller(_)]) => {
            format!("sample(sample=100.0%,actions({}))", format_actions(inner, key, names))
        }
        Action::Clone(inner) => format!("clone({})", format_actions(inner, key, names)),
        Action::Drop(_) => "drop".to_owned(),
    }
}

fn header_of(field: Field, key: &FlowKey) -> &'static str {
    use Field as F;
    match field {
        F::EthSrc | F::EthDst => "eth",
        F::Ipv6Label => "ipv6",
        F::PktMark => "skb_mark",
        F::NdTarget => "nd",
        F::NdReserved | F::NdOptionsType => "nd_ext",
        F::MplsLse0 => "mpls",
        _ if nsh::FIELDS.iter().any(|(_, of_nsh, _)| *of_nsh == field) => "nsh",
        _ if matches!(key.eth_type(), ethertype::ARP | ethertype::RARP) => "arp",
        F::ArpSha | F::ArpTha | F::NdSll | F::NdTll => "nd",
        F::TpSrc | F::TpDst => match key.nw_proto() {
            protocol::ICMP => "icmp",
            protocol::ICMPV6 => "icmpv6",
            proto => port_header(proto),
        },
        _ if key.eth_type() == ethertype::IPV6 => "ipv6",
        _ => "ipv4",
    }
}

fn format_set<'a>(
    header: &str,
    sets: impl Iterator<Item = &'a Action>,
    flow_key: &FlowKey,
) -> String {
    let (mut key, mut mask) = (FlowKey::new(), Mask::new());
    key.set_eth_type(flow_key.eth_type());
    for set in sets {
        if let Action::Set(SetField { field, value, mask: bits }) = set {
            key.set(*field, *value);
            mask.add_bits(*field, *bits);
        }
    }
    if header == "skb_mark" {
        let bits = mask.get(Field::PktMark);
        let suffix =
            if mask.is_exact(Field::PktMark) { String::new() } else { format!("/{}", hex(bits)) };
        return format!("set(skb_mark({}{suffix}))", hex(key.get(Field::PktMark)));
    }
    let entry = LabelEntry(key.get(Field::MplsLse0) as u32);
    let mut fields = Fields::new(&key, &mask, false);
    match header {
        "mpls" => fields.put(&mpls::format_entry(entry)),
        "nsh" => fields.put(&nsh::format_fields(&key, &mask)),
        "eth" => {
            fields.mac("src", Field::EthSrc);
            fields.mac("dst", Field::EthDst);
        }
        "ipv4" => {
            fields.ipv4("src", Field::Ipv4Src);
            fields.ipv4("dst", Field::Ipv4Dst);
            fields.number("tos", Field::NwTos, Number::Hex);
            fields.number("ttl", Field::NwTtl, Number::Decimal);
        }
        "ipv6" => {
            fields.ipv6("src", Field::Ipv6Src);
            fields.ipv6("dst", Field::Ipv6Dst);
            fields.number("label", Field::Ipv6Label, Number::Hex);
            fields.number("tclass", Field::NwTos, Number::Hex);
            fields.number("hlimit", Field::NwTtl, Number::Decimal);
        }
        "arp" => {
            fields.ipv4("sip", Field::ArpSpa);
            fields.ipv4("tip", Field::ArpTpa);
            fields.number("op", Field::ArpOp, Number::Decimal);
            fields.mac("sha", Field::ArpSha);
            fields.mac("tha", Field::ArpTha);
        }
        "nd_ext" => fields.nd_extensions(),
        "nd" => {
            fields.ipv6("target", Field::NdTarget);
            fields.mac("sll", Field::NdSll);
            fields.mac("tll", Field::NdTll);
        }
        "icmp" | "icmpv6" => {
            fields.number("type", Field::IcmpType, Number::Decimal);
            fields.number("code", Field::IcmpCode, Number::Decimal);
        }
        _ => {
            fields.number("src", Field::TpSrc, Number::Decimal);
            fields.number("dst", Field::TpDst, Number::Decimal);
        }
    }
    format!("set({header}({}))", fields.out)
}

fn format_ct(ct: &CtAction) -> String {
    let mut parts: Vec<String> = Vec::new();
    if ct.commit {
        parts.push(if ct.force { "force_commit" } else { "commit" }.to_owned());
    }
    if ct.zone.0 != 0 {
        parts.push(format!("zone={}", ct.zone));
    }
    if let Some(mark) = ct.mark {
        parts.push(format!("mark={}/{}", hex(mark.value.into()), hex(mark.mask.into())));
    }
    if let Some(label) = ct.label {
        let mask =
            if label.mask == u128::MAX { String::new() } else { format!("/{}", hex(label.mask)) };
        parts.push(format!("label={}{mask}", hex(label.value)));
    }
    if let Some(helper) = ct.helper {
        parts.push(format!("helper={helper}"));
    }
    if let Some(policy) = ct.timeout_policy {
        parts.push(format!("timeout={policy}"));
    }
    match &ct.nat {
        None => {}
        Some(Nat::Restore) => parts.push("nat".to_owned()),
        Some(Nat::Rewrite(range)) => parts.push(format_nat(range)),
    }
    if parts.is_empty() { "ct".to_owned() } else { format!("ct({})", parts.join(",")) }
}

fn format_nat(range: &NatRange) -> String {
    let mut out = match range.kind {
        NatKind::Src => "nat(src".to_owned(),
        NatKind::Dst => "nat(dst".to_owned(),
    };
    if let Some((first, last)) = range.addresses {
        // Brackets separate an IPv6 address from its port.
        let address = |address| match range.ports {
            Some(_) => bracketed(address),
            None => address.to_string(),
        };
        out += &format!("={}", address(first));
        if last != first {
            out += &format!("-{}", address(last));
        }
        if let Some((first, last)) = range.ports {
            out += &format!(":{first}");
            if last != first {
                out += &format!("-{last}");
            }
        }
    }
    if range.persistent {
        out += ",persistent";
    }
    match range.selection {
        PortSelection::Default => {}
        PortSelection::Hash => out += ",hash",
        PortSelection::Random => out += ",random",
    }
    out + ")"
}
