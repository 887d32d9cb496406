//! Replies to requests about the queues of ports.

use super::Switch;
use crate::ids::BridgeId;
use base::OfPort;
use openflow::message::{Message, QueueId, QueueRequest, QueueStats};
use openflow::{ErrorCode, OfError};

/// The requested queues. A named queue that does not exist is an error (ovs: `ofproto/ofproto.c`,
/// `handle_queue_stats_request`, `handle_queue_get_config_request`).
pub(super) fn find(
    asked: &QueueRequest,
    bridge: BridgeId,
    switch: &Switch<'_>,
) -> Result<Vec<QueueId>, OfError> {
    let Some(bridge) = switch.core.bridge(bridge) else { return Ok(Vec::new()) };
    if asked.port != OfPort::NONE && bridge.port(asked.port).is_none() {
        let reason = format!("queues: the bridge has no port {}", asked.port);
        return Err(OfError::new(ErrorCode::QueueBadPort, reason));
    }
    let is_asked = |port: &OfPort| asked.port == OfPort::NONE || *port == asked.port;
    let ports = bridge.ports().filter(|port| is_asked(&port.number));
    let queues = ports.flat_map(|port| {
        let all = port.spec.queues.iter();
        all.map(|&queue| QueueId { port: port.number, queue })
    });
    let found: Vec<QueueId> =
        queues.filter(|id| asked.queue.is_none_or(|queue| queue == id.queue)).collect();
    match asked.queue {
        Some(queue) if found.is_empty() => {
            let reason = format!("queues: there is no queue {queue}");
            Err(OfError::new(ErrorCode::QueueBadQueue, reason))
        }
        _ => Ok(found),
    }
}

/// Queue statistics; the switch does not count per queue.
pub(super) fn statistics(
    asked: &QueueRequest,
    bridge: BridgeId,
    switch: &Switch<'_>,
) -> Result<Vec<QueueStats>, OfError> {
    let uncounted = |id| QueueStats { id, counters: [None; 3], duration_ns: None };
    Ok(find(asked, bridge, switch)?.into_iter().map(uncounted).collect())
}

/// A port's queues, for OpenFlow 1.0 to 1.3.
pub(super) fn config(
    port: OfPort,
    bridge: BridgeId,
    switch: &Switch<'_>,
) -> Result<Message, OfError> {
    let found = find(&QueueRequest { port, queue: None }, bridge, switch)?;
    Ok(Message::QueueConfigReply { port, queues: found.iter().map(|id| id.queue).collect() })
}
