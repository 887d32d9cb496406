use super::*;
use crate::random::{crowded_matching, ipv4_matching, key, matching, outside};
use flow::Field;
use proptest::prelude::*;

fn ip(a: u8, b: u8, c: u8, d: u8) -> u128 {
    u32::from_be_bytes([a, b, c, d]).into()
}

fn tcp(in_port: u128) -> Match {
    Match::any().with(Field::InPort, in_port).with(Field::EthType, 0x800).with(Field::NwProto, 6)
}

fn any_ip(in_port: u128) -> Match {
    Match::any().with(Field::InPort, in_port).with(Field::EthType, 0x800)
}

/// The key of a TCP packet.
fn packet(in_port: u32, src: u128, dst: u128, tp_src: u16, tp_dst: u16) -> FlowKey {
    let mut key = FlowKey::new();
    key.set_in_port_raw(in_port);
    key.set(Field::EthSrc, 0x5054_0000_0005);
    key.set(Field::EthDst, 0x5054_0000_0007);
    key.set_eth_type(0x800);
    key.set(Field::Ipv4Src, src);
    key.set(Field::Ipv4Dst, dst);
    key.set_nw_proto(6);
    key.set_nw_ttl(128);
    key.set_tp_src(tp_src);
    key.set_tp_dst(tp_dst);
    key
}

/// Looks up with and without wildcards; both must agree.
fn check(table: &Classifier<u32>, key: &FlowKey, expect: Option<u32>, bits: &[(Field, u128)]) {
    let mut wildcards = Mask::new();
    assert_eq!(table.lookup(key, &mut wildcards).copied(), expect, "{key:?}");
    assert_eq!(table.lookup_plain(key).copied(), expect, "{key:?}");
    let mut mask = Mask::new();
    for &(field, bits) in bits {
        mask.add_bits(field, bits);
    }
    assert_eq!(wildcards, mask, "{key:?}");
}

const ALL: u128 = u128::MAX;
const IN_PORT: (Field, u128) = (Field::InPort, ALL);
const ETH_TYPE: (Field, u128) = (Field::EthType, ALL);
const PROTO: (Field, u128) = (Field::NwProto, ALL);

fn dst(bits: u128) -> (Field, u128) {
    (Field::Ipv4Dst, bits)
}

// The masks that Open vSwitch's own test of lookup stages expects (ovs: tests/classifier.at).
#[test]
fn stages_tries_and_ports_leave_the_masks_of_open_vswitch() {
    let mut table = Classifier::new();
    let rules = [
        (tcp(1).with_masked(Field::Ipv4Dst, ip(10, 1, 0, 0), 0xffff_0000), 16),
        (tcp(1).with(Field::Ipv4Dst, ip(10, 1, 2, 15)), 32),
        (tcp(1).with(Field::Ipv4Dst, ip(10, 1, 2, 15)).with(Field::TpDst, 80), 33),
        (any_ip(1), 0),
        (tcp(2).with_masked(Field::Ipv4Dst, ip(192, 168, 0, 0), 0xffff_0000), 16),
        (any_ip(2), 0),
        (tcp(3).with_masked(Field::Ipv4Src, ip(10, 1, 0, 0), 0xffff_0000), 16),
        (any_ip(3), 0),
    ];
    for ((matching, priority), i) in rules.iter().zip(0..) {
        assert_eq!(table.insert(matching, *priority, i), None);
    }
    let src = ip(192, 168, 0, 1);
    let known = ip(10, 1, 2, 15);
    check(
        &table,
        &packet(2, src, ip(192, 168, 0, 2), 8, 80),
        Some(4),
        &[IN_PORT, ETH_TYPE, PROTO, dst(0xffff_0000)],
    );
    check(
        &table,
        &packet(1, src, ip(11, 1, 2, 15), 8, 80),
        Some(3),
        &[IN_PORT, ETH_TYPE, dst(0xff00_0000)],
    );
    check(
        &table,
        &packet(1, src, known, 8, 80),
        Some(2),
        &[IN_PORT, ETH_TYPE, PROTO, dst(ALL), (Field::TpDst, ALL)],
    );
    check(
        &table,
        &packet(1, src, known, 8, 79),
        Some(1),
        &[IN_PORT, ETH_TYPE, PROTO, dst(ALL), (Field::TpDst, 0xfff0)],
    );
}

