//! Asynchronous messages: packet-ins, flow-removed and port-status messages, and which connections receive
//! them.

use super::limiter::Limiter;
use super::session::Session;
use super::settings::ConnectionKind;
use crate::events::Event;
use crate::ids::BridgeId;
use base::{Instant, OfPort};
use openflow::EncodeOptions;
use openflow::message::{
    AsyncMasks, Message, PacketIn, PortDesc, PortReason, RemovedReason, Role, TableReason, Version,
    reason,
};

/// OFPR_ACTION.
const ACTION: u32 = 1 << 1;
/// OFPR_INVALID_TTL.
pub(super) const INVALID_TTL: u32 = 1 << 2;
/// The reasons into which OpenFlow 1.4 split OFPR_ACTION: action set, group, packet-out.
const FINER_ACTIONS: u32 = 7 << 3;

/// OFPTR_VACANCY_DOWN and OFPTR_VACANCY_UP
const VACANCY_DOWN: u32 = 3;
const VACANCY_UP: u32 = 4;

/// The wanted asynchronous messages: bits of reasons, for the primary and equal roles and for the secondary
/// role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AsyncConfig {
    pub packet_in: [u32; 2],
    pub port_status: [u32; 2],
    pub flow_removed: [u32; 2],
    pub table_status: [u32; 2],
    pub request_forward: [u32; 2],
}

impl AsyncConfig {
    /// No messages.
    pub const NONE: AsyncConfig = AsyncConfig {
        packet_in: [0; 2],
        port_status: [0; 2],
        flow_removed: [0; 2],
        table_status: [0; 2],
        request_forward: [0; 2],
    };

    /// The default of a version (ovs: `lib/ofp-connection.c`, `ofputil_async_cfg_default`).
    pub fn new(version: Version) -> Self {
        let flow_removed = match version {
            Version::V10 | Version::V11 | Version::V12 => 0x7,
            Version::V13 => 0xf,
            Version::V14 | Version::V15 => 0x3f,
        };
        AsyncConfig {
            packet_in: [(1 | ACTION | FINER_ACTIONS) & !INVALID_TTL, 0],
            port_status: [0x7, 0x7],
            flow_removed: [flow_removed, 0],
            table_status: [0; 2],
            request_forward: [0; 2],
        }
    }

    /// Replaces the masks that a request sets. Before OpenFlow 1.4 one bit stands for all kinds of actions.
    pub fn asked(mut self, version: Version, wanted: &AsyncMasks) -> Self {
        let replace = |place: &mut [u32; 2], asked: [Option<u32>; 2]| {
            for (bits, asked) in place.iter_mut().zip(asked) {
                *bits = asked.unwrap_or(*bits);
            }
        };
        replace(&mut self.packet_in, wanted.packet_in);
        replace(&mut self.port_status, wanted.port_status);
        replace(&mut self.flow_removed, wanted.flow_removed);
        replace(&mut self.table_status, wanted.table_status);
        replace(&mut self.request_forward, wanted.request_forward);
        if version < Version::V14 {
            for bits in &mut self.packet_in {
                if *bits & ACTION != 0 {
                    *bits |= FINER_ACTIONS;
                }
            }
        }
        self
    }

    /// The masks for a reply of this version: before OpenFlow 1.4 only the bits that it defines.
    pub fn told(self, version: Version) -> AsyncMasks {
        let is_new = version >= Version::V14;
        let all = |bits: [u32; 2]| bits.map(Some);
        let new = |bits: [u32; 2]| bits.map(|bits| is_new.then_some(bits));
        let finer = if is_new { 0 } else { FINER_ACTIONS };
        AsyncMasks {
            packet_in: all(self.packet_in.map(|bits| bits & !finer)),
            port_status: all(self.port_status),
            flow_removed: all(self.flow_removed),
            table_status: new(self.table_status),
            request_forward: new(self.request_forward),
        }
    }
}

impl Session {
    /// Forwards a copy of another controller's request, if the peer wants it and its version can express it.
    pub fn forward(&mut self, bridge: BridgeId, xid: u32, request: &Message) {
        let Some(version) = self.version() else { return };
        let bit = match request {
            Message::GroupMod(_) => 0,
            Message::MeterMod(_) if version >= Version::V13 => 1,
            _ => return,
        };
        let is_asked = self.wants(self.async_config.request_forward, bit);
        if self.bridge == bridge && self.closing().is_none() && is_asked {
            let request = Box::new(request.clone());
            self.send_async(&Message::RequestForward { xid, request });
        }
    }

