//! Meters: rate limits for flows (from OpenFlow 1.3 on).

use flow::{MeterBand, MeterConfig};

/// OFPM_MAX: the highest meter number.
pub const METER_MAX: u32 = 0xffff_0000;
/// OFPM_SLOWPATH: the meter of upcalls.
pub const METER_SLOWPATH: u32 = 0xffff_fffd;
/// OFPM_CONTROLLER: the meter of all packet-ins.
pub const METER_CONTROLLER: u32 = 0xffff_fffe;
/// OFPM_ALL: all meters, in requests.
pub const METER_ALL: u32 = 0xffff_ffff;
/// Maximum number of bands of a meter (ovs: `lib/dpif-netdev.c`, `MAX_BANDS`).
pub const METER_BANDS_MAX: usize = 8;
/// Maximum number of meters (ovs: `lib/dpif-netdev.c`, `MAX_METERS`).
pub const METERS_MAX: u32 = 1 << 18;

/// The command of a meter-mod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeterCommand {
    /// Add a meter, which must not exist.
    Add,
    /// Modify an existing meter.
    Modify,
    /// Delete a meter, or all, with the flows that use it.
    Delete,
}

/// The configuration of a meter in messages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MeterDesc {
    /// Its number.
    pub meter: u32,
    /// OFPMF_*, as requested.
    pub flags: u16,
    /// Its bands.
    pub bands: Vec<MeterBand>,
}

impl MeterDesc {
    /// OFPMF_KBPS: rates are in kilobits per second.
    pub const KBPS: u16 = 1;
    /// OFPMF_PKTPS: rates are in packets per second.
    pub const PKTPS: u16 = 2;
    /// OFPMF_BURST: bands have a burst size.
    pub const BURST: u16 = 4;
    /// OFPMF_STATS: the meter counts packets, which it always does.
    pub const STATS: u16 = 8;

    /// Returns the configuration for the datapath.
    pub fn config(&self) -> MeterConfig {
        MeterConfig {
            is_packets: self.flags & Self::PKTPS != 0,
            has_burst: self.flags & Self::BURST != 0,
            bands: self.bands.clone(),
        }
    }
}

/// Adds, modifies or deletes meters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeterMod {
    /// The command.
    pub command: MeterCommand,
    /// The meter.
    pub meter: MeterDesc,
}

/// The statistics of a meter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MeterStats {
    /// Its number.
    pub meter: u32,
    /// Number of flows that use it.
    pub flows: u32,
    /// Packets and bytes received.
    pub seen: (u64, u64),
    /// Time since its creation, in nanoseconds.
    pub duration_ns: u64,
    /// Packets and bytes that each band dropped.
    pub bands: Vec<(u64, u64)>,
}
