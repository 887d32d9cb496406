//! One connection with a front-end: its requests, one after the other, and what they change.

use crate::dirty_log::DirtyLog;
use crate::doorbell::Doorbell;
use crate::fault::Fault;
use crate::feature::{self, protocol};
use crate::memory::{GuestMemory, REGIONS_MAX, Region, RegionPlace};
use crate::message::Request;
use crate::notifier::Notifier;
use crate::numa::node_of;
use crate::ring::Ring;
use crate::setup::Setup;
use crate::shared::{PAIRS_MAX, Shared, Status};
use arrayvec::ArrayVec;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// Maximum number of entries of a ring (VIRTIO 1.2 section 2.7).
const ENTRIES_MAX: u32 = 32_768;
/// The smallest MTU (RFC 791).
const MTU_LEAST: u64 = 68;
/// Longest reply.
const REPLY_MAX: usize = 24;

/// The payload of a reply.
pub type Reply = ArrayVec<u8, REPLY_MAX>;

/// The state of a connection.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    notifier: Arc<Notifier>,
    offered: u64,
    features: u64,
    protocol_features: u64,
    status: u8,
    memory: Arc<GuestMemory>,
    log: Option<Arc<DirtyLog>>,
    setups: Vec<Setup>,
}

impl Session {
    /// A new connection, to which these features are offered.
    pub fn new(shared: Arc<Shared>, notifier: Arc<Notifier>, offered: u64) -> Session {
        Session {
            shared,
            notifier,
            offered,
            features: 0,
            protocol_features: 0,
            status: 0,
            memory: Arc::default(),
            log: None,
            setups: Vec::new(),
        }
    }

    /// Whether the front-end may ask whether a request succeeded.
    pub fn may_want_replies(&self) -> bool {
        self.protocol_features & protocol::REPLY_ACK != 0
    }

    /// Executes a request. Returns the reply that belongs to it; most have none.
    ///
    /// # Errors
    /// It is invalid, and the connection must end.
    pub fn execute(
        &mut self,
        request: Request,
        files: Vec<OwnedFd>,
    ) -> Result<Option<Reply>, Fault> {
        let mut files = files.into_iter();
        let number = |value: u64| Some(value.to_le_bytes().into_iter().collect());
        match request {
            Request::GetFeatures => return Ok(number(self.offered)),
            Request::SetFeatures(features) => self.set_features(features)?,
            Request::GetProtocolFeatures => return Ok(number(protocol::OFFERED)),
            Request::SetProtocolFeatures(features) => {
                if features & !protocol::OFFERED != 0 {
                    return Err(refused("protocol features", features & !protocol::OFFERED));
                }
                self.protocol_features = features;
            }
            Request::GetQueueNum => return Ok(number(PAIRS_MAX as u64)),
            Request::GetMaxMemSlots => return Ok(number(REGIONS_MAX as u64)),
            Request::GetStatus => return Ok(number(self.status.into())),
            Request::SetStatus(status) => {
                self.status = status as u8;
                if self.status == 0 {
                    self.stop_all();
                }
            }
            Request::SetOwner | Request::SetLogFd => {}
            Request::ResetOwner | Request::ResetDevice => self.reset(),
            Request::SetMemTable(places) => self.set_memory_table(&places, files)?,
            Request::AddMemRegion(place) => {
                let file = files.next().ok_or_else(|| Fault::protocol("a region has no file"))?;
                self.add_region(place, file)?;
            }
            Request::RemoveMemRegion(place) => self.remove_region(place)?,
            Request::SetLogBase { size, offset } => {
                let file = files.next().ok_or_else(|| Fault::protocol("the log has no file"))?;
                self.log = Some(Arc::new(DirtyLog::map(file, offset, size)?));
                self.set_memory(GuestMemory::clone(&self.memory))?;
                return Ok(Some(Reply::new()));
            }
            Request::SendRarp { mac } => self.shared.announce(mac),
            Request::NetSetMtu(mtu) => {
                if !(MTU_LEAST..=u64::from(u16::MAX)).contains(&mtu) {
                    return Err(Fault::protocol(format!("an MTU of {mtu} bytes")));
                }
                self.shared.status().mtu = Some(mtu as u16);
            }
            Request::GetInflight(_) | Request::SetInflight(_) => {
                return Err(Fault::protocol("descriptors in flight were not negotiated"));
            }
            ring => return self.execute_for_ring(ring, files),
        }
        Ok(None)
    }

