//! Meters: limits for the traffic of flows (from OpenFlow 1.3 on).

use flow::{MeterBand, MeterConfig};

/// OFPM_MAX: the highest number that a meter may have.
pub const METER_MAX: u32 = 0xffff_0000;
/// OFPM_SLOWPATH: a meter of packets that come up to be decided on.
pub const METER_SLOWPATH: u32 = 0xffff_fffd;
/// OFPM_CONTROLLER: the meter of all packets that go to controllers.
pub const METER_CONTROLLER: u32 = 0xffff_fffe;
/// OFPM_ALL: all meters, where a request names one.
pub const METER_ALL: u32 = 0xffff_ffff;
/// The most bands that a meter may have (ovs: `lib/dpif-netdev.c`, `MAX_BANDS`).
pub const METER_BANDS_MAX: usize = 8;
/// How many meters there may be (ovs: `lib/dpif-netdev.c`, `MAX_METERS`).
pub const METERS_MAX: u32 = 1 << 18;

/// What a meter-mod does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeterCommand {
    /// Add; a meter of that number must not be there.
    Add,
    /// Give a meter that is there other limits.
    Modify,
    /// Delete a meter, or all, with the flows that use it.
    Delete,
}

/// What a meter is to do, as a message says it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MeterDesc {
    /// Its number.
    pub meter: u32,
    /// OFPMF_*, as they were given.
    pub flags: u16,
    /// Its limits.
    pub bands: Vec<MeterBand>,
}

impl MeterDesc {
    /// OFPMF_KBPS: rates are in kilobits per second.
    pub const KBPS: u16 = 1;
    /// OFPMF_PKTPS: rates are in packets per second.
    pub const PKTPS: u16 = 2;
    /// OFPMF_BURST: bands say how much may come at once.
    pub const BURST: u16 = 4;
    /// OFPMF_STATS: what comes is counted, as it always is.
    pub const STATS: u16 = 8;

    /// What the datapath needs of it.
    pub fn config(&self) -> MeterConfig {
        MeterConfig {
            is_packets: self.flags & Self::PKTPS != 0,
            has_burst: self.flags & Self::BURST != 0,
            bands: self.bands.clone(),
        }
    }
}

/// Adds, changes or deletes meters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeterMod {
    /// What to do.
    pub command: MeterCommand,
    /// With which meter.
    pub meter: MeterDesc,
}

/// What a meter has seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MeterStats {
    /// Its number.
    pub meter: u32,
    /// Flows that use it.
    pub flows: u32,
    /// Packets and bytes that came.
    pub seen: (u64, u64),
    /// How long it is there, in nanoseconds.
    pub duration_ns: u64,
    /// Packets and bytes that each band dropped.
    pub bands: Vec<(u64, u64)>,
}
