//! Positions of tunnel options in keys: the bridge's TLV table assigns them to the fields in incoming matches
//! and actions, and they are removed from outgoing ones. The datapath knows no table: its keys contain options as
//! packets carry them, and translation maps them by the table of the bridge that a packet enters.

use crate::Ofproto;
use crate::bridge::Bridge;
use crate::flow_mod::no_bridge;
use crate::ids::BridgeId;
use flow::{Match, OptionMapping};
use openflow::message::{FlowMod, FlowStatsRequest, PacketOut};
use openflow::{Action, OfError, option_fields, place_options, unmapped};
use std::borrow::Cow;

impl Bridge {
    /// The TLV table: the tunnel options of fields, by field.
    pub fn tunnel_options(&self) -> &[OptionMapping] {
        &self.tunnel_options
    }

    /// Assigns positions to the options of a match.
    ///
    /// # Errors
    /// The bridge's TLV table lacks an option.
    pub fn place_match(&self, matching: &mut Match) -> Result<(), OfError> {
        matching.place_options(&self.tunnel_options).map_err(unmapped)
    }

    /// The actions, with the lengths of their options.
    pub(crate) fn place_actions<'a>(
        &self,
        actions: &'a [Action],
    ) -> Result<Cow<'a, [Action]>, OfError> {
        if option_fields(actions) == 0 {
            return Ok(Cow::Borrowed(actions));
        }
        let mut actions = actions.to_vec();
        place_options(&mut actions, &self.tunnel_options)?;
        Ok(Cow::Owned(actions))
    }
}

impl Ofproto {
    /// A flow-mod with positions for its options.
    pub(crate) fn placed_flow_mod<'a>(
        &self,
        id: BridgeId,
        flow_mod: &'a FlowMod,
    ) -> Result<Cow<'a, FlowMod>, OfError> {
        let bridge = self.bridges.get(id).ok_or_else(|| no_bridge(id))?;
        let actions = bridge.place_actions(&flow_mod.actions)?;
        if flow_mod.matching.options().is_empty() && matches!(actions, Cow::Borrowed(_)) {
            return Ok(Cow::Borrowed(flow_mod));
        }
        let mut placed = FlowMod { actions: actions.into_owned(), ..flow_mod.clone() };
        bridge.place_match(&mut placed.matching)?;
        Ok(Cow::Owned(placed))
    }

    /// A packet-out with positions for its options.
    pub(crate) fn placed_packet_out<'a>(
        &self,
        id: BridgeId,
        packet_out: &'a PacketOut,
    ) -> Result<Cow<'a, PacketOut>, OfError> {
        let bridge = self.bridges.get(id).ok_or_else(|| no_bridge(id))?;
        let actions = bridge.place_actions(&packet_out.actions)?;
        if packet_out.metadata.options().is_empty() && matches!(actions, Cow::Borrowed(_)) {
            return Ok(Cow::Borrowed(packet_out));
        }
        let mut placed = PacketOut { actions: actions.into_owned(), ..packet_out.clone() };
        bridge.place_match(&mut placed.metadata)?;
        Ok(Cow::Owned(placed))
    }

    /// A flow statistics request with positions for its options.
    ///
    /// # Errors
    /// The bridge's TLV table lacks an option.
    pub fn placed_request<'a>(
        &self,
        id: BridgeId,
        request: &'a FlowStatsRequest,
    ) -> Result<Cow<'a, FlowStatsRequest>, OfError> {
        if request.matching.options().is_empty() {
            return Ok(Cow::Borrowed(request));
        }
        let mut placed = request.clone();
        let bridge = self.bridges.get(id).ok_or_else(|| no_bridge(id))?;
        bridge.place_match(&mut placed.matching)?;
        Ok(Cow::Owned(placed))
    }

    /// A match as sent to controllers.
    pub(crate) fn told_match(&self, id: BridgeId, matching: Match) -> Match {
        match self.bridges.get(id) {
            Some(bridge) => matching.with_options_apart(&bridge.tunnel_options),
            None => matching,
        }
    }
}
