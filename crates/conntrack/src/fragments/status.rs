//! The data of `ovs-appctl dpctl/ipf-get-status` (ovs: `lib/dpctl.c`, `lib/ipf.c`).

use super::piece::DatagramKey;
use std::fmt;
use wire::ethertype;

/// Counts of the fragments of one IP version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FragmentCounts {
    /// Held to wait for the rest of their datagram.
    pub accepted: u64,
    /// Sent on with their complete datagram.
    pub completed: u64,
    /// Dropped at the deadline of their datagram.
    pub expired: u64,
    /// Invalid: smaller than the minimum.
    pub too_small: u64,
    /// Invalid: overlapping another fragment.
    pub overlapped: u64,
    /// Dropped with an invalid datagram.
    pub purged: u64,
    /// Dropped to make room for others at the maximum.
    pub evicted: u64,
}

/// Settings and counts of one IP version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FamilyStatus {
    /// Whether its fragments are held.
    pub enabled: bool,
    /// The smallest size of a fragment that is not the last, in bytes.
    pub min_bytes: u32,
    /// Counts of its fragments.
    pub counts: FragmentCounts,
}

/// The received parts of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    Other,
    First,
    Last,
    FirstAndLast,
    GivenUp,
}

/// A datagram that is incomplete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldDatagram {
    pub(super) key: DatagramKey,
    pub(super) fragments: u32,
    pub(super) arrival: Arrival,
}

/// Settings, counts and held datagrams.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FragmentStatus {
    /// The maximum number of held fragments.
    pub fragments_max: u32,
    /// The number of held fragments.
    pub fragments: u32,
    /// IPv4.
    pub v4: FamilyStatus,
    /// IPv6.
    pub v6: FamilyStatus,
    /// The incomplete datagrams.
    pub datagrams: Vec<HeldDatagram>,
}

impl FragmentStatus {
    /// The text of `ipf-get-status`, with the datagrams for `-m`.
    pub fn display(&self, more: bool) -> impl fmt::Display + '_ {
        fmt::from_fn(move |f| {
            self.write_counts(f)?;
            if more {
                writeln!(f, "\n        Fragment Lists:\n")?;
                for datagram in &self.datagrams {
                    writeln!(f, "{datagram}")?;
                }
            }
            Ok(())
        })
    }

    fn write_counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |what: fmt::Arguments<'_>| writeln!(f, "        {what}");
        line(format_args!("Fragmentation Module Status"))?;
        line(format_args!("---------------------------"))?;
        line(format_args!("v4 enabled: {}", u8::from(self.v4.enabled)))?;
        line(format_args!("v6 enabled: {}", u8::from(self.v6.enabled)))?;
        line(format_args!("max num frags (v4/v6): {}", self.fragments_max))?;
        line(format_args!("num frag: {}", self.fragments))?;
        for (name, family) in [("v4", &self.v4), ("v6", &self.v6)] {
            let counts = &family.counts;
            line(format_args!("min {name} frag size: {}", family.min_bytes))?;
            let rows = [
                ("accepted", counts.accepted),
                ("completed", counts.completed),
                ("expired", counts.expired),
                ("too small", counts.too_small),
                ("overlapped", counts.overlapped),
                ("purged", counts.purged),
            ];
            // Open vSwitch has no such count, so programs that parse its text do not know the line.
            let evicted = (counts.evicted > 0).then_some(("evicted", counts.evicted));
            for (what, count) in rows.into_iter().chain(evicted) {
                line(format_args!("{name} frags {what}: {count}"))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for HeldDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DatagramKey { src, dst, id, protocol, zone, recirc_id } = self.key;
        let eth_type = if src.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 };
        let state = match self.arrival {
            Arrival::Other => "other frag",
            Arrival::First => "first frag",
            Arrival::Last => "last frag",
            Arrival::FirstAndLast => "first/last frag",
            Arrival::GivenUp => "reassemble fail",
        };
        write!(
            f,
            "(src={src},dst={dst},recirc_id={recirc_id},ip_id={id},dl_type={eth_type:#x},\
             zone={zone},nw_proto={protocol},num_fragments={},state={state})",
            self.fragments,
        )
    }
}
