//! The program in the kernel: loaded, attached to devices, and its maps.

use crate::layout::{KeyV4, KeyV6, REASONS, Rule};
use crate::slots::Slots;
use aya::maps::{DevMapHash, HashMap, Map, MapData, PerCpuArray};
use aya::programs::Xdp;
use aya::programs::xdp::{XdpLinkId, XdpMode};
use aya::{Ebpf, EbpfLoader};
use std::os::fd::AsFd;

/// Why the program cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// This build does not contain it.
    #[error("this build has no XDP program for offload; install clang and build it again")]
    NotBuilt,
    /// The kernel refuses it.
    #[error(
        "cannot load the XDP program for offload: {0}; it takes CAP_BPF, CAP_NET_ADMIN and Linux 6.0"
    )]
    Load(String),
    /// It cannot be attached to a device.
    #[error("cannot attach the XDP program for offload to {device}: {reason}")]
    Attach {
        /// The device.
        device: String,
        /// Why.
        reason: String,
    },
}

/// The program, its maps, and its links to devices. Dropping it closes the descriptors of the links, as the
/// end of the process does, which detaches the program.
pub(crate) struct Program {
    ebpf: Ebpf,
    pub rules_v4: HashMap<MapData, KeyV4, Rule>,
    pub rules_v6: HashMap<MapData, KeyV6, Rule>,
    pub slots: Slots,
    ports: DevMapHash<MapData>,
    tagged: HashMap<MapData, u32, u64>,
    passed: PerCpuArray<MapData, u64>,
}

/// Returns the object file that clang produced.
#[cfg(has_program)]
fn object() -> Option<&'static [u8]> {
    // The object is parsed in place, so it needs the alignment of its headers.
    #[repr(C, align(8))]
    struct Aligned<T: ?Sized>(T);
    static OBJECT: &Aligned<[u8]> =
        &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/forward.o")));
    Some(&OBJECT.0)
}

#[cfg(not(has_program))]
fn object() -> Option<&'static [u8]> {
    None
}

/// Returns whether this build contains the program.
pub(crate) fn is_built() -> bool {
    object().is_some()
}

impl Program {
    /// Loads it for at most this many connections.
    pub fn load(connections: u32) -> Result<Program, ProgramError> {
        let object = object().ok_or(ProgramError::NotBuilt)?;
        let failed = |error: &dyn std::error::Error| ProgramError::Load(chain(error));
        let rules = connections.saturating_mul(2);
        let mut ebpf = EbpfLoader::new()
            .map_max_entries("slots", connections)
            .map_max_entries("rules_v4", rules)
            .map_max_entries("rules_v6", rules)
            .load(object)
            .map_err(|error| failed(&error))?;
        let mut take = |name: &str| -> Result<Map, ProgramError> {
            ebpf.take_map(name).ok_or_else(|| ProgramError::Load(format!("it has no map {name}")))
        };
        let slots = take("slots")?;
        let Map::Array(data) = &slots else {
            return Err(ProgramError::Load("the map slots is no array".to_owned()));
        };
        let mapped = Slots::map(data.fd().as_fd(), connections as usize);
        let program = Program {
            rules_v4: take("rules_v4")?.try_into().map_err(|error| failed(&error))?,
            rules_v6: take("rules_v6")?.try_into().map_err(|error| failed(&error))?,
            slots: mapped.map_err(|error| failed(&error))?,
            ports: take("ports")?.try_into().map_err(|error| failed(&error))?,
            tagged: take("tagged")?.try_into().map_err(|error| failed(&error))?,
            passed: take("passed")?.try_into().map_err(|error| failed(&error))?,
            ebpf,
        };
        program.loaded()
    }

    fn loaded(mut self) -> Result<Program, ProgramError> {
        self.xdp()?.load().map_err(|error| ProgramError::Load(chain(&error)))?;
        Ok(self)
    }

    pub(crate) fn xdp(&mut self) -> Result<&mut Xdp, ProgramError> {
        let program = self.ebpf.program_mut("forward");
        let missing = || ProgramError::Load("it has no program".to_owned());
        program.ok_or_else(missing)?.try_into().map_err(|_| missing())
    }

    /// Attaches it to a device in generic mode, in which GSO frames and partial checksums pass unchanged.
    pub fn attach(&mut self, device: &str, ifindex: u32) -> Result<XdpLinkId, ProgramError> {
        self.tagged.insert(ifindex, 0, 0).map_err(|error| ProgramError::Attach {
            device: device.to_owned(),
            reason: chain(&error),
        })?;
        let attached = self.xdp()?.attach_to_if_index(ifindex, XdpMode::Skb);
        attached.map_err(|error| ProgramError::Attach {
            device: device.to_owned(),
            reason: chain(&error),
        })
    }

    /// Detaches it from a device.
    pub fn detach(&mut self, link: XdpLinkId, ifindex: u32) {
        // It fails if the device was removed.
        let _ = self.xdp().map(|program| program.detach(link));
        let _ = self.tagged.remove(&ifindex);
    }

    /// Returns the number of frames with a VLAN tag that came from a device since it was attached.
    pub fn tags(&self, ifindex: u32) -> u64 {
        self.tagged.get(&ifindex, 0).unwrap_or(0)
    }

    /// Allows sending packets to a device.
    pub fn send_to(&mut self, device: &str, ifindex: u32) -> Result<(), ProgramError> {
        self.ports.insert(ifindex, ifindex, None, 0).map_err(|error| ProgramError::Attach {
            device: device.to_owned(),
            reason: chain(&error),
        })
    }

    /// Disallows sending packets to a device.
    pub fn send_no_more_to(&mut self, ifindex: u32) {
        // It fails if the device was removed.
        let _ = self.ports.remove(ifindex);
    }

    /// Returns the number of packets passed up, by reason.
    pub fn passed(&self) -> Vec<(&'static str, u64)> {
        let count = |index: usize| -> u64 {
            self.passed.get(&(index as u32), 0).map_or(0, |values| values.iter().sum())
        };
        REASONS.iter().enumerate().map(|(index, name)| (*name, count(index))).collect()
    }
}

/// Returns an error with its sources, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    // The verifier's log is long; its end contains the error.
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(6);
    lines[from..].join("; ")
}
