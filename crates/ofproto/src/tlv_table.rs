//! The TLV table: the tunnel options that controllers map to the fields `tun_metadata0` to `tun_metadata63`
//! (ovs: `lib/tun-metadata.c`).

use crate::Ofproto;
use crate::bridge::Bridge;
use crate::flow_mod::no_bridge;
use crate::ids::BridgeId;
use crate::rule::Rules;
use flow::{Field, OptionMapping};
use openflow::message::{Message, TlvCommand, TlvMap};
use openflow::{ErrorCode, OfError, option_fields};

/// Bytes of a slot.
const SLOT_LEN: u8 = 4;

impl Ofproto {
    /// Carries out a request completely or not at all.
    pub fn tlv_table_mod(
        &mut self,
        id: BridgeId,
        command: TlvCommand,
        maps: &[TlvMap],
    ) -> Result<(), OfError> {
        maps.iter().try_for_each(check)?;
        let Some(bridge) = self.bridges.get_mut(id) else { return Err(no_bridge(id)) };
        let mut table = bridge.tunnel_options.to_vec();
        match command {
            TlvCommand::Add => maps.iter().try_for_each(|map| add(&mut table, map))?,
            TlvCommand::Delete => {
                let is_meant =
                    |it: &OptionMapping| maps.iter().any(|map| map.index == u16::from(it.index));
                unused(bridge, &self.rules, is_meant)?;
                table.retain(|it| !is_meant(it));
            }
            TlvCommand::Clear => {
                unused(bridge, &self.rules, |_| true)?;
                table.clear();
            }
        }
        table.sort_by_key(|mapping| mapping.index);
        bridge.tunnel_options = table.into();
        self.changes.configuration();
        Ok(())
    }
}

impl Bridge {
    /// The reply to a request for the table.
    pub fn tlv_table(&self) -> Message {
        let map = |it: &OptionMapping| TlvMap {
            class: it.class,
            kind: it.kind,
            len: it.len(),
            index: it.index.into(),
        };
        let maps = self.tunnel_options.iter().map(map).collect();
        let space = OptionMapping::SLOTS * u32::from(SLOT_LEN);
        Message::TlvTableReply { space, fields: OptionMapping::FIELDS.into(), maps }
    }
}

fn refused(map: &TlvMap, code: ErrorCode, what: &str) -> OfError {
    let TlvMap { class, kind, len, index } = map;
    let option = format!("option class {class:#x}, type {kind:#x}, length {len}");
    OfError::new(code, format!("tlv-table-mod: {option}, tun_metadata{index}: {what}"))
}

/// Checks length and field of each mapping, whatever the command (ovs: `lib/ofp-match.c`,
/// `decode_tlv_table_mappings`).
fn check(map: &TlvMap) -> Result<(), OfError> {
    if !map.len.is_multiple_of(SLOT_LEN) || map.len > OptionMapping::LEN_MAX {
        let what = format!("a length is a multiple of 4 up to {}", OptionMapping::LEN_MAX);
        return Err(refused(map, ErrorCode::TlvBadLen, &what));
    }
    if map.index >= OptionMapping::FIELDS.into() {
        let what = format!("there are {} fields", OptionMapping::FIELDS);
        return Err(refused(map, ErrorCode::TlvBadIndex, &what));
    }
    Ok(())
}

fn add(table: &mut Vec<OptionMapping>, map: &TlvMap) -> Result<(), OfError> {
    let index = map.index as u8;
    if table.iter().any(|it| it.index == index) {
        return Err(refused(map, ErrorCode::TlvMapped, "the field has an option already"));
    }
    if let Some(it) = table.iter().find(|it| (it.class, it.kind) == (map.class, map.kind)) {
        let what = format!("tun_metadata{} stands for the option already", it.index);
        return Err(refused(map, ErrorCode::TlvDuplicate, &what));
    }
    let Some(slots) = allocate(table, map) else {
        return Err(refused(map, ErrorCode::TlvTableFull, "its value has no room"));
    };
    table.push(OptionMapping { class: map.class, kind: map.kind, index, slots });
    Ok(())
}

/// Slots for an option's value, where the table has nothing yet.
fn allocate(table: &[OptionMapping], map: &TlvMap) -> Option<u64> {
    let wanted = u32::from(map.len / SLOT_LEN);
    let free = !table.iter().fold(0, |all, it| all | it.slots);
    let all = (0..u64::BITS).filter(|at| free >> at & 1 != 0);
    let chosen = all.take(wanted as usize).fold(0u64, |chosen, at| chosen | 1 << at);
    (chosen.count_ones() == wanted).then_some(chosen)
}

