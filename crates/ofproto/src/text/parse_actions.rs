//! Parsing of datapath actions: `push_vlan(vid=5,pcp=0),ct(commit,zone=3),recirc(0x1)`.
//!
//! Actions whose text is not self-contained are refused: meters, tunnel headers, copies for controllers.

use super::parentheses::{check_nesting, closing};
use super::parse::{ParseError, error, number, parse_fields};
use super::{mpls, nsh};
use base::{MacAddr, PortNo, RecircId, Zone};
use flow::{
    Action, CheckLen, CtAction, Field, HashAlgorithm, Masked, Nat, NatKind, NatRange,
    PortSelection, SetField, VLAN_PRESENT,
};
use std::net::IpAddr;
use wire::ethertype;

/// Fields that a flow may set.
const SETTABLE: [Field; 29] = [
    Field::EthSrc,
    Field::EthDst,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Label,
    Field::NwTos,
    Field::NwTtl,
    Field::TpSrc,
    Field::TpDst,
    Field::ArpSpa,
    Field::ArpTpa,
    Field::ArpOp,
    Field::ArpSha,
    Field::ArpTha,
    Field::NdTarget,
    Field::NdSll,
    Field::NdTll,
    Field::PktMark,
    Field::MplsLse0,
    Field::NshFlags,
    Field::NshTtl,
    Field::NshSpi,
    Field::NshSi,
    Field::NshC1,
    Field::NshC2,
    Field::NshC3,
    Field::NshC4,
];

/// The shortest cut: an Ethernet header (ovs: `lib/odp-util.c`, `parse_odp_action`).
const CUT_BYTES_MIN: u32 = 14;

/// Parses actions. `device` resolves port names; an empty list is `drop`.
pub fn parse_actions(
    text: &str,
    device: &dyn Fn(&str) -> Option<PortNo>,
) -> Result<Vec<Action>, ParseError> {
    check_nesting(text)?;
    parse_list(text, device)
}

/// Parses a list of actions, which may nest.
fn parse_list(
    text: &str,
    device: &dyn Fn(&str) -> Option<PortNo>,
) -> Result<Vec<Action>, ParseError> {
    if text.trim() == "drop" {
        return Ok(Vec::new());
    }
    let (mut actions, mut cut) = (Vec::new(), None);
    for (name, inside) in items(text)? {
        match (name, inside, cut.take()) {
            ("trunc", Some(bytes), None) => match fit(bytes)? {
                max_len @ CUT_BYTES_MIN.. => cut = Some(max_len),
                _ => return error(bytes, "trunc() leaves 14 bytes at least"),
            },
            ("clone", Some(inside), Some(max_len)) => {
                let actions_of_copy = parse_list(inside, device)?.into();
                actions.push(Action::CloneCut { max_len, actions: actions_of_copy });
            }
            (port, None, Some(max_len)) => {
                actions.push(Action::OutputCut { port: read_port(port, device)?, max_len });
            }
            (name, _, Some(_)) => return error(name, "trunc() wants a port or clone() behind it"),
            (name, inside, None) => read(name, inside, device, &mut actions)?,
        }
    }
    match cut {
        Some(_) => error(text, "trunc() wants a port or clone() behind it"),
        None => Ok(actions),
    }
}

/// Parses one action that does not depend on others.
fn read(
    name: &str,
    inside: Option<&str>,
    device: &dyn Fn(&str) -> Option<PortNo>,
    actions: &mut Vec<Action>,
) -> Result<(), ParseError> {
    actions.push(match (name, inside) {
        ("pop_vlan", None) => Action::PopVlan,
        ("push_vlan", Some(inside)) => push_vlan(inside)?,
        ("pop_eth", None) => Action::PopEth,
        ("push_eth", Some(inside)) => push_eth(inside)?,
        ("push_mpls", Some(inside)) => {
            let (entry, ethertype) = mpls::parse_push(inside)?;
            Action::PushMpls { ethertype, entry }
        }
        ("add_mpls", Some(inside)) => {
            let (entry, ethertype) = mpls::parse_push(inside)?;
            Action::AddMpls { ethertype, entry }
        }
        ("pop_mpls", Some(inside)) => {
            let Some(ethertype) = inside.strip_prefix("eth_type=") else {
                return error(inside, "pop_mpls() wants eth_type=");
            };
            Action::PopMpls { ethertype: mpls::parse_ethertype(ethertype)? }
        }
        ("push_nsh", Some(inside)) => Action::PushNsh(nsh::parse_header(inside)?),
        ("pop_nsh", Some("")) => Action::PopNsh,
        ("ct_clear", None) => Action::CtClear,
        ("ct", inside) => Action::Ct(Box::new(ct(inside.unwrap_or_default())?)),
        ("recirc", Some(id)) => Action::Recirc(RecircId(fit(id)?)),
        ("hash", Some(inside)) => hash(inside)?,
        ("clone", Some(inside)) => Action::Clone(parse_list(inside, device)?.into()),
        ("check_pkt_len", Some(inside)) => check_len(inside, device)?,
        ("set", Some(inside)) => {
            let fields = parse_fields(inside, device)?;
            if fields.is_empty() {
                return error(inside, "sets nothing");
            }
            for (field, value, mask) in fields {
                if !SETTABLE.contains(&field) {
                    return error(inside, format!("{} cannot be set here", field.name()));
                }
                actions.push(Action::Set(SetField { field, value: value & mask, mask }));
            }
            return Ok(());
        }
        (port, None) => Action::Output(read_port(port, device)?),
        (name, Some(_)) => return error(name, "is no action that can be written here"),
    });
    Ok(())
}

