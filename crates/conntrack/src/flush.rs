//! Which connections to forget.

use crate::conntrack::Conntrack;
use crate::counters::Event;
use crate::cursor::Cursor;
use crate::error::Error;
use crate::key::Key;
use crate::record::{Record, passed_ms};
use crate::text::{fields, number};
use base::{Instant, Zone};
use flow::{Masked, Tuple, TupleL4, TupleMatch};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
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

    /// Adds what a text such as `ct_nw_src=10.0.0.1,ct_nw_proto=6,ct_tp_dst=80` asks of a
    /// direction (ovs: `lib/ofp-ct.c`, `ofp_ct_tuple_parse`).
    ///
    /// # Errors
    /// What is wrong with the text, in Open vSwitch's words.
    pub fn add_tuple(&mut self, direction: Direction, text: &str) -> Result<(), Error> {
        for (key, value) in fields(text) {
            if value.is_empty() {
                return Err(Error::MissingValue { key: key.to_owned() });
            }
            self.add_field(direction, key, value)?;
        }
        let tuple = self.side(direction);
        let has_port = tuple.src_port.is_some() || tuple.dst_port.is_some();
        if has_port && self.protocol.is_none() {
            return Err(Error::PortWithoutProtocol);
        }
        Ok(())
    }

    fn side(&mut self, direction: Direction) -> &mut TupleMatch {
        match direction {
            Direction::Original => &mut self.original,
            Direction::Reply => &mut self.reply,
        }
    }

    fn add_field(&mut self, direction: Direction, key: &str, value: &str) -> Result<(), Error> {
        let bad = || Error::BadValue { key: key.to_owned() };
        let is_icmp = matches!(self.protocol, Some(protocol::ICMP | protocol::ICMPV6));
        match key {
            "ct_nw_src" | "ct_nw_dst" => {
                let ip: Ipv4Addr = value.parse().map_err(|_| bad())?;
                self.add_address(direction, key, value, ip.into())?;
            }
            "ct_ipv6_src" | "ct_ipv6_dst" => {
                let ip: Ipv6Addr = value.parse().map_err(|_| bad())?;
                self.add_address(direction, key, value, ip.into())?;
            }
            "ct_nw_proto" => {
                self.protocol = Some(number(value).ok_or_else(bad)?).filter(|&it: &u8| it != 0);
            }
            "ct_tp_src" | "ct_tp_dst" => {
                let port = number(value).ok_or_else(bad)?;
                let side = self.side(direction);
                let slot = if key == "ct_tp_src" { &mut side.src_port } else { &mut side.dst_port };
                *slot = Some(port).filter(|&port| port != 0);
            }
            "icmp_id" | "icmp_type" | "icmp_code" if !is_icmp => return Err(Error::NotIcmp),
            "icmp_id" => self.side(direction).icmp_id = Some(number(value).ok_or_else(bad)?),
            "icmp_type" => self.side(direction).icmp_type = Some(number(value).ok_or_else(bad)?),
            "icmp_code" => self.side(direction).icmp_code = Some(number(value).ok_or_else(bad)?),
            _ => return Err(Error::UnknownField { key: key.to_owned() }),
        }
        Ok(())
    }

    fn add_address(
        &mut self,
        direction: Direction,
        key: &str,
        value: &str,
        ip: IpAddr,
    ) -> Result<(), Error> {
        let given = [self.original.src, self.original.dst, self.reply.src, self.reply.dst];
        if given.iter().flatten().any(|other| other.is_ipv4() != ip.is_ipv4()) {
            return Err(Error::MixedFamilies { value: value.to_owned() });
        }
        let side = self.side(direction);
        let slot = if key.ends_with("src") { &mut side.src } else { &mut side.dst };
        if slot.is_some() {
            return Err(Error::Repeated { key: key.to_owned() });
        }
        *slot = Some(ip).filter(|ip| !ip.is_unspecified());
        Ok(())
    }

    /// The one key that a whole original tuple, without more, asks for; the zone is then 0 unless
    /// it is given (ovs: `lib/ct-dpif.c`, `ct_dpif_flush_tuple`).
    pub(crate) fn exact_key(&self) -> Option<Key> {
        let TupleMatch { src, dst, src_port, dst_port, icmp_id, icmp_type, icmp_code } =
            self.original;
        let protocol = self.protocol?;
        let l4 = match protocol {
            protocol::ICMP | protocol::ICMPV6 => {
                TupleL4::Icmp { id: icmp_id?, icmp_type: icmp_type?, code: icmp_code.unwrap_or(0) }
            }
            _ => TupleL4::Ports { src: src_port?, dst: dst_port? },
        };
        if self.reply != TupleMatch::default() || self.mark.is_some() || self.label.is_some() {
            return None;
        }
        let tuple = Tuple { src: src?, dst: dst?, protocol, l4 };
        Key::from_tuple(&tuple, self.zone.unwrap_or(Zone(0)))
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

fn label(record: &Record<'_>) -> u128 {
    let [high, low] = record.label();
    u128::from(high) << 64 | u128::from(low)
}

impl Conntrack {
    /// Forgets the connections that fit, and says how many. A whole zone, or all, costs the same
    /// whatever they hold; a whole original tuple one look; anything else a walk through its zone.
    ///
    /// # Errors
    /// A request for one whole original tuple found nothing.
    pub fn flush(&self, now: Instant, flush: &Flush) -> Result<u32, Error> {
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
        let mut flushed = 0;
        let mut cursor = Some(Cursor::default());
        while let Some(at) = cursor {
            let mut fitting: Vec<Id> = Vec::new();
            cursor = self.page(flush.zone, at, |connections, id, record| {
                if flush.matches(record) && connections.record(id).kill() {
                    fitting.push(id);
                }
            });
            flushed += fitting.len() as u32;
            self.with_hand(|connections, visit, tools| {
                tools.now = now;
                for id in fitting {
                    connections.bury(visit, tools, id, Event::Flushed);
                }
            });
        }
        Ok(flushed)
    }

    /// Forgets all connections of a zone, or of all zones.
    fn flush_zones(&self, zone: Option<Zone>) -> u32 {
        // Of a zone in which nothing was made since it was last flushed there is nothing to take a
        // hand to.
        let is_unused = zone.is_some_and(|zone| self.connections.zones.number(zone.0) == 0);
        if is_unused && !self.connections.gateways.expect_any() {
            return 0;
        }
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

    fn parsed(original: &str, reply: &str) -> Result<Flush, String> {
        let mut flush = Flush::default();
        flush.add_tuple(Direction::Original, original).map_err(|error| error.to_string())?;
        flush.add_tuple(Direction::Reply, reply).map_err(|error| error.to_string())?;
        Ok(flush)
    }

    #[test]
    fn texts_that_are_wrong_say_why() {
        let cases = [
            ("ct_nw_src", "", "field ct_nw_src missing value"),
            ("ct_nw_src=10.0.0", "", "failed to parse field ct_nw_src"),
            ("ct_nw_src=10.0.0.1,ct_ipv6_dst=::1", "", "the L3 protocol does not match ::1"),
            ("ct_nw_src=10.0.0.1", "ct_ipv6_dst=::2", "the L3 protocol does not match ::2"),
            ("ct_nw_src=1.1.1.1,ct_nw_src=1.1.1.1", "", "ct_nw_src is set multiple times"),
            ("ct_tp_src=1", "", "port is set without protocol"),
            ("ct_nw_proto=256", "", "failed to parse field ct_nw_proto"),
            ("ct_nw_proto=17,ct_tp_dst=65536", "", "failed to parse field ct_tp_dst"),
            ("ct_nw_proto=17,icmp_id=1", "", "invalid L4 fields"),
            ("ct_label=1", "", "invalid conntrack tuple field: ct_label"),
        ];
        for (original, reply, message) in cases {
            assert_eq!(parsed(original, reply), Err(message.to_owned()), "{original} {reply}");
        }
    }

    #[test]
    fn only_a_whole_original_tuple_names_one_connection() {
        let whole =
            "ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=0x11,ct_tp_src=1,ct_tp_dst=2";
        let cases = [
            (whole, "", true),
            (whole, "ct_nw_src=10.0.0.2", false),
            ("ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=17,ct_tp_src=1", "", false),
            ("ct_nw_src=1.1.1.1,ct_nw_dst=1.1.1.2,ct_nw_proto=1,icmp_id=0,icmp_type=8", "", true),
            ("ct_nw_src=1.1.1.1,ct_nw_dst=1.1.1.2,ct_nw_proto=1,icmp_type=8", "", false),
        ];
        for (original, reply, is_exact) in cases {
            let flush = parsed(original, reply).unwrap();
            assert_eq!(flush.exact_key().is_some(), is_exact, "{original} {reply}");
        }
    }
}