    /// Executes a request that concerns one ring.
    fn execute_for_ring(
        &mut self,
        request: Request,
        mut files: impl Iterator<Item = OwnedFd>,
    ) -> Result<Option<Reply>, Fault> {
        match request {
            Request::SetVringNum { ring, entries } => self.set_entries(ring, entries)?,
            Request::SetVringAddr { ring, addresses } => {
                self.setup(ring)?.addresses = Some(addresses);
                self.place_again(ring as usize)?;
                self.start(ring as usize)?;
            }
            Request::SetVringBase { ring, base } => self.setup(ring)?.base = base,
            Request::GetVringBase { ring } => {
                let base = self.stop(ring)?;
                let fields = [ring.to_le_bytes(), base.to_le_bytes()];
                return Ok(Some(fields.into_iter().flatten().collect()));
            }
            Request::SetVringKick { ring, has_file } => {
                if has_file && files.next().is_none() {
                    return Err(Fault::protocol("a ring's kick has no file"));
                }
                let has_switch = self.features & feature::PROTOCOL_FEATURES != 0;
                let setup = self.setup(ring)?;
                setup.is_kicked = true;
                setup.is_enabled |= !has_switch;
                self.start(ring as usize)?;
            }
            Request::SetVringCall { ring, has_file } => {
                let file = if has_file { files.next() } else { None };
                let call = file.map(|file| Doorbell::new(file, Arc::clone(&self.notifier)));
                let call = call.transpose().map_err(Fault::Protocol)?;
                self.set_call(ring, call.map(Arc::new))?;
            }
            Request::SetVringErr { ring, .. } => {
                self.setup(ring)?;
            }
            Request::SetVringEnable { ring, is_enabled } => {
                self.setup(ring)?.is_enabled = is_enabled;
                if let Some(live) = self.slot(ring as usize).as_mut() {
                    live.set_enabled(is_enabled);
                }
            }
            // The others are not for rings.
            _ => {}
        }
        Ok(None)
    }

    /// Notifies the guest where workers left it to this thread.
    pub fn ring_due(&self) {
        self.setups
            .iter()
            .filter_map(|setup| setup.call.as_ref())
            .for_each(|call| call.ring_if_due());
    }

    /// Publishes what changed. Returns whether the link changed.
    pub fn publish(&self) -> bool {
        let changed = self.shared.look_at_rings();
        let is_up = self.shared.link_up.load(Ordering::Relaxed);
        let numa = if changed && is_up { self.numa() } else { None };
        self.shared.features.store(self.features, Ordering::Relaxed);
        let mut status = self.shared.status();
        status.features = self.features;
        status.ring_sizes = self.setups.iter().map(|setup| setup.entries).collect();
        if is_up {
            status.fault = None;
        }
        if changed {
            status.numa = numa;
        }
        changed
    }

    /// The NUMA node of its first ring.
    fn numa(&self) -> Option<u16> {
        let areas = self.setups.first()?.areas(self.features, &self.memory).ok()?;
        node_of(&self.memory.slice(areas.table)?)
    }

    fn set_features(&mut self, features: u64) -> Result<(), Fault> {
        if features & !self.offered != 0 {
            return Err(refused("features", features & !self.offered));
        }
        let changed = (features ^ self.features) & !feature::LOG_ALL;
        let is_running = (0..self.setups.len()).any(|ring| self.slot(ring).is_some());
        if changed != 0 && is_running {
            return Err(Fault::protocol("its features changed while its rings were in use"));
        }
        self.features = features;
        self.set_memory(GuestMemory::clone(&self.memory))
    }

    fn set_memory_table(
        &mut self,
        places: &[RegionPlace],
        files: impl ExactSizeIterator<Item = OwnedFd>,
    ) -> Result<(), Fault> {
        if files.len() != places.len() {
            let (files, places) = (files.len(), places.len());
            return Err(Fault::protocol(format!("{files} files for {places} regions")));
        }
        let map = |(place, file): (&RegionPlace, OwnedFd)| Region::map(*place, file).map(Arc::new);
        let regions = places.iter().zip(files).map(map).collect::<Result<_, _>>()?;
        self.set_memory(GuestMemory::new(regions)?)
    }

    /// Adds a region. QEMU before 8.1 adds and removes each once for every pair of rings, so that a second time has no
    /// effect.
    fn add_region(&mut self, place: RegionPlace, file: OwnedFd) -> Result<(), Fault> {
        let mut regions = self.memory.regions().to_vec();
        if regions.iter().any(|region| is_same(region.place(), place)) {
            return Ok(());
        }
        regions.push(Arc::new(Region::map(place, file)?));
        self.set_memory(GuestMemory::new(regions)?)
    }

    fn remove_region(&mut self, place: RegionPlace) -> Result<(), Fault> {
        let mut regions = self.memory.regions().to_vec();
        regions.retain(|region| !is_same(region.place(), place));
        self.set_memory(GuestMemory::new(regions)?)
    }