/// A sequence of `name`, `name(inside)` or numbers.
fn items(text: &str) -> Result<Vec<(&str, Option<&str>)>, ParseError> {
    let (mut items, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        let end = rest.find([',', '(', ' ']).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        let mut inside = None;
        rest = behind;
        if let Some(behind) = behind.strip_prefix('(') {
            let Some(close) = closing(behind) else {
                return error(rest, "the parenthesis is not closed");
            };
            inside = Some(&behind[..close]);
            rest = &behind[close + 1..];
        }
        if name.is_empty() {
            return error(text, "an action is missing its name");
        }
        items.push((name, inside));
        rest = rest.trim_start_matches([',', ' ']);
    }
    if items.is_empty() { error(text, "no action; drop is one") } else { Ok(items) }
}

fn read_port(text: &str, device: &dyn Fn(&str) -> Option<PortNo>) -> Result<PortNo, ParseError> {
    match device(text) {
        Some(port) => Ok(port),
        None => fit(text).map(PortNo).or_else(|_| error(text, "is no action and no port")),
    }
}

/// A number that fits its type.
fn fit<T: TryFrom<u128>>(text: &str) -> Result<T, ParseError> {
    let value = number(text)?;
    T::try_from(value).or_else(|_| error(text, "is too large for its place"))
}

/// `5/0xff`; without a mask, all bits.
fn masked<T: TryFrom<u128>>(text: &str, all: T) -> Result<Masked<T>, ParseError> {
    Ok(match text.split_once('/') {
        Some((value, mask)) => Masked { value: fit(value)?, mask: fit(mask)? },
        None => Masked { value: fit(text)?, mask: all },
    })
}

/// `key=value` pairs and single words.
fn words(inside: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = inside.split([',', ' ']).filter(|word| !word.is_empty());
    words.map(|word| word.split_once('=').unwrap_or((word, "")))
}

fn push_vlan(inside: &str) -> Result<Action, ParseError> {
    let (mut tpid, mut tci) = (ethertype::VLAN, VLAN_PRESENT);
    for (key, value) in words(inside) {
        match (key, number(value)?) {
            ("tpid", number @ ..=0xffff) => tpid = number as u16,
            ("vid", number @ ..=0xfff) => tci |= number as u16,
            ("pcp", number @ ..=7) => tci |= (number as u16) << 13,
            // This bit means that the tag is present.
            ("cfi", 1) => {}
            _ => return error(inside, "push_vlan() has tpid, vid up to 4095 and pcp up to 7"),
        }
    }
    Ok(Action::PushVlan { tpid, tci })
}

fn push_eth(inside: &str) -> Result<Action, ParseError> {
    let (mut source, mut destination) = (None, None);
    for (key, value) in words(inside) {
        match (key, value.parse::<MacAddr>()) {
            ("src", Ok(address)) => source = Some(address),
            ("dst", Ok(address)) => destination = Some(address),
            _ => return error(inside, "push_eth() wants src=MAC,dst=MAC"),
        }
    }
    match (source, destination) {
        (Some(source), Some(destination)) => Ok(Action::PushEth { source, destination }),
        _ => error(inside, "push_eth() wants src=MAC,dst=MAC"),
    }
}

fn hash(inside: &str) -> Result<Action, ParseError> {
    let items = items(inside)?;
    let algorithm = match items.as_slice() {
        [("l4", Some(_))] => HashAlgorithm::L4,
        [("sym_l4", Some(_))] => HashAlgorithm::SymmetricL4,
        _ => return error(inside, "hash() wants l4(BASIS) or sym_l4(BASIS)"),
    };
    Ok(Action::Hash { algorithm, basis: fit(items[0].1.unwrap_or_default())? })
}