// Likewise for the choice of prefix fields.
#[test]
fn prefix_fields_choose_which_addresses_are_cut_short() {
    let mut table = Classifier::new();
    let rules = [
        (tcp(1).with_masked(Field::Ipv4Dst, ip(10, 1, 0, 0), 0xffff_0000), 16),
        (
            tcp(1).with_masked(Field::Ipv4Dst, ip(10, 1, 2, 0), 0xffff_ff00).with(Field::TpSrc, 79),
            32,
        ),
        (tcp(1).with(Field::Ipv4Dst, ip(10, 1, 2, 15)).with(Field::TpDst, 80), 33),
        (tcp(1).with(Field::Ipv4Dst, ip(10, 1, 2, 15)).with(Field::TpDst, 8080), 33),
        (tcp(1).with(Field::Ipv4Dst, ip(10, 1, 2, 15)).with(Field::TpDst, 192), 33),
        (any_ip(1), 0),
        (tcp(2).with_masked(Field::Ipv4Dst, ip(192, 168, 0, 0), 0xffff_0000), 16),
        (any_ip(2), 0),
        (tcp(3).with_masked(Field::Ipv4Src, ip(10, 1, 0, 0), 0xffff_0000), 16),
        (any_ip(3), 0),
    ];
    for ((matching, priority), i) in rules.iter().zip(0..) {
        table.insert(matching, *priority, i);
    }
    let src = ip(192, 168, 0, 1);
    let elsewhere = packet(1, src, ip(192, 168, 0, 2), 8, 80);
    let cut = [IN_PORT, ETH_TYPE, PROTO, dst(0xffff_0000)];
    check(&table, &elsewhere, Some(5), &cut);
    assert!(!table.set_prefix_fields(PrefixField::DEFAULT));
    assert!(table.set_prefix_fields(&[PrefixField::Ipv4Dst]));
    check(&table, &elsewhere, Some(5), &cut);
    check(&table, &packet(2, src, ip(192, 168, 0, 2), 8, 80), Some(6), &cut);
    let known = ip(10, 1, 2, 15);
    check(
        &table,
        &packet(1, src, known, 8, 80),
        Some(2),
        &[IN_PORT, ETH_TYPE, PROTO, dst(ALL), (Field::TpDst, ALL)],
    );
    check(
        &table,
        &packet(1, src, known, 8, 79),
        Some(0),
        &[IN_PORT, ETH_TYPE, PROTO, dst(ALL), (Field::TpSrc, 0xffc0), (Field::TpDst, 0xfff0)],
    );
    assert!(table.set_prefix_fields(&[]));
    check(
        &table,
        &packet(1, src, ip(10, 1, 3, 16), 8, 79),
        Some(0),
        &[IN_PORT, ETH_TYPE, PROTO, dst(ALL)],
    );
}

#[test]
fn a_last_stage_that_misses_for_another_field_than_the_ports_matters_whole() {
    let mut table = Classifier::new();
    let syn = tcp(1).with(Field::TpDst, 80).with(Field::TcpFlags, 2);
    table.insert(&syn, 10, 0);
    let bits = [IN_PORT, ETH_TYPE, PROTO, (Field::TpDst, ALL), (Field::TcpFlags, ALL)];
    check(&table, &packet(1, 1, 2, 8, 80), None, &bits);
    check(
        &table,
        &packet(1, 1, 2, 8, 82),
        None,
        &[IN_PORT, ETH_TYPE, PROTO, (Field::TpDst, 0xfffe)],
    );
}

#[test]
fn a_trie_does_not_make_more_bits_matter_than_the_subtable_has() {
    let mut table = Classifier::new();
    table.insert(&any_ip(1).with_masked(Field::Ipv4Dst, ip(10, 0, 0, 0), 0xff00_0000), 5, 0);
    table.insert(&any_ip(2).with_masked(Field::Ipv4Dst, ip(11, 1, 0, 0), 0xffff_0000), 5, 1);
    // That no prefix of 8 bits fits takes all 16 of the other rule's to show.
    let key = packet(1, 1, ip(11, 1, 2, 3), 8, 80);
    check(&table, &key, None, &[IN_PORT, ETH_TYPE, dst(0xff00_0000)]);
}

#[test]
fn removed_rules_no_longer_make_bits_matter() {
    let mut table = Classifier::new();
    let to = |in_port: u128, port: u128| tcp(in_port).with(Field::TpDst, port);
    table.insert(&to(1, 80), 9, 0);
    table.insert(&to(1, 81), 5, 1);
    table.insert(&to(2, 80), 5, 2);
    table.insert(&Match::any().with(Field::InPort, 1), 6, 3);
    let bits = [IN_PORT, ETH_TYPE, PROTO, (Field::TpDst, ALL)];
    check(&table, &packet(1, 1, 2, 8, 81), Some(3), &bits);
    check(&table, &packet(2, 1, 2, 8, 80), Some(2), &bits);
    table.remove(&to(1, 80), 9);
    check(&table, &packet(1, 1, 2, 8, 81), Some(3), &bits[..1]);
    table.remove(&to(2, 80), 5);
    check(&table, &packet(2, 1, 2, 8, 80), None, &bits[..1]);
}

