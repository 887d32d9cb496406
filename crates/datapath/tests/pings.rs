//! Pings, and packets of protocols without ports, through tables that track them: which of them hit the
//! unified cache, and that the cache is not visible from outside.

#[path = "support/bench.rs"]
mod bench;

use base::{PortNo, RecircId};
use bench::Bench;
use datapath::WorkerConfig;
use flow::{Action, CtAction, CtState, Field, Match, Nat, NatKind, NatRange, SetField};

const TRACKED: RecircId = RecircId(1);

/// A packet; its input port is before the colon.
struct Sent<'a>(&'a str, Comes);

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comes {
    /// It missed the cache and was forwarded.
    Walking,
    /// It hit the cache.
    Known,
    /// It missed the cache and was dropped.
    Nowhere,
}
use Comes::{Known, Nowhere, Walking};

/// Two ports. Tracked packets go from one to the other with a decremented TTL. Only the first port may start
/// connections; with `nat` their source becomes one address.
fn forwards_tracked(unified_entries: usize, nat: bool) -> Bench {
    let mut flows = Vec::new();
    for (port, to) in [(1u32, 2), (2, 1)] {
        for eth_type in [0x800u16, 0x86dd] {
            let from = |recirc: RecircId| {
                Match::any()
                    .with(Field::InPort, port.into())
                    .with(Field::RecircId, recirc.0.into())
                    .with(Field::EthType, eth_type.into())
                    .with(Field::NwFrag, 0)
            };
            let restore = nat.then_some(Nat::Restore);
            let look = CtAction { nat: restore, ..CtAction::default() };
            let look = vec![Action::Ct(Box::new(look)), Action::Recirc(TRACKED)];
            flows.push((from(RecircId(0)), look));
            let of = (CtState::NEW | CtState::EST | CtState::TRK).bits();
            for (ttl, state) in
                [64u8, 9].into_iter().flat_map(|it| [(it, CtState::EST), (it, CtState::NEW)])
            {
                let matching = from(TRACKED)
                    .with_masked(Field::CtState, (state | CtState::TRK).bits().into(), of.into())
                    .with(Field::NwTtl, ttl.into());
                let hop = SetField { field: Field::NwTtl, value: u128::from(ttl) - 1, mask: 0xff };
                let end = [Action::Set(hop), Action::Output(PortNo(to))];
                let commit =
                    CtAction { commit: true, nat: nat.then(source), ..CtAction::default() };
                let actions = match state == CtState::NEW {
                    true if port == 2 => vec![],
                    true => [Action::Ct(Box::new(commit))].into_iter().chain(end).collect(),
                    false => end.to_vec(),
                };
                flows.push((matching, actions));
            }
        }
    }
    let mut bench = Bench::new(WorkerConfig { unified_entries, ..WorkerConfig::default() });
    bench.put_all(flows);
    bench
}

fn source() -> Nat {
    let address = std::net::IpAddr::from([20, 0, 0, 1]);
    Nat::Rewrite(NatRange {
        kind: NatKind::Src,
        addresses: Some((address, address)),
        ports: None,
        selection: flow::PortSelection::Default,
        persistent: false,
    })
}

