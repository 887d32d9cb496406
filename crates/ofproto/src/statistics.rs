//! Data for OpenFlow statistics replies.

use crate::Ofproto;
use crate::hidden::HiddenFlows;
use crate::ids::BridgeId;
use crate::rule::Rule;
use base::{Instant, OfPort};
use openflow::message::{FlowFlags, FlowStatsEntry, FlowStatsRequest, PortDesc, TableStats};
use std::time::Duration;

/// Sums over flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Aggregate {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Flows.
    pub flows: u32,
}

impl Ofproto {
    /// Flows with their statistics, grouped by mask. The statistics are those of the last dump of the
    /// workers.
    pub fn flows(
        &self,
        bridge: BridgeId,
        request: &FlowStatsRequest,
        now: Instant,
    ) -> Vec<FlowStatsEntry> {
        let told = |rule: &Rule| {
            let stats = rule.stats(now);
            FlowStatsEntry { matching: self.told_match(bridge, stats.matching), ..stats }
        };
        let mut flows: Vec<_> = self.asked(bridge, request).map(told).collect();
        flows.extend(self.hidden(bridge, request, now));
        flows
    }

    fn hidden(
        &self,
        bridge: BridgeId,
        request: &FlowStatsRequest,
        now: Instant,
    ) -> Vec<FlowStatsEntry> {
        self.ledger(bridge).map_or_else(Vec::new, |ledger| ledger.hidden.asked(request, now))
    }

    /// The number of flows of all bridges, including hidden ones.
    pub fn flow_count(&self) -> usize {
        self.rules.len() + HiddenFlows::COUNT * self.bridges.iter().count()
    }

    /// All flows, including the hidden ones, which otherwise only a request for their table returns.
    pub fn flows_and_hidden(&self, bridge: BridgeId, now: Instant) -> Vec<FlowStatsEntry> {
        let all = FlowStatsRequest::default();
        let mut flows = self.flows(bridge, &all, now);
        if let Some(ledger) = self.ledger(bridge) {
            flows.extend(ledger.hidden.all(now));
        }
        flows
    }

    /// The flow of a bridge that fails open: its age, packets and bytes. Its priority and actions are
    /// [`FAIL_OPEN_PRIORITY`](crate::FAIL_OPEN_PRIORITY) and NORMAL.
    pub fn fail_open_flow(&self, bridge: BridgeId, now: Instant) -> Option<(Duration, u64, u64)> {
        self.ledger(bridge)?.hidden.fail_open(now)
    }

    /// Sums over flows; uncounted flows are left out (ovs: `ofproto/ofproto.c`,
    /// `handle_aggregate_stats_request`).
    pub fn aggregate(
        &self,
        bridge: BridgeId,
        request: &FlowStatsRequest,
        now: Instant,
    ) -> Aggregate {
        let mut sum = Aggregate::default();
        for rule in self.asked(bridge, request) {
            sum.flows += 1;
            let count = |flag, count| if rule.flags.contains(flag) { 0 } else { count };
            sum.packets += count(FlowFlags::NO_PKT_COUNTS, rule.carried.packets());
            sum.bytes += count(FlowFlags::NO_BYT_COUNTS, rule.carried.bytes());
        }
        for row in self.hidden(bridge, request, now) {
            sum.flows += 1;
            sum.packets += row.packets;
            sum.bytes += row.bytes;
        }
        sum
    }

    /// Statistics of each table.
    pub fn table_stats(&self, bridge: BridgeId) -> Vec<TableStats> {
        self.bridges.get(bridge).map_or_else(Vec::new, |bridge| bridge.tables.stats())
    }

    /// Descriptions of one port of the bridge, or of all (`NONE`).
    pub fn port_descs(&self, bridge: BridgeId, port: OfPort) -> Vec<PortDesc> {
        let Some(bridge) = self.bridges.get(bridge) else { return Vec::new() };
        let asked = |desc: &PortDesc| port == OfPort::NONE || desc.port == port;
        bridge.describe_ports().into_iter().filter(asked).collect()
    }

    /// The flows that a request selects, grouped by mask. None if it names options that the TLV table lacks.
    pub(crate) fn asked<'a>(
        &'a self,
        bridge: BridgeId,
        request: &'a FlowStatsRequest,
    ) -> impl Iterator<Item = &'a Rule> {
        let placed = self.placed_request(bridge, request).ok();
        let found = self.bridges.get(bridge).zip(placed);
        let ids = found.map_or_else(Vec::new, |(bridge, request)| {
            bridge.tables.within(request.table, &request.matching, &self.rules)
        });
        let rules = ids.into_iter().filter_map(|id| self.rules.get(id));
        rules.filter(|rule| rule.is_asked(request))
    }
}
