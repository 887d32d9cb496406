//! Replies to statistics requests.

use super::dumps::Dump;
use super::jobs::{Job, Kind};
use super::request::Done;
use super::session::Session;
use super::waiting::{Awaits, Waiting};
use super::{Connections, Counters, Switch, queues};
use crate::ids::BridgeId;
use crate::port::{Port, PortDevice};
use base::OfPort;
use openflow::OfError;
use openflow::message::{
    Message, PortStats, StatsReply, StatsRequest, TableDesc, TableFeatures, TableStats,
};
use std::time::Duration;

/// How long a request waits for a worker that does not answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The last table is internal and is not shown (ovs: `ofproto/ofproto-dpif.h`, `TBL_INTERNAL`).
pub(super) const VISIBLE_TABLES: u8 = 254;

impl Connections {
    /// Replies at once, or requests statistics from the workers and replies when they have answered.
    pub(super) fn statistics(
        &mut self,
        session: &mut Session,
        xid: u32,
        request: StatsRequest,
        switch: &mut Switch<'_>,
    ) -> Result<Done, OfError> {
        let bridge = session.bridge;
        let reply = match request {
            StatsRequest::Flow { .. }
            | StatsRequest::Aggregate { .. }
            | StatsRequest::Table
            | StatsRequest::Port(_)
            | StatsRequest::GroupStats(_)
            | StatsRequest::MeterStats(_) => {
                match &request {
                    StatsRequest::Flow { request, .. }
                    | StatsRequest::Aggregate { request, .. } => {
                        switch.core.placed_request(bridge, request)?;
                    }
                    StatsRequest::MeterStats(meter) => {
                        switch.core.meter_stats(bridge, *meter, switch.now)?;
                    }
                    _ => {}
                }
                let ticket = self.collects.ask(switch.core, switch.out);
                let until = switch.now + PATIENCE;
                let awaits = Awaits::Statistics { request: Box::new(request), ticket, until };
                session.waiting = Some(Waiting { xid, awaits });
                return Ok(Done::Answered(None));
            }
            StatsRequest::Desc => StatsReply::Desc(description(bridge, switch)),
            StatsRequest::TableFeatures { tables, more } => {
                return session.table_features(xid, tables, more, switch);
            }
            StatsRequest::TableDesc => StatsReply::TableDesc(table_descs(bridge, switch)),
            StatsRequest::PortDesc(port) => {
                StatsReply::PortDesc(switch.core.port_descs(bridge, port))
            }
            StatsRequest::GroupFeatures => StatsReply::GroupFeatures,
            StatsRequest::GroupDesc(group) => {
                StatsReply::GroupDesc(switch.core.group_descs(bridge, group))
            }
            StatsRequest::MeterFeatures => StatsReply::MeterFeatures,
            StatsRequest::MeterConfig(meter) => {
                StatsReply::MeterConfig(switch.core.meter_descs(bridge, meter)?)
            }
            StatsRequest::FlowMonitor(monitors) => {
                let dump = self.change_monitors(session, &monitors, switch)?;
                session.is_told_later = true;
                return Ok(Done::Begun(Kind::Dump(Box::new(dump))));
            }
            StatsRequest::Queue(asked) => {
                StatsReply::Queue(queues::statistics(&asked, bridge, switch)?)
            }
            StatsRequest::QueueDesc(asked) => {
                StatsReply::QueueDesc(queues::find(&asked, bridge, switch)?)
            }
        };
        Ok(Done::Answered(Some(Message::StatsReply(reply))))
    }
}

impl Session {
    /// Replies with the tables' features, after the changes that the request makes.
    fn table_features(
        &mut self,
        xid: u32,
        wanted: Vec<TableFeatures>,
        more: bool,
        switch: &mut Switch<'_>,
    ) -> Result<Done, OfError> {
        let before = self.table_features.take().filter(|(before, _)| *before == xid);
        let mut change = before.map(|(_, change)| change).unwrap_or_default();
        change.add(wanted)?;
        if more {
            self.table_features = Some((xid, change));
            return Ok(Done::Answered(None));
        }
        if !change.is_empty() {
            self.may_change()?;
            switch.core.change_table_features(self.bridge, &change)?;
        }
        let tables = tables(self.bridge, switch);
        Ok(Done::Answered(Some(Message::StatsReply(StatsReply::TableFeatures(tables)))))
    }
}

