//! The switch configuration: fragments, packets whose TTL runs out, the length of missed packets
//! (ovs: `ofproto/ofproto.c`, `handle_set_config`).

use super::Switch;
use super::asynchronous::INVALID_TTL;
use super::session::Session;
use super::settings::ConnectionKind;
use crate::bridge::Fragments;
use openflow::message::{Message, Role, Version};
use openflow::{ErrorCode, OfError};

/// OFPC_FRAG_MASK and its values; the third, reassembly, is not supported.
const FRAGMENTS: u16 = 3;
const FRAG_NORMAL: u16 = 0;
const FRAG_DROP: u16 = 1;
const FRAG_NX_MATCH: u16 = 3;
/// OFPC_INVALID_TTL_TO_CONTROLLER, which OpenFlow 1.3 replaced with the asynchronous configuration.
const TTL_TO_CONTROLLER: u16 = 4;

impl Session {
    /// The current configuration.
    pub fn get_config(&self, switch: &Switch<'_>) -> Message {
        let fragments = switch.core.bridge(self.bridge).map_or(Fragments::Normal, |b| b.fragments);
        let mut flags = match fragments {
            Fragments::Normal => FRAG_NORMAL,
            Fragments::Drop => FRAG_DROP,
            Fragments::NxMatch => FRAG_NX_MATCH,
        };
        let [full, _] = self.async_config.packet_in;
        if full & INVALID_TTL != 0 && self.has_ttl_flag() {
            flags |= TTL_TO_CONTROLLER;
        }
        Message::GetConfigReply { flags, miss_send_len: self.miss_send_len }
    }

    /// Sets the supported flags; a get-config request shows the result.
    pub fn set_config(
        &mut self,
        flags: u16,
        miss_send_len: u16,
        switch: &mut Switch<'_>,
    ) -> Result<(), OfError> {
        let known = if self.has_ttl_flag() { FRAGMENTS | TTL_TO_CONTROLLER } else { FRAGMENTS };
        if flags & !known != 0 {
            let reason = format!("set-config: flags {flags:#x} are unknown");
            return Err(OfError::new(ErrorCode::ConfigBadFlags, reason));
        }
        if self.settings.kind == ConnectionKind::Service || self.role != Role::Secondary {
            let fragments = match flags & FRAGMENTS {
                FRAG_NORMAL => Some(Fragments::Normal),
                FRAG_DROP => Some(Fragments::Drop),
                FRAG_NX_MATCH => Some(Fragments::NxMatch),
                _ => None,
            };
            let id = self.bridge;
            let name = switch.core.bridge(id).map_or("", |bridge| &bridge.config.name);
            match fragments {
                Some(fragments) => switch.core.set_fragments(id, fragments),
                None => log::warn!("{name}: unsupported fragment handling mode reassemble"),
            }
        }
        if self.has_ttl_flag() {
            let [full, _] = &mut self.async_config.packet_in;
            *full &= !INVALID_TTL;
            if flags & TTL_TO_CONTROLLER != 0 {
                *full |= INVALID_TTL;
            }
        }
        self.miss_send_len = miss_send_len;
        Ok(())
    }

    fn has_ttl_flag(&self) -> bool {
        self.version().is_some_and(|version| version < Version::V13)
    }
}
