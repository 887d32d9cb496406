//! The system's routing rules, those that tunnels can follow (ip-rule(8)).

use netlink_packet_route::AddressFamily;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleHeader, RuleMessage};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tunnel::Rule;

/// The value of FRA_SUPPRESS_PREFIXLEN for "no prefix is suppressed", which the kernel always sends (Linux:
/// `net/core/fib_rules.c`, `fib_nl_fill_rule`).
const NOT_SUPPRESSED: u32 = u32::MAX;

/// Returns a rule that matches only on the source address. Others are ignored, as in Open vSwitch (ovs:
/// `lib/route-table.c`, `rule_parse`): a tunnel's outer packet has no process, input device or ports yet when
/// its route is looked up.
pub(super) fn rule(message: &RuleMessage) -> Option<Rule> {
    let RuleHeader { family, dst_len, src_len: len, tos, table, action, flags } = message.header;
    if action != RuleAction::ToTable || tos != 0 || dst_len != 0 {
        return None;
    }
    let mut prefix = match family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let (mut priority, mut table) = (0, u32::from(table));
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(number) => priority = *number,
            RuleAttribute::Source(ip) => prefix = *ip,
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::SuppressPrefixLen(NOT_SUPPRESSED) | RuleAttribute::Protocol(_) => {}
            _ => return None,
        }
    }
    let is_inverted = flags.contains(RuleFlags::Invert);
    let rule = Rule { priority, is_user: false, is_inverted, prefix, len, table };
    (!is_inverted || len > 0).then_some(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(family: AddressFamily, len: u8, attributes: Vec<RuleAttribute>) -> RuleMessage {
        let mut message = RuleMessage::default();
        message.header = RuleHeader {
            family,
            src_len: len,
            table: 254,
            action: RuleAction::ToTable,
            ..RuleHeader::default()
        };
        message.attributes = attributes;
        message
    }

    #[test]
    fn rules_about_the_source_are_taken_and_others_left_out() {
        use RuleAttribute::{FwMark, Iifname, Priority, Source, SuppressPrefixLen, Table};
        let own = IpAddr::from([10, 0, 0, 1]);
        let check = |attributes: Vec<RuleAttribute>, expect: Option<(u32, IpAddr, u32)>| {
            let message = message(AddressFamily::Inet, 32, attributes);
            let found = rule(&message).map(|it| (it.priority, it.prefix, it.table));
            assert_eq!(found, expect, "{message:?}");
        };
        let taken = vec![Priority(7), Source(own), Table(1000), SuppressPrefixLen(u32::MAX)];
        check(taken.clone(), Some((7, own, 1000)));
        check(vec![Source(own)], Some((0, own, 254)));
        check([taken.clone(), vec![FwMark(1)]].concat(), None);
        check([taken.clone(), vec![Iifname("lo".to_owned())]].concat(), None);
        check(vec![Source(own), SuppressPrefixLen(0)], None);
        let refused = |change: fn(&mut RuleHeader)| {
            let mut message = message(AddressFamily::Inet, 32, taken.clone());
            change(&mut message.header);
            assert_eq!(rule(&message), None, "{message:?}");
        };
        refused(|header| header.action = RuleAction::Blackhole);
        refused(|header| header.dst_len = 8);
        refused(|header| header.tos = 4);
        refused(|header| header.family = AddressFamily::Unspec);
        refused(|header| (header.src_len, header.flags) = (0, RuleFlags::Invert));
    }
}