    /// Sends an event, if the peer wants it. `is_own`: the peer's own request caused it.
    pub fn tell(&mut self, event: &Event, is_own: bool, now: Instant) {
        let Some(version) = self.version() else { return };
        if self.closing().is_some() {
            return;
        }
        match event {
            Event::PacketIn { bridge, packet_in, controller_id, is_miss } => {
                // From 1.3 on packets that miss are dropped unless a flow sends them to the controller.
                let is_asked = !is_miss || version < Version::V13;
                // One reason bit covers both kinds of misses.
                let reason = match packet_in.reason {
                    reason::EXPLICIT_MISS | reason::IMPLICIT_MISS => reason::NO_MATCH,
                    reason => reason,
                };
                if *bridge == self.bridge
                    && *controller_id == self.controller_id
                    && is_asked
                    && self.wants(self.async_config.packet_in, reason.into())
                {
                    self.send_packet_in(packet_in.as_ref().clone(), *is_miss, now);
                }
            }
            Event::FlowRemoved { bridge, flow, reason } => {
                if *bridge == self.bridge
                    && self.wants(self.async_config.flow_removed, removed_bit(*reason))
                {
                    let (flow, reason) = (flow.as_ref().clone(), *reason);
                    let nicira = self.nicira && version == Version::V10;
                    self.send_async(&Message::FlowRemoved { flow, reason, nicira });
                }
            }
            Event::TableStatus { bridge, reason, desc } => {
                let bit = match reason {
                    TableReason::VacancyDown => VACANCY_DOWN,
                    TableReason::VacancyUp => VACANCY_UP,
                };
                if *bridge == self.bridge
                    && version >= Version::V14
                    && self.wants(self.async_config.table_status, bit)
                {
                    self.send_async(&Message::TableStatus { reason: *reason, desc: *desc });
                }
            }
            Event::FlowChanged(change) if change.flow.bridge == self.bridge => {
                self.note_change(change, is_own);
            }
            Event::FlowChanged(_) => {}
            Event::PortStatus { bridge, reason, port, before } => {
                // Before 1.5 a controller does not receive port-status messages about its own changes (ovs:
                // `ofproto/connmgr.c`, `connmgr_send_port_status`).
                let is_news = (!is_own || version >= Version::V15)
                    && before.as_ref().is_none_or(|before| !says_same(version, port, before));
                if *bridge == self.bridge
                    && is_news
                    && self.wants(self.async_config.port_status, port_bit(*reason))
                {
                    let (reason, port) = (*reason, port.as_ref().clone());
                    self.send_async(&Message::PortStatus { reason, port });
                }
            }
        }
    }

    /// Sends a packet-in, subject to the rate limit of its kind.
    fn send_packet_in(&mut self, packet_in: PacketIn, is_miss: bool, now: Instant) {
        let Some(rate) = self.settings.rate else {
            self.send_async(&Message::PacketIn(packet_in));
            return;
        };
        let limiter = &mut self.limiters[usize::from(is_miss)];
        let limiter = match limiter {
            Some(limiter) if limiter.rate == rate => limiter,
            other => other.insert(Limiter::new(rate, now)),
        };
        let port = OfPort(packet_in.metadata.key().in_port_raw() as u16);
        let dropped = u64::from(limiter.push(port, Message::PacketIn(packet_in)));
        coverage::add(coverage::Event::PacketInOverflow, dropped);
        self.dropped += dropped;
        self.send_limited(now);
    }

    /// Sends queued packet-ins that the rate limit now permits.
    pub fn send_limited(&mut self, now: Instant) {
        for kind in 0..self.limiters.len() {
            while let Some(message) = self.limiters[kind].as_mut().and_then(|it| it.pop(now)) {
                self.send_async(&message);
            }
        }
    }

    /// Whether the peer receives packets that no flow matches.
    pub fn wants_misses(&self) -> bool {
        self.version().is_some_and(|version| version < Version::V13)
            && self.controller_id == 0
            && self.wants(self.async_config.packet_in, 0)
    }

    fn wants(&self, masks: [u32; 2], bit: u32) -> bool {
        match self.settings.kind {
            ConnectionKind::Controller => {}
            ConnectionKind::Service if self.miss_send_len != 0 => {}
            ConnectionKind::Service | ConnectionKind::Snoop => return false,
        }
        let [full, secondary] = masks;
        let mask = if self.role == Role::Secondary { secondary } else { full };
        mask.checked_shr(bit).is_some_and(|mask| mask & 1 != 0)
    }
}

/// Whether both descriptions are the same in this version.
fn says_same(version: Version, a: &PortDesc, b: &PortDesc) -> bool {
    let written = |port: &PortDesc| {
        let message = Message::PortStatus { reason: PortReason::Modify, port: port.clone() };
        openflow::encode(version, 0, &message, &EncodeOptions::default())
    };
    written(a) == written(b)
}

/// OFPRR_*
fn removed_bit(reason: RemovedReason) -> u32 {
    match reason {
        RemovedReason::IdleTimeout => 0,
        RemovedReason::HardTimeout => 1,
        RemovedReason::Delete => 2,
        RemovedReason::GroupDelete => 3,
        RemovedReason::MeterDelete => 4,
        RemovedReason::Eviction => 5,
    }
}

/// OFPPR_*
fn port_bit(reason: PortReason) -> u32 {
    match reason {
        PortReason::Add => 0,
        PortReason::Delete => 1,
        PortReason::Modify => 2,
    }
}
