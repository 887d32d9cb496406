//! Which connections to forget.

mod text;

use crate::connections::Connections;
use crate::conntrack::Conntrack;
use crate::counters::Event;
use crate::cursor::Cursor;
use crate::error::Error;
use crate::key::Key;
use crate::record::{Record, passed_ms};
use base::{Instant, Zone};
use flow::{Masked, Tuple, TupleL4, TupleMatch};
use table::{Id, Index};
use wire::protocol;

/// What a connection must have to be flushed; what is `None` is not looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flush {
    /// Its zone.
    pub zone: Option<Zone>,
    /// Its IP protocol.
    pub protocol: Option<u8>,
    /// Its original direction.
    pub original: TupleMatch,
    /// Its reply direction.
    pub reply: TupleMatch,
    /// Bits of its mark.
    pub mark: Option<Masked<u32>>,
    /// Bits of its label.
    pub label: Option<Masked<u128>>,
}

/// How far a flush went that goes through connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Walked {
    /// Connections that were looked at: what it costs.
    seen: u32,
    /// Those that fitted.
    flushed: u32,
}

/// Which direction a text is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The direction of the first packet.
    Original,
    /// The other.
    Reply,
}

impl Flush {
    /// Everything in a zone.
    pub fn zone(zone: Zone) -> Flush {
        Flush { zone: Some(zone), ..Flush::default() }
    }

    /// The one key that a whole original tuple, without more, asks for; the zone is then 0 unless
    /// it is given (ovs: `lib/ct-dpif.c`, `ct_dpif_flush_tuple`).
    pub(crate) fn exact_key(&self) -> Option<Key> {
        if self.reply != TupleMatch::default() || self.mark.is_some() || self.label.is_some() {
            return None;
        }
        let is_icmp = matches!(self.protocol, Some(protocol::ICMP | protocol::ICMPV6));
        if is_icmp && self.original.icmp_type.is_none() {
            return None;
        }
        whole_key(self.protocol, &self.original, self.zone.unwrap_or(Zone(0)))
    }

    /// The keys that it can be looked up by in these zones, where one direction is given whole.
    fn keys(&self, zones: impl Iterator<Item = u16>) -> Option<Vec<Key>> {
        let sides = [&self.original, &self.reply];
        let is_whole = |side: &&TupleMatch| whole_key(self.protocol, side, Zone(0)).is_some();
        let side = sides.into_iter().find(is_whole)?;
        Some(zones.filter_map(|zone| whole_key(self.protocol, side, Zone(zone))).collect())
    }

    /// Whether it takes the same time however many connections there are: a flush of whole zones, or
    /// of a tuple that is whole in one direction. Others go through all connections of their zone or
    /// zones, and are for a thread that has the time.
    #[must_use]
    pub fn is_quick(&self) -> bool {
        self.is_whole() || self.keys(std::iter::empty()).is_some()
    }

    /// Whether the connection is to go.
    pub(crate) fn matches(&self, record: &Record<'_>) -> bool {
        let original = record.original();
        self.zone.is_none_or(|zone| zone.0 == original.zone)
            && self.protocol.is_none_or(|protocol| protocol == original.protocol)
            && self.mark.is_none_or(|it| (record.state().mark() ^ it.value) & it.mask == 0)
            && self.label.is_none_or(|it| (label(record) ^ it.value) & it.mask == 0)
            && self.original.matches(&original.tuple())
            && self.reply.matches(&record.reply().tuple())
    }

    /// Whether it asks for nothing but a zone, or for everything.
    pub(crate) fn is_whole(&self) -> bool {
        *self == Flush { zone: self.zone, ..Flush::default() }
    }
}

