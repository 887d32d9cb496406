//! Rows of `Datapath`, `CT_Zone` and `CT_Timeout_Policy`.

use super::{Place, Reader, to_u32};
use crate::{Desired, ZonePolicy};
use base::Zone;
use ovsdb::Row;
use uuid::Uuid;

impl Reader<'_> {
    /// Reads the zones of all datapaths. All types share one datapath, and "netdev" comes first.
    pub(super) fn zones(&mut self, root: &Row, desired: &mut Desired) {
        let datapaths = root.get("datapaths").into_iter().flat_map(|map| map.pairs());
        for (name, uuid) in datapaths {
            let (Some(name), Some(uuid)) = (name.as_str(), uuid.as_uuid()) else { continue };
            let Some(row) = self.row("Datapath", uuid) else { continue };
            let place = &Place { table: "Datapath", name, row };
            let limit = row.opt_i64("ct_zone_default_limit").map(to_u32);
            desired.default_zone_limit = desired.default_zone_limit.or(limit);
            let zones = row.get("ct_zones").map(|map| map.as_uuid_map()).unwrap_or_default();
            for (zone, uuid) in zones {
                let Ok(zone) = u16::try_from(zone) else { continue };
                let policy = self.zone_policy(uuid);
                match desired.zones.get(&Zone(zone)) {
                    None => {
                        desired.zones.insert(Zone(zone), policy);
                    }
                    Some(first) if *first == policy => {}
                    Some(_) => {
                        let words = "another datapath type has a policy for this zone too, and \
                                     both are this switch's one datapath; ignored";
                        self.warn(place, format!("ct_zones:{zone}"), words);
                    }
                }
            }
        }
    }

    fn zone_policy(&self, uuid: Uuid) -> ZonePolicy {
        let Some(zone) = self.row("CT_Zone", uuid) else { return ZonePolicy::default() };
        let policy = zone.opt_uuid("timeout_policy");
        let policy = policy.and_then(|uuid| self.row("CT_Timeout_Policy", uuid));
        let timeouts = policy.and_then(|row| row.get("timeouts"));
        let pair = |(name, seconds): (&ovsdb::Atom, &ovsdb::Atom)| {
            Some((name.as_str()?.to_owned(), to_u32(seconds.as_i64()?)))
        };
        ZonePolicy {
            timeouts_s: timeouts.into_iter().flat_map(|map| map.pairs()).filter_map(pair).collect(),
            limit: zone.opt_i64("limit").map(to_u32),
        }
    }
}