fn check_len(inside: &str, device: &dyn Fn(&str) -> Option<PortNo>) -> Result<Action, ParseError> {
    let wanted = "check_pkt_len() wants size=BYTES,gt(ACTIONS),le(ACTIONS)";
    match items(inside)?.as_slice() {
        [(size, None), ("gt", Some(greater)), ("le", Some(less_equal))] => {
            let Some(size) = size.strip_prefix("size=") else { return error(inside, wanted) };
            Ok(Action::CheckLen(std::sync::Arc::new(CheckLen {
                bytes: fit(size)?,
                greater: parse_list(greater, device)?.into(),
                less_equal: parse_list(less_equal, device)?.into(),
            })))
        }
        _ => error(inside, wanted),
    }
}

fn ct(inside: &str) -> Result<CtAction, ParseError> {
    let mut ct = CtAction::default();
    let text = inside.trim();
    if text.is_empty() {
        return Ok(ct);
    }
    for (name, inside) in items(text)? {
        let (key, value) = name.split_once('=').unwrap_or((name, ""));
        match (key, inside) {
            ("commit", None) => ct.commit = true,
            ("force_commit", None) => (ct.commit, ct.force) = (true, true),
            ("zone", None) => ct.zone = Zone(fit(value)?),
            ("mark", None) => ct.mark = Some(masked(value, u32::MAX)?),
            ("label", None) => ct.label = Some(masked(value, u128::MAX)?),
            ("helper", None) => {
                let known = ["ftp", "tftp"].into_iter().find(|known| *known == value);
                ct.helper = Some(known.map_or_else(|| error(value, "is no helper"), Ok)?);
            }
            ("nat", None) => ct.nat = Some(Nat::Restore),
            ("nat", Some(inside)) => ct.nat = Some(Nat::Rewrite(nat(inside)?)),
            _ => return error(name, "ct() has no such argument here"),
        }
    }
    Ok(ct)
}

/// `src=10.0.0.1-10.0.0.9:1000-2000,persistent,hash`
fn nat(inside: &str) -> Result<NatRange, ParseError> {
    let mut range = NatRange {
        kind: NatKind::Src,
        addresses: None,
        ports: None,
        selection: PortSelection::Default,
        persistent: false,
    };
    let mut has_kind = false;
    for (key, value) in words(inside) {
        match key {
            "src" | "dst" => {
                has_kind = true;
                range.kind = if key == "src" { NatKind::Src } else { NatKind::Dst };
                (range.addresses, range.ports) = endpoints(value)?;
            }
            "persistent" => range.persistent = true,
            "hash" => range.selection = PortSelection::Hash,
            "random" => range.selection = PortSelection::Random,
            _ => return error(key, "nat() has no such argument"),
        }
    }
    if has_kind { Ok(range) } else { error(inside, "nat() wants src or dst") }
}

type Ends<T> = Option<(T, T)>;