#[test]
fn the_tries_are_asked_for_packets_of_their_protocol_only() {
    let mut table = Classifier::new();
    let arp = Match::any().with(Field::EthType, 0x806);
    table.insert(&arp.with(Field::ArpSpa, ip(10, 0, 0, 1)), 5, 0);
    let mut key = FlowKey::new();
    key.set_eth_type(0x806);
    key.set(Field::ArpSpa, ip(192, 168, 0, 1));
    check(&table, &key, None, &[ETH_TYPE, (Field::ArpSpa, ALL)]);
}

#[test]
fn a_trie_also_serves_rules_that_match_the_packet_type() {
    let mut table = Classifier::new();
    let plain = || Match::any().with(Field::PacketType, 0x800);
    table.insert(&plain().with(Field::Ipv4Dst, ip(192, 168, 10, 30)), 32, 0);
    table.insert(&plain(), 0, 1);
    let mut key = packet(1, 1, ip(192, 168, 10, 20), 8, 80);
    key.set_eth_type(0);
    key.set(Field::PacketType, 0x800);
    let of_type = (Field::PacketType, ALL);
    check(&table, &key, Some(1), &[of_type, ETH_TYPE, dst(0xffff_fff8)]);
    key.set(Field::Ipv4Dst, ip(192, 168, 10, 30));
    check(&table, &key, Some(0), &[of_type, dst(0xffff_ffff)]);
}

#[test]
fn a_lower_rule_of_the_first_subtable_does_not_end_the_search_too_early() {
    let mut table = Classifier::new();
    let port = |number: u128| Match::any().with(Field::TpDst, number);
    table.insert(&port(80), 10, 0);
    table.insert(&port(81), 4, 1);
    table.insert(&Match::any().with(Field::TpSrc, 8), 5, 2);
    table.insert(&Match::any().with(Field::InPort, 1), 4, 3);
    let ports = [(Field::TpDst, ALL), (Field::TpSrc, ALL)];
    check(&table, &packet(1, 1, 2, 8, 81), Some(2), &ports);
    // The first rule cannot be bettered, so that no other subtable is looked at.
    check(&table, &packet(1, 1, 2, 8, 80), Some(0), &ports[..1]);
    // The other subtable is left by the first bit that differs from port 8.
    let cut = [ports[0], (Field::TpSrc, 0xfff8)];
    check(&table, &packet(1, 1, 2, 0, 81), Some(1), &cut);
}

#[test]
fn rules_of_one_match_are_kept_by_priority() {
    let mut table = Classifier::new();
    let web = tcp(1).with(Field::TpDst, 80);
    for priority in [5, 9, 1, 7] {
        assert_eq!(table.insert(&web, priority, u32::from(priority)), None);
    }
    assert_eq!(table.insert(&web, 7, 77), Some(7));
    assert_eq!((table.len(), table.subtable_count()), (4, 1));
    *table.get_mut(&web, 5).unwrap() = 55;
    let key = packet(1, 1, 2, 3, 80);
    let expect = [(9, 9), (7, 77), (5, 55), (1, 1)];
    for (priority, rule) in expect {
        assert_eq!(table.get(&web, priority), Some(&rule));
        assert_eq!(table.lookup_plain(&key), Some(&rule));
        assert_eq!(table.remove(&web, priority), Some(rule));
        assert_eq!(table.remove(&web, priority), None);
    }
    assert!(table.is_empty() && table.subtable_count() == 0 && table.iter().next().is_none());
}

/// A rule is known by its match and priority; of several that fit, lookups may give any.
type Rules = Vec<(Match, u16, u32)>;

#[derive(Clone, Debug)]
enum Step {
    Insert(Box<Match>, u16),
    /// Removes the rule at this place, counted round.
    Remove(usize),
    SetPrefixes(Vec<PrefixField>),
}

fn step() -> impl Strategy<Value = Step> {
    const FIELDS: [PrefixField; 4] =
        [PrefixField::Ipv4Src, PrefixField::Ipv4Dst, PrefixField::Ipv6Src, PrefixField::Ipv6Dst];
    prop_oneof![
        5 => (matching(), 0..6u16).prop_map(|(m, p)| Step::Insert(Box::new(m), p)),
        5 => (ipv4_matching(), 0..6u16).prop_map(|(m, p)| Step::Insert(Box::new(m), p)),
        5 => (crowded_matching(), 0..6u16).prop_map(|(m, p)| Step::Insert(Box::new(m), p)),
        3 => any::<usize>().prop_map(Step::Remove),
        1 => prop::collection::vec(prop::sample::select(&FIELDS[..]), 0..4)
            .prop_map(Step::SetPrefixes),
    ]
}

