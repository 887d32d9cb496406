//! Meters of bridges: changes and statistics (ovs: `ofproto/ofproto.c`, `handle_meter_mod`).

use crate::dependency::Dependency;
use crate::flow_mod::no_bridge;
use crate::ids::BridgeId;
use crate::{Ofproto, RuleId};
use base::Instant;
use flow::Meter;
use openflow::message::{
    METER_ALL, METER_CONTROLLER, METER_MAX, METER_SLOWPATH, METERS_MAX, MeterCommand, MeterDesc,
    MeterMod, MeterStats, RemovedReason,
};
use openflow::{Action, ErrorCode, OfError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A meter of a bridge.
#[derive(Clone, Debug)]
struct OpenMeter {
    desc: MeterDesc,
    /// The meter that datapath actions refer to.
    meter: Arc<Meter>,
    created: Instant,
}

/// The meters of a bridge.
#[derive(Clone, Debug, Default)]
pub struct Meters(BTreeMap<u32, OpenMeter>);

impl Meters {
    /// The datapath's meter of this number.
    pub(crate) fn get(&self, number: u32) -> Option<&Arc<Meter>> {
        self.0.get(&number).map(|open| &open.meter)
    }

    /// The meter for all packets to controllers, if there is one.
    pub(crate) fn of_controllers(&self) -> Option<&Arc<Meter>> {
        self.get(METER_CONTROLLER)
    }

    /// The meter for all packets of the slow path, if there is one.
    pub(crate) fn of_slow_path(&self) -> Option<&Arc<Meter>> {
        self.get(METER_SLOWPATH)
    }

    fn chosen(&self, number: u32) -> impl Iterator<Item = (&u32, &OpenMeter)> {
        self.0.iter().filter(move |(it, _)| number == METER_ALL || **it == number)
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
        let desc = &meter_mod.meter;
        let number = desc.meter;
        let is_virtual = matches!(number, METER_CONTROLLER | METER_SLOWPATH);
        if meter_mod.command == MeterCommand::Delete {
            return self.delete_meters(id, number, now);
        }
        if !is_virtual && !(1..=METER_MAX).contains(&number) {
            let reason = format!("meter-mod: there can't be a meter {number:#x}");
            return Err(OfError::new(ErrorCode::MeterInvalid, reason));
        }
        let datapath_number = self.free_meter_number();
        let Some(bridge) = self.bridges.get_mut(id) else { return Err(no_bridge(id)) };
        match (meter_mod.command, bridge.meters.0.get_mut(&number)) {
            (MeterCommand::Add, Some(_)) => {
                let reason = format!("meter-mod: meter {number} is there already");
                return Err(OfError::new(ErrorCode::MeterExists, reason));
            }
            (MeterCommand::Add, None) => {
                let Some(free) = datapath_number else {
                    let reason = format!("meter-mod: there are {METERS_MAX} meters");
                    return Err(OfError::new(ErrorCode::MeterOutOfMeters, reason));
                };
                let meter = Arc::new(Meter::new(free, desc.config()));
                let open = OpenMeter { desc: desc.clone(), meter, created: now };
                bridge.meters.0.insert(number, open);
                self.meter_changed(id, number);
            }
            (_, None) => {
                let reason = format!("meter-mod: there is no meter {number}");
                return Err(OfError::new(ErrorCode::MeterUnknown, reason));
            }
            (_, Some(open)) => {
                open.meter.set(desc.config());
                open.desc = desc.clone();
            }
        }
        Ok(())
    }

    /// The lowest datapath number that no meter of any bridge uses.
    fn free_meter_number(&self) -> Option<u32> {
        let meters = self.bridges.iter().flat_map(|bridge| bridge.meters.0.values());
        let taken: BTreeSet<u32> = meters.map(|open| open.meter.number()).collect();
        (0..METERS_MAX).find(|number| !taken.contains(number))
    }

    /// Deletes a meter, or all, with the flows that use them. A missing meter is no error.
    fn delete_meters(&mut self, id: BridgeId, number: u32, now: Instant) -> Result<(), OfError> {
        let Some(bridge) = self.bridges.get(id) else { return Err(no_bridge(id)) };
        let gone: BTreeSet<u32> = bridge.meters.chosen(number).map(|(it, _)| *it).collect();
        for rule in self.meter_users(id, &gone) {
            self.delete_rule(rule, RemovedReason::MeterDelete, now);
        }
        self.forget_meters(id, &gone);
        Ok(())
    }

    /// Removes all meters of a bridge.
    pub(crate) fn flush_meters(&mut self, id: BridgeId) {
        let Some(bridge) = self.bridges.get(id) else { return };
        let all = bridge.meters.0.keys().copied().collect();
        self.forget_meters(id, &all);
    }

    fn forget_meters(&mut self, id: BridgeId, gone: &BTreeSet<u32>) {
        let Some(bridge) = self.bridges.get_mut(id) else { return };
        bridge.meters.0.retain(|number, _| !gone.contains(number));
        gone.iter().for_each(|number| self.meter_changed(id, *number));
    }

    /// A meter was added or removed: `controller(meter_id)` uses it while it exists.
    fn meter_changed(&mut self, bridge: BridgeId, meter: u32) {
        self.affect(Dependency::Meter { bridge, meter });
        if meter == METER_CONTROLLER {
            self.bridge_changed(bridge);
        }
    }

    /// The flows that use one of these meters.
    fn meter_users(&self, id: BridgeId, meters: &BTreeSet<u32>) -> Vec<RuleId> {
        if meters.is_empty() {
            return Vec::new();
        }
        let Some(bridge) = self.bridges.get(id) else { return Vec::new() };
        let uses = |rule: &RuleId| {
            let rule = self.rules.get(*rule);
            rule.is_some_and(|rule| meters.iter().any(|meter| uses(&rule.actions, *meter)))
        };
        bridge.tables.all().into_iter().filter(uses).collect()
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
        Ok(chosen.into_iter().map(|(_, open)| open.desc.clone()).collect())
    }

    /// Statistics of one meter, or of all.
    pub fn meter_stats(
        &self,
        id: BridgeId,
        number: u32,
        now: Instant,
    ) -> Result<Vec<MeterStats>, OfError> {
        let stats = |(number, open): (u32, &OpenMeter)| {
            let (seen, dropped) = open.meter.counts();
            MeterStats {
                meter: number,
                flows: self.meter_users(id, &[number].into()).len() as u32,
                seen: (seen.packets, seen.bytes),
                // Whole milliseconds, as Open vSwitch counts them.
                duration_ns: (now - open.created).as_millis() as u64 * 1_000_000,
                bands: dropped.iter().map(|band| (band.packets, band.bytes)).collect(),
            }
        };
        Ok(self.chosen_meters(id, number)?.into_iter().map(stats).collect())
    }

    fn chosen_meters(&self, id: BridgeId, number: u32) -> Result<Vec<(u32, &OpenMeter)>, OfError> {
        let Some(bridge) = self.bridges.get(id) else { return Err(no_bridge(id)) };
        let found: Vec<_> = bridge.meters.chosen(number).map(|(it, open)| (*it, open)).collect();
        if found.is_empty() && number != METER_ALL {
            let reason = format!("there is no meter {number}");
            return Err(OfError::new(ErrorCode::MeterUnknown, reason));
        }
        Ok(found)
    }
}

/// Whether actions let packets pass the meter.
fn uses(actions: &[Action], meter: u32) -> bool {
    actions.iter().any(|action| match action {
        Action::Meter(it) => *it == meter,
        Action::Clone(inner) => uses(inner, meter),
        _ => false,
    })
}

#[cfg(test)]
mod tests;