/// Fails if a flow uses a field of such a mapping in its match or actions.
fn unused(
    bridge: &Bridge,
    rules: &Rules,
    is_meant: impl Fn(&OptionMapping) -> bool,
) -> Result<(), OfError> {
    let all = bridge.tables.all();
    let used = all.into_iter().filter_map(|id| rules.get(id)).fold(0, |used, rule| {
        let matched = rule.matching.unpack().mask().get(Field::TunMetadataPresent) as u64;
        used | matched | option_fields(&rule.actions)
    });
    let is_used = |it: &&OptionMapping| used >> it.index & 1 != 0 && is_meant(it);
    match bridge.tunnel_options.iter().find(is_used) {
        Some(it) => {
            let reason = format!("tlv-table-mod: a flow uses tun_metadata{}", it.index);
            Err(OfError::new(ErrorCode::TlvInUse, reason))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bridge::TestBridge;
    use crate::{BridgeConfig, Config};
    use base::{Instant, MacAddr};
    use openflow::message::FlowModCommand;

    const NOW: Instant = Instant::from_millis(1_000);

    fn map(class: u16, len: u8, index: u16) -> TlvMap {
        TlvMap { class, kind: 0x80, len, index }
    }

    #[test]
    fn options_have_one_field_each_and_stay_while_a_flow_uses_it() {
        let mut bridge = TestBridge::new();
        let id = bridge.id;
        let uses =
            ["tun_metadata5=0x7/0xff,actions=drop", "actions=move:reg0[]->tun_metadata4[32..63]"];
        for text in uses {
            assert_eq!(
                bridge.send(FlowModCommand::Add, text),
                Err(ErrorCode::TlvUnmapped),
                "{text}"
            );
        }
        let (add, delete, clear) = (TlvCommand::Add, TlvCommand::Delete, TlvCommand::Clear);
        let cases = [
            (add, vec![map(0x102, 124, 5), map(0x103, 4, 63), map(0x100, 8, 4)], Ok(3)),
            (add, vec![map(0x104, 4, 1), map(0x105, 4, 5)], Err(ErrorCode::TlvMapped)),
            (add, vec![map(0x102, 4, 6)], Err(ErrorCode::TlvDuplicate)),
            (add, vec![map(0x106, 4, 64)], Err(ErrorCode::TlvBadIndex)),
            (add, vec![map(0x106, 6, 6)], Err(ErrorCode::TlvBadLen)),
            (add, vec![map(0x106, 128, 6)], Err(ErrorCode::TlvBadLen)),
            (add, vec![map(0x106, 0, 6)], Ok(4)),
            (add, vec![map(0x107, 120, 7), map(0x108, 4, 8)], Err(ErrorCode::TlvTableFull)),
            (add, vec![map(0x107, 120, 7)], Ok(5)),
            (delete, vec![map(0, 0, 63), map(0, 0, 62)], Ok(4)),
            (add, vec![map(0x109, 4, 62)], Ok(5)),
            (delete, vec![map(0, 0, 62), map(0, 0, 5)], Err(ErrorCode::TlvInUse)),
            (delete, vec![map(0, 0, 4)], Err(ErrorCode::TlvInUse)),
            (delete, vec![map(0, 0, 64)], Err(ErrorCode::TlvBadIndex)),
            (clear, vec![], Err(ErrorCode::TlvInUse)),
        ];
        for (i, (command, maps, expect)) in cases.into_iter().enumerate() {
            let before = bridge.ofproto.bridges().get(id).unwrap().tlv_table();
            let done = bridge.ofproto.tlv_table_mod(id, command, &maps).map_err(|error| error.code);
            let after = bridge.ofproto.bridges().get(id).unwrap().tlv_table();
            let Message::TlvTableReply { maps: there, .. } = &after else { unreachable!() };
            assert_eq!(done.map(|()| there.len()), expect, "{command:?} {maps:?}");
            assert!(expect.is_ok() || before == after, "{command:?} {maps:?}");
            if i == 0 {
                for text in uses {
                    assert_eq!(bridge.send(FlowModCommand::Add, text), Ok(()), "{text}");
                }
            }
        }
        bridge.ofproto.flush_flows(id);
        assert!(bridge.ofproto.tlv_table_mod(id, TlvCommand::Clear, &[]).is_ok());
    }

    #[test]
    fn each_bridge_has_all_the_room() {
        let mut ofproto = Ofproto::new(Config::default());
        for name in ["br0", "br1"] {
            let id = ofproto.add_bridge(BridgeConfig::new(name, MacAddr::ZERO), NOW);
            let maps = [map(1, 124, 0), map(2, 4, 1), map(3, 124, 2), map(4, 4, 3)];
            ofproto.tlv_table_mod(id, TlvCommand::Add, &maps).unwrap();
            let full = ofproto.tlv_table_mod(id, TlvCommand::Add, &[map(5, 4, 4)]);
            assert_eq!(full.unwrap_err().code, ErrorCode::TlvTableFull);
            let bridge = ofproto.bridges().get(id).unwrap();
            let slots = bridge.tunnel_options().iter().fold(0, |all, it| all | it.slots);
            assert_eq!(slots, u64::MAX);
        }
    }
}
