//! Flushes: removes the connections of whole zones, of one tuple, or all that match.

mod text;

pub use text::{add_labels, add_mark, add_tuple};

use crate::connections::zone_filter;
use crate::connections::{Connections, Place};
use crate::conntrack::Conntrack;
use crate::counters::Event;
use crate::error::Error;
use crate::key::{Family, Key};
use crate::management::cursor::Cursor;
use crate::record::{Record, passed_ms};
use base::{Instant, Zone};
use flow::{CtFlush, Tuple, TupleL4, TupleMatch};
use table::{Id, Index};
use wire::protocol;

/// The progress of a flush that visits connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Walked {
    /// The number of connections visited, which is the cost.
    seen: u32,
    /// The number of connections flushed.
    flushed: u32,
}

/// The places that may have matching connections.
struct Reach {
    zones: Vec<Zone>,
    /// Visiting all records costs less than visiting the connections of these zones.
    prefers_records: bool,
}

impl Reach {
    /// Visiting a connection through its index costs as much as visiting this many records in
    /// order.
    const RECORDS_A_CONNECTION: u64 = 3;

    fn of(connections: &Connections, flush: &CtFlush) -> Reach {
        let all = &connections.zones;
        let index_of =
            |zone: u16| all.index(all.number(zone)).filter(|it| zone_filter::may_hold(it, flush));
        let mut reach = Reach { zones: Vec::new(), prefers_records: false };
        let mut indexed = 0;
        let mut add = |zone: u16| {
            if let Some(index) = index_of(zone) {
                reach.zones.push(Zone(zone));
                indexed += u64::from(index.connections());
            }
        };
        match flush.zone {
            Some(zone) => add(zone.0),
            None => all.in_use().for_each(add),
        }
        let records = [Family::V4, Family::V6].map(|it| u64::from(connections.highest(it)));
        reach.prefers_records = indexed * Self::RECORDS_A_CONNECTION > records.iter().sum();
        reach
    }
}

/// The direction that a tuple is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The direction of the first packet.
    Original,
    /// The other direction.
    Reply,
}

/// The key if the flush selects by a complete original tuple alone, in zone 0 by default (ovs:
/// `lib/ct-dpif.c`, `ct_dpif_flush_tuple`).
fn exact_key(flush: &CtFlush) -> Option<Key> {
    if flush.reply != TupleMatch::default() || flush.mark.is_some() || flush.label.is_some() {
        return None;
    }
    let is_icmp = matches!(flush.protocol, Some(protocol::ICMP | protocol::ICMPV6));
    if is_icmp && flush.original.icmp_type.is_none() {
        return None;
    }
    whole_key(flush.protocol, &flush.original, flush.zone.unwrap_or(Zone(0)))
}

/// The keys to look up in these zones, if one direction's tuple is complete.
fn keys(flush: &CtFlush, zones: impl Iterator<Item = u16>) -> Option<Vec<Key>> {
    let sides = [&flush.original, &flush.reply];
    let is_whole = |side: &&TupleMatch| whole_key(flush.protocol, side, Zone(0)).is_some();
    let side = sides.into_iter().find(is_whole)?;
    Some(zones.filter_map(|zone| whole_key(flush.protocol, side, Zone(zone))).collect())
}

/// Whether the cost does not depend on the number of connections: a flush of whole zones, or of a
/// complete tuple of one direction. Others visit all connections of the zones whose
/// [filter](crate::connections::zone_filter) may match, and need a thread with time.
#[must_use]
pub fn is_quick(flush: &CtFlush) -> bool {
    flush.is_whole() || keys(flush, std::iter::empty()).is_some()
}

/// Whether the flush selects the connection.
fn matches(flush: &CtFlush, record: &Record<'_>) -> bool {
    let original = record.original();
    flush.zone.is_none_or(|zone| zone.0 == original.zone)
        && flush.protocol.is_none_or(|protocol| protocol == original.protocol)
        && flush.mark.is_none_or(|it| (record.state().mark() ^ it.value) & it.mask == 0)
        && flush.label.is_none_or(|it| (label(record) ^ it.value) & it.mask == 0)
        && flush.original.matches(&original.tuple())
        && flush.reply.matches(&record.reply().tuple())
}

