use super::*;
use flow::Match;

const SRC: Field = Field::Ipv4Src;
const DST: Field = Field::Ipv4Dst;

fn ip() -> Match {
    Match::any().with(Field::EthType, 0x800)
}

/// The rules are numbers; those with clauses have them here.
fn table(rules: &[(Match, u16, u32)]) -> Classifier<u32> {
    let mut table = Classifier::new();
    for (matching, priority, rule) in rules {
        table.insert(matching, *priority, *rule);
    }
    table
}

const fn clause(id: u32, clause: u8, clauses: u8) -> Clause {
    Clause { id, clause, clauses }
}

/// Rules with clauses, and these.
const CLAUSES: &[(u32, &[Clause])] = &[
    (11, &[clause(1, 0, 2)]),
    (12, &[clause(1, 1, 2)]),
    (31, &[clause(3, 0, 2)]),
    (32, &[clause(3, 1, 2)]),
    (41, &[clause(4, 0, 3), clause(1, 0, 2)]),
];

fn clauses(rule: &u32) -> &'static [Clause] {
    CLAUSES.iter().find(|(of, _)| of == rule).map_or(&[], |(_, clauses)| clauses)
}

fn packet(src: u128, dst: u128) -> FlowKey {
    let mut key = FlowKey::new();
    key.set_eth_type(0x800);
    key.set(SRC, src);
    key.set(DST, dst);
    key
}

#[test]
fn a_packet_needs_a_rule_of_each_clause_or_falls_back_to_lower_priorities() {
    let table = table(&[
        (Match::any().with(Field::ConjId, 1), 1, 1),
        (Match::any().with(Field::ConjId, 3), 1, 3),
        (ip().with(SRC, 1), 5, 11),
        (ip().with(SRC, 2), 5, 11),
        (ip().with(SRC, 6), 5, 41),
        (ip().with(DST, 1), 5, 12),
        (ip().with(DST, 2), 5, 12),
        (ip().with(SRC, 3).with(DST, 2), 4, 2),
        (ip().with(SRC, 1), 3, 31),
        (ip().with(SRC, 3), 3, 31),
        (ip().with(DST, 2), 3, 32),
        (ip().with(DST, 4), 3, 32),
        (ip().with(DST, 1), 2, 4),
        (Match::any(), 0, 6),
    ]);
    // Source, destination, the rule.
    let cases = [
        (1, 1, 1),
        (2, 2, 1),
        // One clause only.
        (1, 9, 6),
        // The second conjunction has lower priority, one rule of it the match of the first's.
        (1, 4, 3),
        (3, 4, 3),
        (2, 4, 6),
        // Rules without clauses between the two.
        (3, 2, 2),
        (9, 1, 4),
        // A rule of two conjunctions; one of them has three clauses.
        (6, 1, 1),
        (9, 9, 6),
    ];
    for (src, dst, expect) in cases {
        let mut wildcards = Mask::new();
        let found = table.lookup_conjunctive(&packet(src, dst), &mut wildcards, clauses);
        assert_eq!(found, Some(&expect), "{src} {dst}");
        // Every packet that agrees in what was looked at has the same result.
        assert!(wildcards.has(SRC) && wildcards.has(DST), "{src} {dst}: {wildcards:?}");
    }
}

#[test]
fn a_conjunction_whose_conj_id_no_rule_matches_is_no_match() {
    let table = table(&[(ip().with(SRC, 1), 5, 11), (ip().with(DST, 1), 5, 12), (ip(), 0, 6)]);
    let found = table.lookup_conjunctive(&packet(1, 1), &mut Mask::new(), clauses);
    assert_eq!(found, Some(&6));
}