    /// Replaces the memory, for rings in use, too. The old one is unmapped when this returns.
    fn set_memory(&mut self, memory: GuestMemory) -> Result<(), Fault> {
        let log = self.log.clone().filter(|_| self.features & feature::LOG_ALL != 0);
        let before = std::mem::replace(&mut self.memory, Arc::new(memory.with_log(log)));
        let placed = (0..self.setups.len()).try_for_each(|ring| self.place_again(ring));
        // Unmapping much memory takes long, and a worker must not wait for it: no ring is locked here.
        drop(before);
        placed
    }

    fn set_entries(&mut self, ring: u32, entries: u32) -> Result<(), Fault> {
        let is_packed = self.features & feature::RING_PACKED != 0;
        let is_valid =
            (1..=ENTRIES_MAX).contains(&entries) && (is_packed || entries.is_power_of_two());
        if !is_valid {
            return Err(Fault::protocol(format!("ring {ring} with {entries} entries")));
        }
        let setup = self.setup(ring)?;
        let is_changed = std::mem::replace(&mut setup.entries, entries as u16) != entries as u16;
        if is_changed && self.slot(ring as usize).is_some() {
            return Err(Fault::protocol(format!("ring {ring} changed while it was in use")));
        }
        Ok(())
    }

    fn set_call(&mut self, ring: u32, call: Option<Arc<Doorbell>>) -> Result<(), Fault> {
        // Closed at the end, when no ring is locked.
        let _before = std::mem::replace(&mut self.setup(ring)?.call, call.clone());
        let is_live = match self.slot(ring as usize).as_mut() {
            Some(live) => {
                live.set_call(call.clone());
                true
            }
            None => false,
        };
        if is_live {
            // What was used before may have been notified to the old descriptor. A worker need not wait for this.
            call.iter().for_each(|call| call.ring());
        }
        Ok(())
    }

    /// Starts a ring that was told everything.
    fn start(&mut self, ring: usize) -> Result<(), Fault> {
        let Some(setup) = self.setups.get(ring) else { return Ok(()) };
        if !setup.is_complete() || self.slot(ring).is_some() {
            return Ok(());
        }
        let of_ring = |fault| Fault::of_ring(ring as u16, fault);
        let areas = setup.areas(self.features, &self.memory).map_err(of_ring)?;
        let memory = Arc::clone(&self.memory);
        let live = Ring::new(self.features, setup.entries, setup.base, areas, memory);
        let mut live = live.map_err(of_ring)?;
        live.set_call(setup.call.clone());
        live.set_enabled(setup.is_enabled);
        *self.slot(ring) = Some(Box::new(live));
        Ok(())
    }

    /// Finds the areas of a ring in use in the present memory.
    fn place_again(&self, ring: usize) -> Result<(), Fault> {
        let Some(setup) = self.setups.get(ring) else { return Ok(()) };
        if let Some(live) = self.slot(ring).as_mut() {
            let areas = setup
                .areas(self.features, &self.memory)
                .map_err(|fault| Fault::of_ring(ring as u16, fault))?;
            live.set_memory(Arc::clone(&self.memory), areas);
        }
        Ok(())
    }

    /// Stops a ring. Returns its base.
    fn stop(&mut self, ring: u32) -> Result<u32, Fault> {
        self.setup(ring)?;
        let live = self.slot(ring as usize).take();
        let setup = self.setup(ring)?;
        setup.is_kicked = false;
        setup.call = None;
        if let Some(live) = live {
            setup.base = live.base();
        }
        Ok(setup.base)
    }

    fn stop_all(&mut self) {
        for ring in 0..self.setups.len() {
            // The ring exists.
            let _ = self.stop(ring as u32);
        }
    }

    fn reset(&mut self) {
        self.stop_all();
        self.setups.clear();
        self.status = 0;
    }

    /// What a ring was told; there may be a new one.
    fn setup(&mut self, ring: u32) -> Result<&mut Setup, Fault> {
        let place = ring as usize;
        if place >= 2 * PAIRS_MAX {
            return Err(Fault::protocol(format!("ring {ring} of {}", 2 * PAIRS_MAX)));
        }
        if self.setups.len() <= place {
            self.setups.resize_with(place + 1, Setup::default);
        }
        self.setups.get_mut(place).ok_or_else(|| Fault::protocol("no ring"))
    }

    fn slot(&self, ring: usize) -> MutexGuard<'_, Option<Box<Ring>>> {
        // There are as many slots as setups may be.
        self.shared.rings[ring].lock()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop_all();
        self.shared.look_at_rings();
        let mut status = self.shared.status();
        let fault = status.fault.take();
        *status = Status { fault, ..Status::default() };
    }
}

/// Whether two places are one region's. Front-ends do not tell the offset of one to be removed.
fn is_same(one: RegionPlace, other: RegionPlace) -> bool {
    RegionPlace { offset: other.offset, ..one } == other
}

fn refused(what: &str, bits: u64) -> Fault {
    Fault::protocol(format!("{what} {bits:#x} were not offered"))
}
