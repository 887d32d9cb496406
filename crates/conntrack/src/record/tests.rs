use super::association::SCTP_BUSY;
use super::*;
use crate::protocols::connection::Helper;
use crate::protocols::query::{Exchange, Query};
use crate::protocols::sctp::Association;
use crate::protocols::tcp::Segment;
use flow::NatKind;
use proptest::prelude::*;

fn keys() -> impl Strategy<Value = Key> {
    (any::<bool>(), any::<u128>(), any::<u128>(), any::<[u16; 2]>(), any::<u16>(), any::<u8>())
        .prop_map(|(v6, src, dst, l4, zone, protocol)| {
            let bits = if v6 { u128::MAX } else { 0xffff_ffff };
            let family = if v6 { Family::V6 } else { Family::V4 };
            let (src, dst) = (Address::from_bits(src & bits), Address::from_bits(dst & bits));
            Key { src, dst, l4, zone, protocol, family }
        })
}

fn protocols() -> impl Strategy<Value = Protocol> {
    let words = any::<[u64; 3]>().prop_map(|words| Protocol::Tcp(TcpPeers::from_words(words)));
    let association = (any::<[u64; 2]>(), 0..9u64).prop_map(|([tags, pending], state)| {
        Protocol::Sctp(Association::from_words([state, tags, pending]))
    });
    prop_oneof![
        words,
        association,
        Just(Protocol::Icmp(Query::First)),
        Just(Protocol::Icmp(Query::Reply)),
        Just(Protocol::Other(Exchange::Single)),
        Just(Protocol::Other(Exchange::Multiple)),
    ]
}