/// Does the steps to a classifier and to a plain list.
fn build(steps: Vec<Step>) -> (Classifier<u32>, Rules) {
    let mut table = Classifier::new();
    let mut rules = Rules::new();
    for (step, id) in steps.into_iter().zip(0..) {
        match step {
            Step::Insert(matching, priority) => {
                let at = rules.iter().position(|(m, p, _)| *m == *matching && *p == priority);
                let old = at.map(|at| rules.remove(at).2);
                assert_eq!(table.insert(&matching, priority, id), old);
                rules.push((*matching, priority, id));
            }
            Step::Remove(at) if !rules.is_empty() => {
                let (matching, priority, id) = rules.remove(at % rules.len());
                assert_eq!(table.remove(&matching, priority), Some(id));
            }
            Step::Remove(_) => {}
            Step::SetPrefixes(fields) => {
                table.set_prefix_fields(&fields);
            }
        }
    }
    (table, rules)
}

/// The priority of the best rule that matches.
fn scan(rules: &Rules, key: &FlowKey) -> Option<u16> {
    rules.iter().filter(|(matching, ..)| matching.matches(key)).map(|rule| rule.1).max()
}

fn sorted(mut ids: Vec<u32>) -> Vec<u32> {
    ids.sort_unstable();
    ids
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn lookups_agree_with_a_scan_and_with_all_packets_equal_where_it_matters(
        steps in prop::collection::vec(step(), 0..40),
        keys in prop::collection::vec(key(), 1..12),
        noise: [u64; 4],
    ) {
        let (table, rules) = build(steps);
        for key in &keys {
            let mut wildcards = Mask::new();
            let found = table.lookup(key, &mut wildcards);
            prop_assert_eq!(found, table.lookup_plain(key));
            let rule = found.and_then(|id| rules.iter().find(|rule| rule.2 == *id));
            prop_assert_eq!(rule.map(|rule| rule.1), scan(&rules, key));
            prop_assert!(rule.is_none_or(|rule| rule.0.matches(key)));
            prop_assert!(rule.is_none_or(|rule| rule.0.mask().is_within(&wildcards)));

            // The law of megaflows: bits that do not matter do not matter. Other packets are
            // likely ones, ones with random bits, and ones that hit a rule elsewhere.
            let mut random = FlowKey::new();
            for (i, word) in random.words_mut().iter_mut().enumerate() {
                *word = noise[i % 4].rotate_left(i as u32);
            }
            let hits = rules.iter().map(|rule| rule.0.key());
            for other in keys.iter().chain(hits).chain([&random]) {
                let other = outside(&wildcards, key, other);
                prop_assert_eq!(table.lookup_plain(&other), found, "{:?} {:?}", &wildcards, other);
            }
        }
    }

    #[test]
    fn wildcards_only_grow(
        steps in prop::collection::vec(step(), 0..40), key in key(), other in key(),
    ) {
        let (table, _) = build(steps);
        let mut wildcards = Mask::new();
        table.lookup(&other, &mut wildcards);
        let before = wildcards.clone();
        let found = table.lookup(&key, &mut wildcards);
        prop_assert!(before.is_within(&wildcards));
        let other = outside(&wildcards, &key, &other);
        prop_assert_eq!(table.lookup_plain(&other), found);
    }

    #[test]
    fn selections_agree_with_a_scan(
        steps in prop::collection::vec(step(), 0..40),
        wanted in prop_oneof![matching(), ipv4_matching(), crowded_matching()],
        priority in 0..6u16,
    ) {
        let (table, rules) = build(steps);
        prop_assert_eq!(table.len(), rules.len());
        for (matching, priority, id) in &rules {
            prop_assert_eq!(table.get(matching, *priority), Some(id));
        }
        for rule in table.iter() {
            let expect = rules.iter().find(|(_, _, id)| id == rule.rule).unwrap();
            prop_assert_eq!(&rule.matching(), &expect.0);
            prop_assert_eq!(rule.priority, expect.1);
        }
        let scan = |keep: &dyn Fn(&(Match, u16, u32)) -> bool| -> Vec<u32> {
            sorted(rules.iter().filter(|rule| keep(rule)).map(|rule| rule.2).collect())
        };
        let all = sorted(table.iter().map(|rule| *rule.rule).collect());
        prop_assert_eq!(all, scan(&|_| true));
        let within = sorted(table.matching_within(&wanted).map(|rule| *rule.rule).collect());
        prop_assert_eq!(within, scan(&|rule| rule.0.is_within(&wanted)));
        let over = table.overlapping(&wanted, priority).map(|rule| *rule.rule).collect();
        prop_assert_eq!(
            sorted(over),
            scan(&|rule| rule.1 == priority && rule.0.overlaps(&wanted))
        );
    }
}
