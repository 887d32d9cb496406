//! Meters of bridges: changes and statistics (ovs: `ofproto/ofproto.c`, `handle_meter_mod`).

use crate::Ofproto;
use crate::change::{Change, Used};
use crate::dependency::Dependency;
use crate::flow_mod::no_bridge;
use crate::ids::BridgeId;
use base::Instant;
use flow::Meter;
use openflow::message::{
    METER_ALL, METER_CONTROLLER, METER_MAX, METER_SLOWPATH, METERS_MAX, MeterCommand, MeterDesc,
    MeterMod, MeterStats,
};
use openflow::{Action, ErrorCode, OfError};
use std::collections::BTreeSet;
use std::sync::Arc;
use table::{HashTrie, Remains};

/// A meter of a bridge.
#[derive(Clone, Debug)]
struct OpenMeter {
    desc: MeterDesc,
    /// The meter that datapath actions refer to.
    meter: Arc<Meter>,
    created: Instant,
}

/// The meters of a bridge. A clone is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Meters {
    by_number: HashTrie<Arc<OpenMeter>>,
}

fn hash(number: u32) -> u64 {
    u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Meters {
    /// The datapath's meter of this number.
    pub(crate) fn get(&self, number: u32) -> Option<&Arc<Meter>> {
        self.open(number).map(|open| &open.meter)
    }

    fn open(&self, number: u32) -> Option<&OpenMeter> {
        let found = self.by_number.find(hash(number), |open| open.desc.meter == number);
        found.map(|open| &**open)
    }

    /// The meter for all packets to controllers, if there is one.
    pub(crate) fn of_controllers(&self) -> Option<&Arc<Meter>> {
        self.get(METER_CONTROLLER)
    }

    /// The meter for all packets of the slow path, if there is one.
    pub(crate) fn of_slow_path(&self) -> Option<&Arc<Meter>> {
        self.get(METER_SLOWPATH)
    }

    /// Adds a meter, or replaces the one with its number.
    fn put(&mut self, open: OpenMeter) {
        let number = open.desc.meter;
        self.remove(number);
        self.by_number.insert(hash(number), Arc::new(open));
    }

    fn remove(&mut self, number: u32) -> Option<Arc<OpenMeter>> {
        self.by_number.remove(hash(number), |open| open.desc.meter == number)
    }

    /// The chosen ones, by number.
    fn chosen(&self, number: u32) -> Vec<&OpenMeter> {
        if number != METER_ALL {
            return self.open(number).into_iter().collect();
        }
        let mut all: Vec<&OpenMeter> = self.by_number.iter().map(|open| &**open).collect();
        all.sort_unstable_by_key(|open| open.desc.meter);
        all
    }

    /// Frees them a part at a time.
    pub(crate) fn hand_over(self, remains: &mut Remains) {
        self.by_number.hand_over(remains);
    }
}

/// The numbers of the datapath's meters, which all bridges share.
#[derive(Debug, Default)]
pub(crate) struct MeterNumbers {
    /// Free ones below `end`.
    free: BTreeSet<u32>,
    end: u32,
}

impl MeterNumbers {
    /// The lowest free number, if there is one.
    fn take(&mut self) -> Option<u32> {
        self.free.pop_first().or_else(|| {
            let number = Some(self.end).filter(|end| *end < METERS_MAX)?;
            self.end += 1;
            Some(number)
        })
    }

    fn give(&mut self, number: u32) {
        self.free.insert(number);
    }
}

impl Ofproto {
    /// Carries out an OpenFlow meter-mod.
    pub fn meter_mod(
        &mut self,
        id: BridgeId,
        meter_mod: &MeterMod,
        now: Instant,
    ) -> Result<(), OfError> {
        match self.begin_meter_mod(id, meter_mod, now)? {
            Some(change) => self.change(change, now),
            None => Ok(()),
        }
    }

    /// Changes a meter, or begins to delete meters with the flows that use them. A missing meter is no error.
    pub(crate) fn begin_meter_mod(
        &mut self,
        id: BridgeId,
        meter_mod: &MeterMod,
        now: Instant,
    ) -> Result<Option<Change>, OfError> {
        let desc = &meter_mod.meter;
        let number = desc.meter;
        let is_virtual = matches!(number, METER_CONTROLLER | METER_SLOWPATH);
        let Some(bridge) = self.bridges.get(id) else { return Err(no_bridge(id)) };
        if meter_mod.command == MeterCommand::Delete {
            let numbers = self.meter_numbers_of(id, number);
            return Ok(Some(Change::delete_used(id, Used::Meter, numbers)));
        }
        if !is_virtual && !(1..=METER_MAX).contains(&number) {
            let reason = format!("meter-mod: there can't be a meter {number:#x}");
            return Err(OfError::new(ErrorCode::MeterInvalid, reason));
        }
        let open = match (meter_mod.command, bridge.meters.open(number)) {
            (MeterCommand::Add, Some(_)) => {
                let reason = format!("meter-mod: meter {number} is there already");
                return Err(OfError::new(ErrorCode::MeterExists, reason));
            }
            (MeterCommand::Add, None) => {
                let Some(free) = self.meter_numbers.take() else {
                    let reason = format!("meter-mod: there are {METERS_MAX} meters");
                    return Err(OfError::new(ErrorCode::MeterOutOfMeters, reason));
                };
                let meter = Arc::new(Meter::new(free, desc.config()));
                OpenMeter { desc: desc.clone(), meter, created: now }
            }
            (_, None) => {
                let reason = format!("meter-mod: there is no meter {number}");
                return Err(OfError::new(ErrorCode::MeterUnknown, reason));
            }
            (_, Some(open)) => {
                open.meter.set(desc.config());
                OpenMeter { desc: desc.clone(), ..open.clone() }
            }
        };
        if let Some(bridge) = self.bridges.get_mut(id) {
            bridge.meters.put(open);
        }
        if meter_mod.command == MeterCommand::Add {
            self.meter_changed(id, number);
        }
        Ok(None)
    }

    /// Removes all meters of a bridge.
    pub(crate) fn flush_meters(&mut self, id: BridgeId) {
        for meter in self.meter_numbers_of(id, METER_ALL) {
            self.forget_meter(id, meter);
        }
    }

    fn meter_numbers_of(&self, id: BridgeId, number: u32) -> Vec<u32> {
        let chosen = self.bridges.get(id).map(|bridge| bridge.meters.chosen(number));
        chosen.into_iter().flatten().map(|open| open.desc.meter).collect()
    }

    /// Removes a meter that no flow uses.
    pub(crate) fn forget_meter(&mut self, id: BridgeId, number: u32) {
        let Some(bridge) = self.bridges.get_mut(id) else { return };
        if let Some(open) = bridge.meters.remove(number) {
            self.meter_numbers.give(open.meter.number());
            self.meter_changed(id, number);
        }
    }

    /// A meter was added or removed: `controller(meter_id)` uses it while it exists.
    fn meter_changed(&mut self, bridge: BridgeId, meter: u32) {
        self.affect(Dependency::Meter { bridge, meter });
        if meter == METER_CONTROLLER {
            self.bridge_changed(bridge);
        }
    }

    /// Checks that the meters in actions exist, and that debug actions are enabled (ovs: `ofproto/ofproto.c`,
    /// `ofproto_check_ofpacts`).
    pub(crate) fn check_meters(&self, id: BridgeId, actions: &[Action]) -> Result<(), OfError> {
        self.check_for_tests(actions)?;
        let Some(bridge) = self.bridges.get(id) else { return Err(no_bridge(id)) };
        for action in actions {
            match action {
                Action::Meter(meter) if bridge.meters.get(*meter).is_none() => {
                    let reason = format!("actions name meter {meter}, which is not there");
                    return Err(OfError::new(ErrorCode::MeterInvalid, reason));
                }
                Action::Clone(inner) => self.check_meters(id, inner)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Descriptions of one meter, or of all.
    pub fn meter_descs(&self, id: BridgeId, number: u32) -> Result<Vec<MeterDesc>, OfError> {
        let chosen = self.chosen_meters(id, number)?;
        Ok(chosen.into_iter().map(|open| open.desc.clone()).collect())
    }

    /// Statistics of one meter, or of all.
    pub fn meter_stats(
        &self,
        id: BridgeId,
        number: u32,
        now: Instant,
    ) -> Result<Vec<MeterStats>, OfError> {
        let users = |meter| self.ledger(id).map_or(0, |ledger| ledger.meter_users.count(meter));
        let stats = |open: &OpenMeter| {
            let (seen, dropped) = open.meter.counts();
            MeterStats {
                meter: open.desc.meter,
                flows: users(open.desc.meter),
                seen: (seen.packets, seen.bytes),
                // Whole milliseconds, as Open vSwitch counts them.
                duration_ns: (now - open.created).as_millis() as u64 * 1_000_000,
                bands: dropped.iter().map(|band| (band.packets, band.bytes)).collect(),
            }
        };
        Ok(self.chosen_meters(id, number)?.into_iter().map(stats).collect())
    }

    fn chosen_meters(&self, id: BridgeId, number: u32) -> Result<Vec<&OpenMeter>, OfError> {
        let Some(bridge) = self.bridges.get(id) else { return Err(no_bridge(id)) };
        let found = bridge.meters.chosen(number);
        if found.is_empty() && number != METER_ALL {
            let reason = format!("there is no meter {number}");
            return Err(OfError::new(ErrorCode::MeterUnknown, reason));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
