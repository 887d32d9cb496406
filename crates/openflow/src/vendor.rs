//! Vendors of extensions, by the numbers in vendor (experimenter) messages (ovs:
//! `include/openflow/openflow-common.h`).

/// Nicira, whose extensions are Open vSwitch's.
pub(crate) const NICIRA: u32 = 0x0000_2320;
/// The Open Networking Foundation.
pub(crate) const ONF: u32 = 0x4f4e_4600;
/// Netronome, and the number that Open vSwitch 2.4 used for it.
pub(crate) const NETRONOME: u32 = 0x0000_154d;
pub(crate) const NETRONOME_OLD: u32 = 0x0000_1540;