/// Sends packets with the cache on and off. Output and connections must be the same, and the fate of each
/// packet with the cache on as expected. Returns the last output.
fn check(nat: bool, packets: &[Sent<'_>]) -> Vec<u8> {
    let runs = [1 << 10, 0].map(|entries| {
        let mut bench = forwards_tracked(entries, nat);
        let mut seen = Vec::new();
        for Sent(text, _) in packets {
            let (port, text) = text.split_once(": ").unwrap();
            let hits = bench.worker.stats().unified_hits;
            bench.send(port.parse().unwrap(), &[text]);
            seen.push((text, bench.sent_bytes(), bench.worker.stats().unified_hits > hits));
        }
        let entries = bench.entries();
        (seen, entries)
    });
    let [(on, on_entries), (off, off_entries)] = runs;
    for ((with, without), Sent(text, comes)) in on.iter().zip(&off).zip(packets) {
        assert_eq!((with.0, &with.1), (without.0, &without.1), "{text}");
        let came = match (with.1.is_empty(), with.2) {
            (_, true) => Known,
            (true, _) => Nowhere,
            (false, _) => Walking,
        };
        assert_eq!(came, *comes, "{text}: {:?}", with.1);
    }
    assert_eq!(on_entries, off_entries);
    on.into_iter().filter_map(|(_, mut sent, _)| Some(sent.pop()?.1)).next_back().unwrap()
}

/// The addresses of both hosts, for each IP version.
const ENDS: [(&str, &str); 2] = [("10.0.0.1", "10.0.0.2"), ("[fd00::1]", "[fd00::2]")];

#[test]
fn a_ping_and_its_answers_are_known_and_nothing_beside_them() {
    for (a, b) in ENDS {
        let there = |more: &str| format!("1: {a}>{b} icmp-echo id=7 {more}");
        let back = |more: &str| format!("2: {b}>{a} icmp-reply id=7 {more}");
        let other = format!("1: {a}>{b} icmp-echo id=8 seq=1");
        let early = format!("2: {b}>{a} icmp-reply id=8 seq=1");
        let wrong = format!("2: {b}>{a} icmp-echo id=7 seq=1");
        check(
            false,
            &[
                // A reply without a request.
                Sent(&back("seq=1"), Nowhere),
                Sent(&there("seq=1"), Walking),
                // There is no reply yet, so every request is new.
                Sent(&there("seq=2"), Walking),
                Sent(&there("seq=3"), Known),
                // The reply changes the connection, which invalidates cache entries.
                Sent(&back("seq=1"), Walking),
                Sent(&there("seq=4"), Walking),
                Sent(&there("seq=5 len=30"), Known),
                Sent(&back("seq=4"), Known),
                Sent(&back("seq=5 len=30"), Known),
                Sent(&there("seq=6"), Known),
                // Another identifier is another connection; another type belongs to none.
                Sent(&early, Nowhere),
                Sent(&other, Walking),
                Sent(&wrong, Nowhere),
                Sent(&wrong, Nowhere),
                Sent(&there("seq=7 csum=bad"), Nowhere),
                Sent(&there("seq=7 ttl=9"), Walking),
                Sent(&there("seq=8 ttl=9"), Known),
                Sent(&there("seq=9"), Known),
            ],
        );
    }
}

#[test]
fn identifiers_are_rewritten_as_addresses_are() {
    // Two hosts behind one address use the same identifier; the second gets another one.
    let [one, two] = ["1", "9"]
        .map(|from| move |more: &str| format!("1: 10.0.0.{from}>10.0.0.2 icmp-echo {more}"));
    let back = |more: &str| format!("2: 10.0.0.2>20.0.0.1 icmp-reply {more}");
    let last = check(
        true,
        &[
            Sent(&one("id=7 seq=1"), Walking),
            Sent(&two("id=7 seq=1"), Walking),
            Sent(&back("id=7 seq=1"), Walking),
            Sent(&back("id=8 seq=1"), Walking),
            Sent(&one("id=7 seq=2"), Walking),
            Sent(&two("id=7 seq=2"), Walking),
            Sent(&back("id=7 seq=2"), Known),
            Sent(&back("id=8 seq=2"), Known),
            Sent(&back("id=7 seq=3"), Known),
            Sent(&back("id=8 seq=3"), Known),
            Sent(&back("id=9 seq=3"), Nowhere),
            Sent(&one("id=7 seq=4"), Known),
            Sent(&two("id=7 seq=4 len=31"), Known),
        ],
    );
    let came = wire::text::parse("20.0.0.1>10.0.0.2 icmp-echo id=8 seq=4 len=31 ttl=63").unwrap();
    assert_eq!(last[14..], came[14..]);
}

#[test]
fn protocols_without_ports_are_known_by_their_addresses() {
    for protocol in [2, 47, 50] {
        let there = |more: &str| format!("1: 10.0.0.1>10.0.0.2 ip proto={protocol} {more}");
        let back = |more: &str| format!("2: 10.0.0.2>10.0.0.1 ip proto={protocol} {more}");
        check(
            false,
            &[
                Sent(&back("len=9"), Nowhere),
                Sent(&there("len=9"), Walking),
                Sent(&back("len=9"), Walking),
                Sent(&there("len=9"), Walking),
                Sent(&there("len=9"), Known),
                Sent(&there("len=9 frag=first"), Nowhere),
                Sent(&back("len=9"), Known),
            ],
        );
    }
}

#[test]
fn fragments_are_never_known() {
    let there = |more: &str| format!("1: 10.0.0.1>10.0.0.2 icmp-echo id=7 seq=1 {more}");
    check(
        false,
        &[
            Sent(&there("len=16"), Walking),
            Sent("2: 10.0.0.2>10.0.0.1 icmp-reply id=7 seq=1 len=16", Walking),
            Sent(&there("len=16"), Walking),
            Sent(&there("len=16"), Known),
            Sent(&there("len=16 frag=first"), Nowhere),
            Sent(&there("len=16 frag=first"), Nowhere),
            Sent(&there("len=16"), Known),
        ],
    );
}
