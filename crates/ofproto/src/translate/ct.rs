//! `ct(...)`.

use super::Fork;
use super::context::Context;
use super::report::NoteKind;
use crate::dependency::Dependency;
use crate::recirc::Frozen;
use base::{TableId, Zone};
use flow::{Action, CtAction, Field, Masked, Nat, NatRange};
use openflow::action::{Ct, ZoneSource};
use wire::ethertype;

/// The bits of the connection's mark and label that the list of a `ct` action writes. They are kept apart from the
/// bits that it reads, which are the megaflow's.
#[derive(Clone, Copy, Default)]
pub(crate) struct CtWritten {
    mark: u32,
    label: u128,
}

impl CtWritten {
    pub fn of(&self, field: Field) -> u128 {
        if field == Field::CtMark { self.mark.into() } else { self.label }
    }

    pub fn add(&mut self, field: Field, bits: u128) {
        if field == Field::CtMark {
            self.mark |= bits as u32;
        } else {
            self.label |= bits;
        }
    }
}

impl Context<'_> {
    /// Removes the packet's connection state.
    pub fn clear_conntrack(&mut self) {
        self.conntracked = false;
        self.key.clear_ct();
    }

    /// Translates `ct`. If it names a table, a copy recirculates there with its connection state; the packet
    /// itself continues without it (ovs: `compose_conntrack_action`).
    pub fn ct(&mut self, ct: &Ct, last: bool) {
        let zone = match ct.zone {
            ZoneSource::Immediate(zone) => Zone(zone),
            ZoneSource::Field(source) => {
                // Frozen fields are part of the recirculation id, which the mask covers.
                let is_frozen = source.field.is_pipeline()
                    || matches!(source.field, Field::InPort | Field::InPortOxm);
                if !(self.thawed && is_frozen) {
                    self.look_at_part(source);
                }
                Zone(self.read(source).low() as u16)
            }
        };
        self.commit();
        self.ct_written = CtWritten::default();
        self.nat = None;
        self.execute(&ct.exec, last);
        let nat = self.nat.take();
        if ct.commit {
            self.depend(Dependency::Zone(zone));
        }
        let action = CtAction {
            commit: ct.commit,
            force: ct.commit && ct.force,
            zone,
            mark: self.masked_mark(),
            label: self.masked_label(),
            nat: nat.clone().map(|nat| nat.map_or(Nat::Restore, Nat::Rewrite)),
            helper: self.helper(ct.alg),
            // Only a commit sets the timeout policy of a connection.
            timeout_policy: self.world.timeout_policies.get(&zone).copied().filter(|_| ct.commit),
        };
        self.actions.push(Action::Ct(Box::new(action)));
        if let Some(table) = ct.table {
            self.conntracked = true;
            self.fork(table, zone, nat);
        }
        self.clear_conntrack();
        self.notes.add(NoteKind::Detail, || {
            "Sets the packet to an untracked state, and clears all the conntrack fields.".to_owned()
        });
    }

    /// Recirculates a copy to a table.
    fn fork(&mut self, table: TableId, zone: Zone, nat: Option<Option<NatRange>>) {
        let state = self.freeze(table, Vec::new());
        let Some(id) = self.intern(state) else { return };
        self.actions.push(Action::Recirc(id));
        if self.notes.is_wanted() {
            let mut key = self.key.clone();
            key.set_recirc_id(id);
            key.set_ct_zone(zone);
            key.unmap_options(&self.bridge.tunnel_options);
            self.forks.push(Fork { id, key, nat });
        }
        self.notes.add(NoteKind::Detail, || {
            format!(
                "A clone of the packet is forked to recirculate. The forked pipeline will be \
                 resumed at table {table}."
            )
        });
    }

    /// The frozen state of the packet.
    pub fn freeze(&self, table: TableId, userdata: Vec<u8>) -> Frozen {
        Frozen {
            bridge: self.bridge.id,
            table,
            device: self.device,
            pipeline: Frozen::pipeline_of(self.key),
            stack: self.stack.clone(),
            action_set: self.action_set.clone(),
            conntracked: self.conntracked,
            mirrored: self.mirrored,
            rest: Vec::new(),
            userdata,
        }
    }

    /// Replaces the packet's addresses and ports in the key, and in the mask, with the connection's original
    /// tuple.
    pub fn swap_tuple(&mut self) {
        let v4 = self.key.eth_type() == ethertype::IPV4;
        let pairs = [
            (Field::NwProto, Field::CtNwProto),
            if v4 { (Field::Ipv4Src, Field::CtNwSrc) } else { (Field::Ipv6Src, Field::CtIpv6Src) },
            if v4 { (Field::Ipv4Dst, Field::CtNwDst) } else { (Field::Ipv6Dst, Field::CtIpv6Dst) },
            (Field::TpSrc, Field::CtTpSrc),
            (Field::TpDst, Field::CtTpDst),
        ];
        for (a, b) in pairs {
            let (key_a, key_b) = (self.key.get(a), self.key.get(b));
            self.key.set(a, key_b);
            self.key.set(b, key_a);
            let (mask_a, mask_b) = (self.mask.get(a), self.mask.get(b));
            self.mask.set(a, mask_b);
            self.mask.set(b, mask_a);
        }
    }

    fn masked_mark(&self) -> Option<Masked<u32>> {
        let mask = self.ct_written.mark;
        (mask != 0).then(|| Masked { value: self.key.ct_mark() & mask, mask })
    }

    fn masked_label(&self) -> Option<Masked<u128>> {
        let mask = self.ct_written.label;
        (mask != 0).then(|| Masked { value: self.key.ct_label() & mask, mask })
    }

    fn helper(&mut self, alg: u16) -> Option<&'static str> {
        match alg {
            0 => None,
            21 => Some("ftp"),
            69 => Some("tftp"),
            other => {
                self.notes.add(NoteKind::Error, || format!("cannot serialize ct_helper {other}"));
                None
            }
        }
    }
}
