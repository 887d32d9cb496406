//! Dumps, counters and flushes of the oracle.

use super::Oracle;
use base::{Instant, Zone};
use conntrack::{CtFlush, Entry, Event, Filter, StateName, Stats, ZoneLimit, ZoneLimits};
use flow::{TupleL4, TupleMatch};
use std::net::IpAddr;

impl Oracle {
    /// Returns the number of flushed connections, or `None` if a single complete tuple was not found.
    pub fn flush(&mut self, now: Instant, flush: &CtFlush) -> Option<u32> {
        self.expire(now);
        let is_all_of_original = flush.reply == TupleMatch::default()
            && flush.mark.is_none()
            && flush.label.is_none()
            && is_whole(flush.protocol, &flush.original);
        let zone = flush.zone.or(is_all_of_original.then_some(Zone(0)));
        let gone = self.remove(Event::Flushed, |known| {
            zone.is_none_or(|it| it.0 == known.zone)
                && flush.protocol.is_none_or(|it| it == known.original.protocol)
                && flush.mark.is_none_or(|it| (known.mark ^ it.value) & it.mask == 0)
                && flush.label.is_none_or(|it| (known.label ^ it.value) & it.mask == 0)
                && flush.original.matches(&known.original)
                && flush.reply.matches(&known.reply)
        });
        (gone > 0 || !is_all_of_original).then_some(gone)
    }

    pub fn entries(&mut self, now: Instant, filter: &Filter) -> Vec<Entry> {
        self.expire(now);
        let all = self.known.iter().map(|known| known.entry(now.as_millis()));
        all.filter(|entry| shows(filter, entry)).collect()
    }

    pub fn stats(&mut self, now: Instant) -> Stats {
        let mut stats = Stats::default();
        for entry in self.entries(now, &Filter::default()) {
            stats.total += 1;
            if let Some(tcp) = entry.tcp {
                stats.tcp_states[tcp.state() as usize] += 1;
            }
            let counter = match entry.original.protocol {
                1 => &mut stats.icmp,
                2 => &mut stats.igmp,
                6 => &mut stats.tcp,
                17 => &mut stats.udp,
                33 => &mut stats.dccp,
                58 => &mut stats.icmpv6,
                132 => &mut stats.sctp,
                136 => &mut stats.udplite,
                _ => &mut stats.other,
            };
            *counter += 1;
        }
        stats
    }

    pub fn zone_limits(&self) -> ZoneLimits {
        let count = |zone| self.known.iter().filter(|it| it.zone == zone).count() as u32;
        let row = |(&zone, &limit)| ZoneLimit { zone: Zone(zone), limit, count: count(zone) };
        ZoneLimits {
            default_limit: self.limit_default,
            zones: self.limits.iter().map(row).collect(),
        }
    }
}

fn is_whole(protocol: Option<u8>, tuple: &TupleMatch) -> bool {
    let l4 = match protocol {
        Some(1 | 58) => tuple.icmp_id.is_some() && tuple.icmp_type.is_some(),
        Some(_) => tuple.src_port.is_some() && tuple.dst_port.is_some(),
        None => false,
    };
    tuple.src.is_some() && tuple.dst.is_some() && l4
}

fn shows(filter: &Filter, entry: &Entry) -> bool {
    let lies_in = |ip: IpAddr, network: (IpAddr, u8)| {
        let differs = match (ip, network.0) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => return false,
        };
        differs >= u32::from(network.1)
    };
    let (original, reply) = (entry.original, entry.reply);
    let addresses = [original.src, original.dst, reply.src, reply.dst];
    let ports: Vec<u16> = [original.l4, reply.l4]
        .iter()
        .flat_map(|l4| match *l4 {
            TupleL4::Ports { src, dst } => vec![src, dst],
            _ => vec![],
        })
        .collect();
    let tcp = entry.tcp.and_then(|tcp| StateName::parse(tcp.state().name()));
    let state = tcp.or(entry.sctp.and_then(|sctp| StateName::parse(sctp.state.name())));
    filter.zone.is_none_or(|it| it == entry.zone)
        && filter.network.is_none_or(|it| addresses.iter().any(|&ip| lies_in(ip, it)))
        && filter.source.is_none_or(|it| lies_in(original.src, it))
        && filter.destination.is_none_or(|it| lies_in(original.dst, it))
        && filter.port.is_none_or(|it| ports.contains(&it))
        && filter.protocol.is_none_or(|it| it == original.protocol)
        && filter.mark.is_none_or(|it| (entry.mark ^ it.value) & it.mask == 0)
        && filter.label.is_none_or(|it| (entry.label ^ it.value) & it.mask == 0)
        && filter.state.is_none_or(|it| state == Some(it))
}
