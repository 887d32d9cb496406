//! Which tunnel options the fields `tun_metadata0` to `tun_metadata63` stand for, as controllers say
//! (ovs: `lib/tun-metadata.c`).
//!
//! A field has room for four bytes, so that an option's value has four, too. Open vSwitch takes values of
//! up to 124 bytes, out of 256 for all.

use crate::Ofproto;
use crate::bridge::{Bridge, BridgeId};
use crate::flow_mod::no_bridge;
use crate::rule::Rules;
use flow::{Field, Match, OptionMapping};
use openflow::message::{Message, TlvCommand, TlvMap};
use openflow::{ErrorCode, OfError};

/// Bytes of an option's value.
const VALUE_LEN: u8 = 4;
/// How many fields there are.
const FIELDS: u16 = 64;

impl Ofproto {
    /// Does what a controller asks: all of it or nothing.
    pub fn tlv_table_mod(
        &mut self,
        id: BridgeId,
        command: TlvCommand,
        maps: &[TlvMap],
    ) -> Result<(), OfError> {
        let Some(bridge) = self.bridges.get_mut(id) else { return Err(no_bridge(id)) };
        let rules = &self.rules;
        let mut table = bridge.tunnel_options.to_vec();
        match command {
            TlvCommand::Add => maps.iter().try_for_each(|map| add(&mut table, map))?,
            TlvCommand::Delete => {
                for map in maps {
                    let is_it = |it: &OptionMapping| u16::from(it.index) == map.index;
                    let there = table.iter().position(is_it);
                    if let Some(at) = there {
                        unused(bridge, rules, &table[at])?;
                        table.remove(at);
                    }
                }
            }
            TlvCommand::Clear => {
                table.iter().try_for_each(|mapping| unused(bridge, rules, mapping))?;
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
    /// The answer to a controller that asks for the table.
    pub fn tlv_table(&self) -> Message {
        let map = |it: &OptionMapping| TlvMap {
            class: it.class,
            kind: it.kind,
            len: VALUE_LEN,
            index: it.index.into(),
        };
        let maps = self.tunnel_options.iter().map(map).collect();
        let space = u32::from(FIELDS) * u32::from(VALUE_LEN);
        Message::TlvTableReply { space, fields: FIELDS, maps }
    }
}

fn add(table: &mut Vec<OptionMapping>, map: &TlvMap) -> Result<(), OfError> {
    let refused = |code, what: String| {
        let TlvMap { class, kind, len, index } = map;
        let option = format!("option class {class:#x}, type {kind:#x}, length {len}");
        Err(OfError::new(code, format!("tlv-table-mod: {option}, tun_metadata{index}: {what}")))
    };
    let index = u8::try_from(map.index).ok().filter(|_| map.index < FIELDS);
    let Some(index) = index else {
        return refused(ErrorCode::TlvBadIndex, format!("there are {FIELDS} fields"));
    };
    if map.len != VALUE_LEN {
        return refused(ErrorCode::TlvBadLen, format!("values have {VALUE_LEN} bytes here"));
    }
    if table.iter().any(|it| it.index == index) {
        return refused(ErrorCode::TlvMapped, "the field has an option already".into());
    }
    if let Some(it) = table.iter().find(|it| (it.class, it.kind) == (map.class, map.kind)) {
        let what = format!("tun_metadata{} stands for the option already", it.index);
        return refused(ErrorCode::TlvDuplicate, what);
    }
    table.push(OptionMapping { class: map.class, kind: map.kind, index });
    Ok(())
}

/// Fails where a flow matches on the field.
fn unused(bridge: &Bridge, rules: &Rules, mapping: &OptionMapping) -> Result<(), OfError> {
    let Some(field) = Field::tun_metadata(mapping.index) else { return Ok(()) };
    let all = bridge.tables.within(None, &Match::any(), rules);
    let uses =
        all.into_iter().filter_map(|id| rules.get(id)).any(|rule| rule.matching.mask().has(field));
    match uses {
        true => {
            let reason = format!("tlv-table-mod: a flow matches on {}", field.name());
            Err(OfError::new(ErrorCode::TlvInUse, reason))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BridgeConfig, Config};
    use base::{Instant, MacAddr};
    use openflow::message::FlowModCommand;
    use openflow::text;

    const NOW: Instant = Instant::from_millis(1_000);

    fn map(class: u16, len: u8, index: u16) -> TlvMap {
        TlvMap { class, kind: 0x80, len, index }
    }

    #[test]
    fn options_have_one_field_each_and_stay_while_a_flow_matches_on_it() {
        let mut ofproto = Ofproto::new(Config::default());
        let id = ofproto.add_bridge(BridgeConfig::new("br0", MacAddr::ZERO), NOW);
        let flow = "tun_metadata5=0x7/0xff,actions=move:reg0[]->tun_metadata5[]";
        let flow = text::parse_flow(flow, FlowModCommand::Add, &|_| None).unwrap();
        ofproto.flow_mod(id, &flow, NOW).unwrap();
        let (add, delete) = (TlvCommand::Add, TlvCommand::Delete);
        let cases = [
            (add, vec![map(0x102, 4, 5), map(0x103, 4, 63)], Ok(2)),
            (add, vec![map(0x104, 4, 1), map(0x105, 4, 5)], Err(ErrorCode::TlvMapped)),
            (add, vec![map(0x102, 4, 6)], Err(ErrorCode::TlvDuplicate)),
            (add, vec![map(0x106, 4, 64)], Err(ErrorCode::TlvBadIndex)),
            (add, vec![map(0x106, 8, 6)], Err(ErrorCode::TlvBadLen)),
            (delete, vec![map(0, 0, 63), map(0, 0, 62)], Ok(1)),
            (delete, vec![map(0, 0, 5)], Err(ErrorCode::TlvInUse)),
            (TlvCommand::Clear, vec![], Err(ErrorCode::TlvInUse)),
        ];
        for (command, maps, expect) in cases {
            let before = ofproto.bridges().get(id).unwrap().tlv_table();
            let done = ofproto.tlv_table_mod(id, command, &maps).map_err(|error| error.code);
            let after = ofproto.bridges().get(id).unwrap().tlv_table();
            let Message::TlvTableReply { maps: there, .. } = &after else { unreachable!() };
            assert_eq!(done.map(|()| there.len()), expect, "{command:?} {maps:?}");
            assert!(expect.is_ok() || before == after, "{command:?} {maps:?}");
        }
    }
}
