//! Data for OpenFlow statistics replies.

use crate::Ofproto;
use crate::hidden::HiddenFlows;
use crate::ids::BridgeId;
use crate::rule::Rule;
use crate::selection::{Search, Selection};
use base::{Instant, OfPort};
use flow::OptionMapping;
use openflow::message::{FlowStatsEntry, FlowStatsRequest, PortDesc, TableStats};
use std::sync::Arc;
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

/// Flows that are examined for a page.
const PAGE: usize = 512;

/// See [`Ofproto::flow_pages`].
#[derive(Debug)]
pub struct FlowPages {
    selection: Option<Selection>,
    options: Arc<[OptionMapping]>,
    hidden: Option<Vec<FlowStatsEntry>>,
    now: Instant,
}

impl Iterator for FlowPages {
    type Item = Vec<FlowStatsEntry>;

    fn next(&mut self) -> Option<Vec<FlowStatsEntry>> {
        let Some(selection) = &mut self.selection else { return self.hidden.take() };
        let (mut page, mut left) = (Vec::new(), PAGE);
        let has_more = selection.go_on(&mut left, |rule| {
            let stats = rule.stats(self.now);
            let matching = stats.matching.with_options_apart(&self.options);
            page.push(FlowStatsEntry { matching, ..stats });
        });
        if !has_more {
            self.selection = None;
        }
        Some(page)
    }
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

    pub(crate) fn hidden(
        &self,
        bridge: BridgeId,
        request: &FlowStatsRequest,
        now: Instant,
    ) -> Vec<FlowStatsEntry> {
        self.ledger(bridge).map_or_else(Vec::new, |ledger| ledger.hidden.asked(request, now))
    }

    /// The number of flows of all bridges, including hidden ones.
    pub fn flow_count(&self) -> usize {
        let rules = self.rules.len().saturating_sub(self.gone_count());
        rules + HiddenFlows::COUNT * self.bridges.iter().count()
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

    /// All flows of a bridge, including the hidden ones, as [`Self::flows_and_hidden`] returns them, read a part at a
    /// time on any thread.
    pub fn flow_pages(&self, bridge: BridgeId, now: Instant) -> FlowPages {
        let all = FlowStatsRequest::default();
        let mut hidden = self.hidden(bridge, &all, now);
        hidden.extend(self.ledger(bridge).into_iter().flat_map(|it| it.hidden.all(now)));
        let options = self.bridges.get(bridge).map(|it| Arc::clone(&it.tunnel_options));
        let (selection, options) = (self.visible(bridge, &all), options.unwrap_or_default());
        FlowPages { selection, options, hidden: Some(hidden), now }
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
            sum.add(rule);
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
        let mut found = Vec::new();
        if let Some((bridge, placed)) = self.bridges.get(bridge).zip(placed) {
            let (mut search, mut left) = (Search::new(placed.table, &placed.matching), usize::MAX);
            search.go_on(&bridge.tables, &self.rules, &mut left, |rule| found.push(rule));
        }
        found.into_iter().filter(|rule| rule.is_asked(request))
    }
}
