//! The addresses of bridges, as the `fdb/*` commands and ports that go change them. What a megaflow
//! took from an address is translated again.

use crate::{BridgeId, MacEntry, MacTable, Ofproto};
use base::{Instant, MacAddr, OfPort};

impl Ofproto {
    /// Forgets all learned addresses of a bridge.
    pub fn flush_macs(&mut self, id: BridgeId) {
        self.change_macs(id, MacTable::flush);
    }

    /// Forgets what was learned behind a port that is gone, and the same addresses in all bridges: what
    /// they learned of it through patches is no longer true (ovs: `ofproto/ofproto-dpif.c`,
    /// `bundle_flush_macs`).
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

    /// Forgets what lies behind a port.
    pub(crate) fn flush_port_macs(&mut self, id: BridgeId, port: OfPort) {
        self.change_macs(id, |macs| macs.flush_port(port));
    }

    /// Puts an address into a bridge's table, as a packet would.
    pub fn learn_mac(&mut self, id: BridgeId, vlan: u16, mac: MacAddr, port: OfPort, now: Instant) {
        self.change_macs(id, |macs| macs.learn(now, vlan, mac, port));
    }

    /// Puts an address into a bridge's table for good. Returns the entry whose place it takes.
    pub fn set_static_mac(
        &mut self,
        id: BridgeId,
        (vlan, mac): (u16, MacAddr),
        port: OfPort,
        now: Instant,
    ) -> Option<MacEntry> {
        self.change_macs(id, |macs| macs.set_static(now, vlan, mac, port)).flatten()
    }

    /// Takes out an address that was put there for good; whether there was one.
    pub fn remove_static_mac(&mut self, id: BridgeId, vlan: u16, mac: MacAddr) -> bool {
        self.change_macs(id, |macs| macs.remove_static(vlan, mac)).unwrap_or_default()
    }

    /// Counts what becomes of a bridge's addresses from nothing again.
    pub fn clear_mac_counters(&mut self, id: BridgeId) {
        self.change_macs(id, MacTable::clear_counters);
    }

    fn change_macs<R>(&mut self, id: BridgeId, how: impl FnOnce(&mut MacTable) -> R) -> Option<R> {
        let result = how(&mut self.ledger_mut(id)?.macs);
        self.follow_macs(id);
        Some(result)
    }
}