/// The key of a complete tuple: the addresses, and ports or an identifier if the protocol has them.
/// Type and code of an ICMP query do not matter for the lookup.
fn whole_key(protocol: Option<u8>, side: &TupleMatch, zone: Zone) -> Option<Key> {
    let protocol = protocol?;
    let l4 = match protocol {
        protocol::ICMP | protocol::ICMPV6 => {
            let (icmp_type, code) =
                (side.icmp_type.unwrap_or_default(), side.icmp_code.unwrap_or_default());
            TupleL4::Icmp { id: side.icmp_id?, icmp_type, code }
        }
        protocol::TCP | protocol::UDP | protocol::SCTP => {
            TupleL4::Ports { src: side.src_port?, dst: side.dst_port? }
        }
        // The ports of other protocols are unknown, so a port matches none of them.
        _ if side.src_port.is_some() || side.dst_port.is_some() => return None,
        _ => TupleL4::None,
    };
    Key::from_tuple(&Tuple { src: side.src?, dst: side.dst?, protocol, l4 }, zone)
}

fn label(record: &Record<'_>) -> u128 {
    let [high, low] = record.label();
    u128::from(high) << 64 | u128::from(low)
}

impl Conntrack {
    /// Removes the selected connections and returns their number. Whole zones take the same time
    /// whatever they hold; a complete tuple of one direction takes a lookup in each zone
    /// ([`is_quick`]). Other flushes visit the zones that may match part by part: packets never
    /// wait for them, and other commands wait for at most one part.
    ///
    /// # Errors
    /// [`Error::NoSuchConnection`]: no connection has the one complete original tuple.
    pub fn flush(&self, now: Instant, flush: &CtFlush) -> Result<u32, Error> {
        // An unused zone needs no work, which is tested first and without the lock.
        let is_unused = |zone: Zone| self.connections.zones.is_unused(zone.0);
        let is_empty = flush.zone.is_some_and(is_unused) && flush.is_whole();
        if is_empty && !self.connections.algs.expect_any() {
            return Ok(0);
        }
        self.flush_used(now, flush)
    }

    #[inline(never)]
    fn flush_used(&self, now: Instant, flush: &CtFlush) -> Result<u32, Error> {
        if let Some(key) = exact_key(flush) {
            return self.with_context(|connections, guard, context| {
                context.now = now;
                let hash = key.hash(&connections.secrets);
                let index = connections.zones.get(guard, key.zone);
                let found = connections.find(guard, context, index, (&key, hash), passed_ms(now));
                let is_gone = found
                    .is_some_and(|it| connections.remove(guard, context, it.id, Event::Flushed));
                if is_gone { Ok(1) } else { Err(Error::NoSuchConnection { zone: key.zone }) }
            });
        }
        if flush.is_whole() {
            return Ok(self.flush_zones(flush.zone));
        }
        let zones = &self.connections.zones;
        let keys = match flush.zone {
            Some(zone) => keys(flush, std::iter::once(zone.0)),
            None => keys(flush, zones.in_use()),
        };
        Ok(match keys {
            Some(keys) => keys.iter().map(|key| self.flush_at(now, flush, key)).sum(),
            None => self.flush_walking(now, flush).flushed,
        })
    }

    /// Removes the selected connections that a lookup of this key finds.
    fn flush_at(&self, now: Instant, flush: &CtFlush, key: &Key) -> u32 {
        self.with_context(|connections, guard, context| {
            context.now = now;
            let hash = key.hash(&connections.secrets);
            let Some(index) = connections.zones.get(guard, key.zone) else { return 0 };
            let mut flushed = 0;
            // Several connections may be queries of one identifier.
            while let Some(entry) = index.find(hash, |entry| {
                let record = connections.record(entry);
                !record.life().is_dead() && matches(flush, &record)
            }) {
                let id = Connections::plain(entry);
                flushed += u32::from(connections.remove(guard, context, id, Event::Flushed));
            }
            flushed
        })
    }

    /// Visits the places that may have matches: indexes of zones, or all records where that is
    /// cheaper.
    fn flush_walking(&self, now: Instant, flush: &CtFlush) -> Walked {
        let reach = Reach::of(&self.connections, flush);
        match reach.prefers_records {
            true => self.flush_records(now, flush),
            false => self.flush_indexes(now, flush, &reach.zones),
        }
    }

    fn flush_indexes(&self, now: Instant, flush: &CtFlush, zones: &[Zone]) -> Walked {
        let mut walked = Walked::default();
        let mut fitting: Vec<Id> = Vec::new();
        for &zone in zones {
            let mut cursor = Some(Cursor { zone: zone.0, bucket: 0 });
            while let Some(at) = cursor {
                cursor = self.with_context(|connections, guard, context| {
                    context.now = now;
                    let next = connections.page(
                        guard,
                        Some(zone),
                        at,
                        |_| true,
                        |id, record| {
                            walked.seen += 1;
                            if matches(flush, record) && record.kill() {
                                fitting.push(id);
                            }
                        },
                    );
                    // Under the same guard, since the index may be another zone's afterwards.
                    walked.flushed += fitting.len() as u32;
                    for id in fitting.drain(..) {
                        connections.unlink(guard, context, id, Event::Flushed);
                    }
                    next
                });
            }
        }
        walked
    }