/// Runs with a record of the family, all of whose words were `fill`.
fn with_record<T>(family: Family, fill: u64, f: impl FnOnce(Record<'_>) -> T) -> T {
    match family {
        Family::V4 => f(Record::v4(&std::array::from_fn(|_| AtomicU64::new(fill)))),
        Family::V6 => f(Record::v6(&std::array::from_fn(|_| AtomicU64::new(fill)))),
    }
}

proptest! {
    #[test]
    fn a_record_holds_what_was_put_in(
        original in keys(), protocol in protocols(), fill: u64, mark: u32, mask: u32, label: u128,
        nat in prop_oneof![Just(None), Just(Some(NatKind::Src)), Just(Some(NatKind::Dst))],
        helper in prop_oneof![Just(None), Just(Some(Helper::Ftp)), Just(Some(Helper::Tftp))],
        header in 0..State::HEADERS, shard in 0..1u16 << 12, start_ms in 0..1u64 << 38,
        deadline in 1..1u64 << 40, counted in proptest::collection::vec((any::<bool>(), 0..70_000usize), 0..20),
    ) {
        with_record(original.family, fill, |record| {
            let reply = Key { l4: [1, 2], ..original.reversed() };
            let state = State::new(&protocol, nat, helper).with_header(header);
            let birth = Birth { shard, start: Instant::from_millis(start_ms) };
            let before = record.life().generation();
            record.begin([&original, &reply], &protocol, state, birth);
            record.start_living(deadline);
            assert_eq!((record.original(), record.reply()), (original, reply));
            assert_eq!((record.direction(&original), record.zone()), (Some(false), original.zone));
            if original != reply {
                assert_eq!(record.direction(&reply), Some(true));
            }
            assert_eq!(record.protocol(), protocol);
            assert_eq!((record.state().nat(), record.state().helper()), (nat, helper));
            assert_eq!(record.state().header(), header);
            assert_eq!((record.life().deadline_ms(), record.state().mark()), (deadline, 0));
            assert_ne!(record.life().generation(), before);
            assert_eq!((record.label(), record.counts(0), record.counts(1)), ([0; 2], (0, 0), (0, 0)));

            assert_eq!(record.set_mark(mark, mask), mark & mask != 0);
            assert_eq!(record.set_label(label, u128::MAX << 3), label >> 3 != 0);
            let mut sums = [(0, 0); 2];
            for (is_reply, bytes) in counted {
                record.count(is_reply, bytes);
                let sum = &mut sums[usize::from(is_reply)];
                *sum = (sum.0 + 1, sum.1 + bytes as u64);
            }
            assert_eq!([record.counts(0), record.counts(1)], sums);
            assert_eq!(record.state().mark(), mark & mask);
            assert_eq!(record.label(), [(label >> 64) as u64, label as u64 & !7]);
            let Birth { shard: found, start } = record.birth();
            assert_eq!((found, start.as_millis()), (shard, start_ms & !63));
            assert_eq!((record.original(), record.protocol()), (original, protocol));
        });
    }

    #[test]
    fn words_hold_both_sides_of_a_tcp_connection(
        segments in proptest::collection::vec((any::<[u8; 20]>(), any::<bool>()), 1..10),
    ) {
        let read = |bytes: &[u8; 20]| {
            let mut bytes = *bytes;
            bytes[12] = 0x50 | bytes[12] & 0xf;
            Segment::of(&bytes).unwrap()
        };
        let (mut peers, _) = TcpPeers::new(&read(&segments[0].0));
        let mut counters = crate::counters::Counters::new();
        for (bytes, is_reply) in &segments {
            peers.update(&read(bytes), *is_reply, true, &mut counters);
            prop_assert_eq!(TcpPeers::from_words(peers.words()), peers);
        }
    }
}

#[test]
fn one_thread_alone_ends_a_connection() {
    with_record(Family::V4, 0, |record| {
        assert!(record.life().is_dead() && !record.kill() && record.age().is_none());
        record.start_living(1000);
        let life = record.life();
        assert!(!life.is_over(999) && life.is_over(1000) && !life.is_dead());
        assert_eq!(record.set_deadline(life, 1500), Some(1000));
        assert!(!record.claim(life), "it lives longer than was seen");
        let generation = record.age();
        let life = record.life();
        assert_eq!(generation, Some(life.generation()));
        assert!(record.claim(life) && !record.claim(life) && !record.kill());
        assert!(record.life().is_dead() && record.life().is_over(0));
        assert_eq!(record.set_deadline(life, 2000), None);
        assert_ne!(record.life().generation(), life.generation());
    });
}

/// The clocks of two threads' batches differ a little: the earlier one moved the deadline back, and made the
/// wheel look sooner, with every packet.
#[test]
fn two_threads_do_not_move_a_deadline_back_and_forth() {
    with_record(Family::V4, 0, |record| {
        record.start_living(1000);
        let set = |deadline| {
            let before = record.set_deadline(record.life(), deadline);
            (before, record.life().deadline_ms())
        };
        assert_eq!(set(31_003), (Some(1000), 31_003));
        assert_eq!(set(31_001), (Some(31_001), 31_003), "what another thread set a moment ago");
        assert_eq!(set(31_004), (Some(31_003), 31_004));
        assert_eq!(set(5_000), (Some(31_004), 5_000), "a state with another timeout");
        // The value read is outdated by now.
        let seen = record.life();
        record.set_deadline(seen, 35_004);
        assert_eq!(record.set_deadline(seen, 35_002), Some(35_002));
        assert_eq!(record.life().deadline_ms(), 35_004);
    });
}

#[test]
fn generations_wrap_and_deadlines_saturate() {
    with_record(Family::V6, u64::MAX, |record| {
        record.start_living(u64::MAX);
        assert_eq!((record.life().generation(), record.life().deadline_ms()), (0, (1 << 40) - 1));
        record.start_living(0);
        assert!(!record.life().is_dead());
    });
}

#[test]
fn what_is_settled_is_told_at_one_glance() {
    let protocols = [
        Protocol::Other(Exchange::Single),
        Protocol::Other(Exchange::Multiple),
        Protocol::Icmp(Query::First),
        Protocol::Icmp(Query::Reply),
        Protocol::Tcp(TcpPeers::from_words([0; 3])),
        Protocol::Sctp(Association::from_words([0; 3])),
    ];
    for protocol in &protocols {
        for helper in [None, Some(Helper::Ftp), Some(Helper::Tftp)] {
            let of = |nat| State::new(protocol, nat, helper).with_header(77).with_mark(u32::MAX);
            for state in [of(None), of(Some(NatKind::Src)), of(None).expected()] {
                for (number, is_reply) in [(77, false), (77, true), (76, false), (0, true)] {
                    let is_plain = helper.is_none() && number == 77;
                    let is_settled = is_plain && state.is_settled(is_reply).is_some();
                    assert_eq!(state.differs_from_plain(number) == 0, is_plain);
                    let differs = state.differs_from_settled(number, is_reply);
                    assert_eq!(differs == 0, is_settled, "{state:?} {number} {is_reply}");
                }
            }
        }
    }
}

#[test]
fn an_association_changes_only_from_what_was_seen() {
    with_record(Family::V4, 0, |record| {
        let first = record.sctp_seen();
        let of = |state, tag| Association::from_words([state, tag, 5]);
        assert!(record.set_sctp(first, &of(3, 7)));
        assert_eq!(record.sctp(), of(3, 7));
        assert!(!record.set_sctp(first, &of(2, 9)), "it is another one by now");
        let second = record.sctp_seen();
        assert!(
            record.set_sctp(second, &of(3, 8)) && record.set_sctp(record.sctp_seen(), &of(3, 7))
        );
        assert!(!record.set_sctp(second, &of(4, 1)), "it is the same again, but changed between");
        assert_eq!(record.sctp(), of(3, 7));
    });
}

#[test]
fn threads_never_see_half_an_association() {
    with_record(Family::V6, 0, |record| {
        std::thread::scope(|scope| {
            for thread in 1..=3u64 {
                scope.spawn(move || {
                    for iteration in 0..2000 {
                        let seen = record.sctp_seen();
                        let [state, tags, pending] = seen.0.words();
                        let is_whole = (tags, pending) == (state, state);
                        assert!(is_whole || seen.1 & SCTP_BUSY != 0, "{state} {tags} {pending}");
                        let next = (thread + iteration) % 9;
                        record.set_sctp(seen, &Association::from_words([next; 3]));
                    }
                });
            }
        });
    });
}