impl Connections {
    /// Replies to a request for counters, from the collected statistics. Replies with flows last.
    pub(super) fn begin_reply(
        &mut self,
        session: &mut Session,
        xid: u32,
        request: &StatsRequest,
        switch: &mut Switch<'_>,
    ) {
        let bridge = session.bridge;
        let dump = match request {
            StatsRequest::Aggregate { request, nicira } => {
                Dump::of_sum(bridge, request, *nicira, switch)
            }
            StatsRequest::Flow { request, nicira } => {
                Dump::of_flows(bridge, request, *nicira, switch)
            }
            other => return session.reply(xid, &collected(bridge, other, switch)),
        };
        self.begin(session.id, Job { xid, request: Vec::new(), kind: Kind::Dump(Box::new(dump)) });
    }
}

/// Replies to a request for counters, from the collected statistics.
fn collected(bridge: BridgeId, request: &StatsRequest, switch: &mut Switch<'_>) -> Message {
    Message::StatsReply(match request {
        StatsRequest::GroupStats(group) => {
            StatsReply::GroupStats(switch.core.group_stats(bridge, *group, switch.now))
        }
        StatsRequest::Table => StatsReply::Table(tables(bridge, switch)),
        StatsRequest::Port(port) => StatsReply::Port(ports(bridge, *port, switch)),
        StatsRequest::MeterStats(meter) => {
            // The meter may have been deleted meanwhile.
            let stats = switch.core.meter_stats(bridge, *meter, switch.now);
            StatsReply::MeterStats(stats.unwrap_or_default())
        }
        // No other request waits.
        _ => StatsReply::Flow { flows: Vec::new(), nicira: false },
    })
}

fn description(bridge: BridgeId, switch: &Switch<'_>) -> [String; 5] {
    let bridge = switch.core.bridge(bridge);
    bridge.map(|bridge| bridge.config.description.clone()).unwrap_or_default()
}

fn tables(bridge: BridgeId, switch: &Switch<'_>) -> Vec<TableStats> {
    let mut tables = switch.core.table_stats(bridge);
    tables.retain(|table| table.table.0 < VISIBLE_TABLES);
    tables
}

fn table_descs(bridge: BridgeId, switch: &Switch<'_>) -> Vec<TableDesc> {
    let mut tables = switch.core.table_descs(bridge);
    tables.retain(|table| table.table.0 < VISIBLE_TABLES);
    tables
}

fn ports(bridge: BridgeId, asked: OfPort, switch: &mut Switch<'_>) -> Vec<PortStats> {
    let Some(bridge) = switch.core.bridge(bridge) else { return Vec::new() };
    let now = switch.now;
    let chosen = bridge.ports().filter(|port| asked == OfPort::NONE || port.number == asked);
    chosen
        .map(|port| PortStats {
            port: port.number,
            counters: match port.spec.device {
                PortDevice::Datapath(device) => (switch.counters)(device),
                PortDevice::Patch { .. } | PortDevice::Tunnel { .. } => patch_counters(port),
            },
            // Whole milliseconds, as Open vSwitch counts them.
            duration_ns: (now - port.created).as_millis() as u64 * 1_000_000,
        })
        .collect()
}

/// Packets and bytes. Patch ports and tunnels have no device with more counters.
fn patch_counters(port: &Port) -> Counters {
    let ((rx_packets, rx_bytes), (tx_packets, tx_bytes)) =
        (port.patch_rx.pair(), port.patch_tx.pair());
    let mut counters = [None; 12];
    let known = [rx_packets, tx_packets, rx_bytes, tx_bytes];
    for (counter, count) in counters.iter_mut().zip(known) {
        *counter = Some(count);
    }
    counters
}