    fn flush_records(&self, now: Instant, flush: &CtFlush) -> Walked {
        let mut walked = Walked::default();
        let mut place = Some(Place::START);
        let mut fitting: Vec<Id> = Vec::new();
        while let Some(at) = place {
            place = self.with_context(|connections, guard, context| {
                context.now = now;
                let next = connections.part_of_records(guard, at, |id, record| {
                    walked.seen += 1;
                    if matches(flush, record) {
                        fitting.push(id);
                    }
                });
                for id in fitting.drain(..) {
                    // The record may have been written during the match. Once it is in its index,
                    // it stays the same connection.
                    let fits = connections.is_indexed(guard, id)
                        && matches(flush, &connections.record(id));
                    let is_gone = fits && connections.remove(guard, context, id, Event::Flushed);
                    walked.flushed += u32::from(is_gone);
                }
                next
            });
        }
        walked
    }

    /// Removes all connections of a zone, or of all zones.
    fn flush_zones(&self, zone: Option<Zone>) -> u32 {
        self.with_context(|connections, guard, context| {
            let zones = &connections.zones;
            let count = |zone| zones.get(guard, zone).map_or(0, Index::connections);
            let flushed = match zone {
                Some(zone) => count(zone.0),
                None => zones.in_use().map(count).sum(),
            };
            match zone {
                Some(zone) => _ = zones.detach(zone.0),
                None => _ = zones.detach_all(),
            }
            if connections.algs.expect_any() {
                connections.algs.with(|algs| algs.expectations.forget_zone(zone));
            }
            context.counters.count_many(Event::Flushed, flushed.into());
            flushed
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::conntrack::Config;
    use base::PortNo;
    use flow::Masked;
    use flow::{CtAction, Frame};
    use packet::Packet;
    use std::sync::Arc;

    fn parsed(original: &str, reply: &str) -> CtFlush {
        let mut flush = CtFlush::default();
        add_tuple(&mut flush, Direction::Original, original).unwrap();
        add_tuple(&mut flush, Direction::Reply, reply).unwrap();
        flush
    }

    /// A tracker with UDP connections in each zone (zone and number), from port 1 of 10.0.0.1 on to port 80 of 10.0.1.ZONE.
    fn filled(zones: &[(u16, u16)]) -> Arc<Conntrack> {
        let conntrack = Arc::new(Conntrack::new(1, Config::default()));
        let mut tracker = conntrack.tracker().unwrap();
        for &(zone, count) in zones {
            let action = CtAction { zone: Zone(zone), commit: true, ..CtAction::default() };
            for port in 1..=count {
                let text = format!("10.0.0.1:{port}>10.0.1.{zone}:80 udp len=0");
                track(&mut tracker, &action, &text);
            }
        }
        conntrack
    }

    fn track(tracker: &mut crate::Tracker, action: &CtAction, text: &str) {
        let packet = Packet::from_bytes(&wire::text::parse(text).unwrap());
        let mut frame = Frame::parse(packet, PortNo(1)).unwrap();
        tracker.execute(NOW, action, std::slice::from_mut(&mut frame));
    }

    const NOW: Instant = Instant::from_millis(1);

    fn seen(conntrack: &Conntrack, flush: CtFlush, zone: Option<u16>) -> u32 {
        conntrack.flush_walking(NOW, &CtFlush { zone: zone.map(Zone), ..flush }).seen
    }

    #[test]
    fn a_flush_looks_only_at_zones_that_may_hold_what_it_asks_for() {
        // Many connections in one zone, a few in the others.
        let conntrack = filled(&[(1, 1000), (2, 20), (3, 20)]);
        let mark = |value| CtFlush { mark: Some(Masked { value, mask: 7 }), ..CtFlush::default() };
        let label = CtFlush { label: Some(Masked { value: 1, mask: 1 }), ..CtFlush::default() };
        // How many connections each flush visits in zones 1, 2 and 4 and in all. If most connections may
        // match, all records are visited in order.
        let cases = [
            (parsed("ct_nw_src=10.0.0.1,ct_nw_proto=17,ct_tp_src=2000", ""), [1040, 20, 0, 1040]),
            (parsed("ct_nw_dst=10.0.1.2,ct_nw_proto=17,ct_tp_src=2000", ""), [0, 20, 0, 20]),
            (parsed("", "ct_nw_src=10.0.1.2,ct_nw_proto=17,ct_tp_dst=2000"), [0, 20, 0, 20]),
            (parsed("ct_nw_src=10.0.1.1", ""), [0; 4]),
            (parsed("ct_nw_proto=17,ct_tp_dst=81", ""), [0; 4]),
            (parsed("ct_nw_proto=6", ""), [0; 4]),
            (mark(7), [0; 4]),
            (label, [0; 4]),
        ];
        for (flush, expect) in cases {
            let zones = [Some(1), Some(2), Some(4), None];
            assert_eq!(zones.map(|zone| seen(&conntrack, flush, zone)), expect, "{flush:?}");
        }
        let hits = CtFlush { zone: Some(Zone(2)), ..parsed("ct_nw_src=10.0.0.1", "") };
        assert!(!is_quick(&hits));
        assert_eq!(conntrack.flush_walking(NOW, &hits), Walked { seen: 20, flushed: 20 });
        assert_eq!(conntrack.connections(), 1020);
    }

    #[test]
    fn marks_and_labels_are_noted_when_they_are_set_and_forgotten_with_their_zone() {
        let conntrack = filled(&[(1, 30), (2, 30)]);
        let mut tracker = conntrack.tracker().unwrap();
        let zone = Zone(2);
        let set = |mark, label| CtAction {
            zone,
            commit: true,
            mark: Some(Masked { value: mark, mask: 3 }),
            label: Some(Masked { value: label, mask: !0 }),
            ..CtAction::default()
        };
        // Existing connections; the second one is found by its reply.
        track(&mut tracker, &set(1, 0), "10.0.0.1:1>10.0.1.2:80 udp len=0");
        track(&mut tracker, &set(6, 1 << 100), "10.0.1.2:80>10.0.0.1:2 udp len=0");
        let mark = |value| CtFlush { mark: Some(Masked { value, mask: 7 }), ..CtFlush::default() };
        let label = |bit: u32| CtFlush {
            label: Some(Masked { value: 1 << bit, mask: 1 << bit }),
            ..CtFlush::default()
        };
        // Both bits are set, on two connections; bit 36 overlays bit 100.
        let cases = [(mark(3), 60), (mark(4), 0), (label(36), 60), (label(100), 60), (label(5), 0)];
        for (flush, expect) in cases {
            assert_eq!([Some(1), None].map(|zone| seen(&conntrack, flush, zone)), [0, expect]);
        }
        conntrack.flush(NOW, &CtFlush::zone(zone)).unwrap();
        while conntrack.drain() {}
        track(&mut tracker, &set(0, 0), "10.0.0.1:1>10.0.1.2:80 udp len=0");
        assert_eq!(
            [mark(3), mark(0), label(36)].map(|it| seen(&conntrack, it, None)),
            [0, 31, 0],
            "the mark is 0"
        );
    }

    #[test]
    fn what_names_one_place_is_quick() {
        let whole =
            "ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=0x11,ct_tp_src=1,ct_tp_dst=2";
        let echo = "ct_nw_src=1.1.1.1,ct_nw_dst=1.1.1.2,ct_nw_proto=1,icmp_id=0";
        let with_type = format!("{echo},icmp_type=8");
        // Whether the flush names one connection, and whether it is quick.
        let cases = [
            (whole, "", true, true),
            (whole, "ct_nw_src=10.0.0.2", false, true),
            ("", whole, false, true),
            ("ct_nw_src=10.0.0.2", whole, false, true),
            ("ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=17,ct_tp_src=1", "", false, false),
            ("ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=47", "", true, true),
            ("ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2", "", false, false),
            (&with_type, "", true, true),
            (echo, "", false, true),
            ("ct_nw_src=1.1.1.1,ct_nw_dst=1.1.1.2,ct_nw_proto=1,icmp_type=8", "", false, false),
            ("ct_nw_src=1.1.1.1", "", false, false),
            ("", "", false, true),
        ];
        for (original, reply, exact, quick) in cases {
            let flush = parsed(original, reply);
            assert_eq!(exact_key(&flush).is_some(), exact, "{original} {reply}");
            assert_eq!(is_quick(&flush), quick, "{original} {reply}");
            let marked = CtFlush { mark: Some(Masked { value: 1, mask: 1 }), ..flush };
            assert!(exact_key(&marked).is_none(), "{original} {reply}");
            assert_eq!(is_quick(&marked), quick && !flush.is_whole(), "{original} {reply}");
        }
    }
}