/// Addresses and ports of a translation; an IPv6 address with a port behind it stands in brackets.
fn endpoints(text: &str) -> Result<(Ends<IpAddr>, Ends<u16>), ParseError> {
    if text.is_empty() {
        return Ok((None, None));
    }
    let is_v4 = text.matches(':').count() < 2;
    let (addresses, ports) = match (text.rsplit_once("]:"), text.split_once(':')) {
        (Some((addresses, ports)), _) => (addresses, Some(ports)),
        (None, Some((addresses, ports))) if is_v4 => (addresses, Some(ports)),
        _ => (text, None),
    };
    let address = |text: &str| {
        let bare = text.trim_matches(['[', ']']);
        bare.parse::<IpAddr>().or_else(|_| error(text, "is no address"))
    };
    let ports = ports.map(|ports| {
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        Ok((fit(first)?, fit(last)?))
    });
    let (first, last) = addresses.split_once('-').unwrap_or((addresses, addresses));
    Ok((Some((address(first)?, address(last)?)), ports.transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{PortNames, format_actions};
    use flow::FlowKey;

    fn port(name: &str) -> Option<PortNo> {
        (name == "p1").then_some(PortNo(1))
    }

    #[test]
    fn what_was_printed_is_read() {
        let mut key = FlowKey::new();
        key.set_eth_type(0x0800);
        key.set(Field::NwProto, 6);
        let texts = [
            "drop",
            "2",
            "1,3,push_vlan(vid=5,pcp=3),2,pop_vlan,4",
            "push_vlan(tpid=0x88a8,vid=5,pcp=0),1",
            "trunc(100),1,trunc(20),clone(1,2),3",
            "clone(ct_clear,1),2",
            "pop_eth,push_eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),1",
            "hash(l4(5)),recirc(0x7)",
            "hash(sym_l4(0)),recirc(0x7)",
            "check_pkt_len(size=118,gt(1),le(2,3))",
            "check_pkt_len(size=118,gt(drop),le(2))",
            "set(eth(src=02:00:00:00:00:01)),set(ipv4(src=10.0.0.1,ttl=63)),set(tcp(dst=80)),1",
            "set(ipv4(tos=0x4/0xfc)),set(skb_mark(0x5)),1",
            "push_mpls(label=10,tc=3,ttl=64,bos=1,eth_type=0x8847),pop_mpls(eth_type=0x800),1",
            "add_mpls(label=0,tc=0,ttl=64,bos=1,eth_type=0x8848),pop_mpls(eth_type=0x6558),1",
            "set(mpls(label=1048575,tc=7,ttl=255,bos=0)),1",
            "push_nsh(flags=2,ttl=63,mdtype=1,np=3,spi=0x1234,si=255,c1=0x1,c2=0x0,c3=0x0,c4=0xff),1",
            "push_nsh(flags=0,ttl=1,mdtype=2,np=1,spi=0x0,si=0,md2=0x00000a0412345678),pop_nsh(),1",
            "push_nsh(flags=0,ttl=1,mdtype=2,np=1,spi=0x0,si=0,md2=0),1",
            "set(nsh(flags=2,ttl=63,spi=0x123456,si=254,c1=0x44332200/0xffffff00)),1",
            "ct,recirc(0x1)",
            "ct(commit,zone=3,mark=0x5/0xff,label=0x1,helper=ftp,nat(src=10.0.0.1)),1",
            "ct(force_commit,nat(dst=10.0.0.1-10.0.0.9:1000-2000,persistent,hash)),1",
            "ct(commit,nat(src=[fd00::1]:80,random)),ct(nat),ct(nat(src=fd00::1)),1",
        ];
        for text in texts {
            let actions = parse_actions(text, &port).unwrap();
            assert_eq!(format_actions(&actions, &key, PortNames::default()), text);
        }
        assert_eq!(parse_actions("p1", &port).unwrap(), [Action::Output(PortNo(1))]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("", "no action; drop is one"),
            ("nosuch", "is no action and no port"),
            ("4294967296", "is no action and no port"),
            ("meter(1)", "is no action that can be written here"),
            ("trunc(13),1", "trunc() leaves 14 bytes at least"),
            ("trunc(20)", "trunc() wants a port or clone() behind it"),
            ("trunc(20),ct(commit)", "trunc() wants a port or clone() behind it"),
            ("set(tcp(dst=80)", "the parenthesis is not closed"),
            ("set(in_port(1))", "in_port cannot be set here"),
            ("set(eth())", "sets nothing"),
            (
                "push_mpls(label=1048576,tc=0,ttl=1,bos=1,eth_type=0x8847)",
                "is too large for its field",
            ),
            (
                "push_mpls(label=1,tc=0,eth_type=0x8847)",
                "wants one whole label and an Ethernet type of MPLS",
            ),
            (
                "push_mpls(label=1,tc=0,ttl=1,bos=1,eth_type=0x800)",
                "wants one whole label and an Ethernet type of MPLS",
            ),
            ("push_nsh(mdtype=3)", "mdtype is 1 or 2"),
            ("push_nsh(mdtype=2,md2=0x123)", "is no number of whole bytes"),
            ("set(nsh(np=3))", "nsh_np cannot be set here"),
            ("push_vlan(vid=4096)", "push_vlan() has tpid, vid up to 4095 and pcp up to 7"),
            ("hash(l3(1))", "hash() wants l4(BASIS) or sym_l4(BASIS)"),
            (
                "check_pkt_len(size=1,gt(1))",
                "check_pkt_len() wants size=BYTES,gt(ACTIONS),le(ACTIONS)",
            ),
            ("ct(zone=65536)", "is too large for its place"),
            ("ct(helper=irc)", "is no helper"),
            ("ct(nat(persistent))", "nat() wants src or dst"),
            ("ct(nat(src=10.0.0))", "is no address"),
            ("(1)", "an action is missing its name"),
        ];
        for (text, expect) in cases {
            assert_eq!(parse_actions(text, &port).unwrap_err().what, expect, "{text}");
        }
        let nested = |depth| format!("{}1{}", "clone(".repeat(depth), ")".repeat(depth));
        assert!(parse_actions(&nested(32), &port).is_ok());
        for depth in [33, 1_000_000] {
            let error = parse_actions(&nested(depth), &port).unwrap_err();
            assert_eq!(error.what, "parentheses nest too deeply", "{depth}");
        }
    }
}
