//! Changes of the MAC tables by the `fdb/*` commands and by removed ports. Megaflows that depend on a changed
//! address are revalidated.

use crate::{BridgeId, MacEntry, MacTable, Ofproto};
use base::{Instant, MacAddr, OfPort};

impl Ofproto {
    /// Removes all learned addresses of a bridge.
    pub fn flush_macs(&mut self, id: BridgeId) {
        self.change_macs(id, MacTable::flush);
    }

    /// Removes what was learned behind a removed port, and the same addresses in all bridges: other bridges
    /// learned them through patches (ovs: `ofproto/ofproto-dpif.c`, `bundle_flush_macs`).
    pub(crate) fn flush_removed_port_macs(&mut self, id: BridgeId, port: OfPort) {
        let Some(macs) = self.macs(id) else { return };
        let learned = macs.iter().filter(|entry| entry.port == port && !entry.is_static);
        let gone: Vec<(u16, MacAddr)> = learned.map(|entry| (entry.vlan, entry.mac)).collect();
        self.flush_port_macs(id, port);
        let others: Vec<BridgeId> =
            self.bridges.iter().map(|it| it.id).filter(|it| *it != id).collect();
        for other in others {
            self.change_macs(other, |macs| {
                gone.iter().for_each(|&key| macs.forget_learned(key));
            });
        }
    }

    /// Removes the addresses behind a port.
    pub(crate) fn flush_port_macs(&mut self, id: BridgeId, port: OfPort) {
        self.change_macs(id, |macs| macs.flush_port(port));
    }

    /// Learns an address, as from a packet.
    pub fn learn_mac(&mut self, id: BridgeId, vlan: u16, mac: MacAddr, port: OfPort, now: Instant) {
        self.change_macs(id, |macs| macs.learn(now, vlan, mac, port));
    }

    /// Adds a static address. Returns the entry that it replaces.
    pub fn set_static_mac(
        &mut self,
        id: BridgeId,
        (vlan, mac): (u16, MacAddr),
        port: OfPort,
        now: Instant,
    ) -> Option<MacEntry> {
        self.change_macs(id, |macs| macs.set_static(now, vlan, mac, port)).flatten()
    }

    /// Removes a static address. Returns whether there was one.
    pub fn remove_static_mac(&mut self, id: BridgeId, vlan: u16, mac: MacAddr) -> bool {
        self.change_macs(id, |macs| macs.remove_static(vlan, mac)).unwrap_or_default()
    }

    /// Resets the counters of a bridge's MAC table.
    pub fn clear_mac_counters(&mut self, id: BridgeId) {
        self.change_macs(id, MacTable::clear_counters);
    }

    fn change_macs<R>(&mut self, id: BridgeId, how: impl FnOnce(&mut MacTable) -> R) -> Option<R> {
        let result = how(&mut self.ledger_mut(id)?.macs);
        self.follow_macs(id);
        Some(result)
    }
}