/// The key of a direction that is given whole: the addresses, and ports or an identifier where the
/// protocol has them. Type and code of an ICMP query do not count for where it is found.
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
        // Ports of others are not known here, and a port that they were asked for fits none.
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
    /// Forgets the connections that fit, and says how many. A whole zone, or all, costs the same
    /// whatever they hold, and a tuple that is whole in one direction a look into each zone asked
    /// for ([`Flush::is_quick`]). Anything else goes through its zone or all zones part by part:
    /// packets never wait, and others that ask or tidy wait for a part at most.
    ///
    /// # Errors
    /// A request for one whole original tuple found nothing.
    pub fn flush(&self, now: Instant, flush: &Flush) -> Result<u32, Error> {
        // Of a zone in which nothing was made since it was last flushed there is nothing to take a
        // hand to. This is asked before all else, since little code need then be fetched.
        let is_unused = |zone: Zone| self.connections.zones.number(zone.0) == 0;
        let is_empty = flush.zone.is_some_and(is_unused) && flush.is_whole();
        if is_empty && !self.connections.gateways.expect_any() {
            return Ok(0);
        }
        self.flush_used(now, flush)
    }

    #[inline(never)]
    fn flush_used(&self, now: Instant, flush: &Flush) -> Result<u32, Error> {
        if let Some(key) = flush.exact_key() {
            return self.with_hand(|connections, visit, tools| {
                tools.now = now;
                let hash = key.hash(&connections.secrets);
                let index = connections.zones.get(visit, key.zone);
                let found = connections.find(visit, tools, index, (&key, hash), passed_ms(now));
                let is_gone =
                    found.is_some_and(|it| connections.remove(visit, tools, it.id, Event::Flushed));
                if is_gone { Ok(1) } else { Err(Error::NoSuchConnection { zone: key.zone }) }
            });
        }
        if flush.is_whole() {
            return Ok(self.flush_zones(flush.zone));
        }
        let zones = &self.connections.zones;
        let keys = match flush.zone {
            Some(zone) => flush.keys(std::iter::once(zone.0)),
            None => flush.keys(zones.in_use()),
        };
        Ok(match keys {
            Some(keys) => keys.iter().map(|key| self.flush_at(now, flush, key)).sum(),
            None => self.flush_walking(now, flush).flushed,
        })
    }

    /// Forgets the connections that fit and stand where this key leads to.
    fn flush_at(&self, now: Instant, flush: &Flush, key: &Key) -> u32 {
        self.with_hand(|connections, visit, tools| {
            tools.now = now;
            let hash = key.hash(&connections.secrets);
            let Some(index) = connections.zones.get(visit, key.zone) else { return 0 };
            let mut flushed = 0;
            // Queries of one identifier may be several connections.
            while let Some(entry) = index.find(hash, |entry| {
                let record = connections.record(entry);
                !record.life().is_dead() && flush.matches(&record)
            }) {
                let id = Connections::plain(entry);
                flushed += u32::from(connections.remove(visit, tools, id, Event::Flushed));
            }
            flushed
        })
    }

    /// Goes through all connections of a zone or of all zones.
    fn flush_walking(&self, now: Instant, flush: &Flush) -> Walked {
        let mut walked = Walked::default();
        let mut cursor = Some(Cursor::default());
        let mut fitting: Vec<Id> = Vec::new();
        while let Some(at) = cursor {
            cursor = self.with_hand(|connections, visit, tools| {
                tools.now = now;
                let next = connections.page(visit, flush.zone, at, |id, record| {
                    walked.seen += 1;
                    if flush.matches(record) && record.kill() {
                        fitting.push(id);
                    }
                });
                // Within the same visit: afterwards the index could be another zone's.
                walked.flushed += fitting.len() as u32;
                for id in fitting.drain(..) {
                    connections.bury(visit, tools, id, Event::Flushed);
                }
                next
            });
        }
        walked
    }

    /// Forgets all connections of a zone, or of all zones.
    fn flush_zones(&self, zone: Option<Zone>) -> u32 {
        self.with_hand(|connections, visit, tools| {
            let zones = &connections.zones;
            let count = |zone| zones.get(visit, zone).map_or(0, Index::connections);
            let flushed = match zone {
                Some(zone) => count(zone.0),
                None => zones.in_use().map(count).sum(),
            };
            match zone {
                Some(zone) => _ = zones.detach(zone.0),
                None => _ = zones.detach_all(),
            }
            if connections.gateways.expect_any() {
                connections.gateways.with(|gateways| gateways.expectations.forget_zone(zone));
            }
            tools.counters.count_many(Event::Flushed, flushed);
            flushed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conntrack::Config;
    use base::PortNo;
    use flow::{CtAction, Frame};
    use packet::Packet;
    use std::sync::Arc;

    fn parsed(original: &str, reply: &str) -> Flush {
        let mut flush = Flush::default();
        flush.add_tuple(Direction::Original, original).unwrap();
        flush.add_tuple(Direction::Reply, reply).unwrap();
        flush
    }

    #[test]
    fn a_part_of_a_tuple_in_a_zone_looks_at_that_zones_connections_only() {
        let conntrack = Arc::new(Conntrack::new(1, Config::default()));
        let mut tracker = conntrack.tracker().unwrap();
        let now = Instant::from_millis(1);
        // Many in one zone, a few in the other.
        let fill = [(Zone(1), 1000), (Zone(2), 20)];
        for (zone, count) in fill {
            let action = CtAction { zone, commit: true, ..CtAction::default() };
            for port in 1..=count {
                let text = format!("10.0.0.1:{port}>10.0.0.2:80 udp len=0");
                let packet = Packet::from_bytes(&wire::text::parse(&text).unwrap());
                let mut frame = Frame::parse(packet, PortNo(1)).unwrap();
                tracker.execute(now, &action, std::slice::from_mut(&mut frame));
            }
        }
        let partial = parsed("ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.9", "");
        let marked = Flush { mark: Some(Masked { value: 7, mask: 7 }), ..Flush::default() };
        for flush in [partial, marked] {
            let seen = |zone| conntrack.flush_walking(now, &Flush { zone, ..flush }).seen;
            let zones = [Some(Zone(1)), Some(Zone(2)), Some(Zone(3)), None];
            assert_eq!(zones.map(seen), [1000, 20, 0, 1020]);
        }
        let hits = Flush { zone: Some(Zone(2)), ..parsed("ct_nw_src=10.0.0.1", "") };
        assert!(!hits.is_quick());
        assert_eq!(conntrack.flush_walking(now, &hits), Walked { seen: 20, flushed: 20 });
        assert_eq!(conntrack.connections(), 1000);
    }

    #[test]
    fn what_names_one_place_is_quick() {
        let whole =
            "ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=0x11,ct_tp_src=1,ct_tp_dst=2";
        let echo = "ct_nw_src=1.1.1.1,ct_nw_dst=1.1.1.2,ct_nw_proto=1,icmp_id=0";
        let with_type = format!("{echo},icmp_type=8");
        // Whether it names one connection, and whether it is quick.
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
        for (original, reply, is_exact, is_quick) in cases {
            let flush = parsed(original, reply);
            assert_eq!(flush.exact_key().is_some(), is_exact, "{original} {reply}");
            assert_eq!(flush.is_quick(), is_quick, "{original} {reply}");
            let marked = Flush { mark: Some(Masked { value: 1, mask: 1 }), ..flush };
            assert!(marked.exact_key().is_none(), "{original} {reply}");
            assert_eq!(marked.is_quick(), is_quick && !flush.is_whole(), "{original} {reply}");
        }
    }
}
