//! Connections whose segments the device checks against TCP windows, by a connection object that the rules of
//! both directions share.
//!
//! Each direction has two rules: the one of the first group passes all segments of the connection to the
//! object, and the one of the second group forwards those that are within the windows and change no state.
//! Rules that all connections of a port share leave the other segments to the switch.

use super::{CHECK_SHAPE, CHECKED_SHAPE, DpdkOffload, Installed, Port, in_words};
use crate::device_rule::{DeviceRule, checking, leaving};
use crate::strictness::Strictness;
use base::PortNo;
use flow::{
    Action, OffloadId, OffloadRefusal, OffloadRule, OffloadStatus, OffloadTraffic, Refusal,
    TcpWindow, TcpWindows, WindowCheck,
};
use port_dpdk::flow_rule::{
    Commands, ConnectionObject, ConnectionState, FlowDevice, FlowRule, ObjectHandle, RuleHandle,
    TcpDirection,
};
use std::time::Duration;
use wire::protocol::TCP;

/// After this many connections in a row whose last rules the device refused, no more are tried.
const REFUSALS_MAX: u32 = 16;
/// The scale of unscaled windows (rte_flow.h, `struct rte_flow_tcp_dir_param`).
const UNSCALED: u8 = 15;
/// The maximum of three bits, which mlx5 has for each (drivers/common/mlx5/mlx5_prm.h, `struct
/// mlx5_ifc_conn_track_aso_bits`). The switch itself has no limit of retransmissions.
const THREE_BITS: u8 = 7;
/// `RTE_FLOW_CONNTRACK_FLAG_ACK`.
const LAST_WAS_ACK: u8 = 8;

/// The state of connection objects at a port.
#[derive(Debug, Default)]
pub(super) struct PortChecks {
    /// The rules that all its connections share, if there are any.
    leaving: Vec<RuleHandle>,
    /// The number of directions with checked windows.
    directions: usize,
    /// The reason why its device checks no windows.
    refused: Option<OffloadRefusal>,
    /// Connections in a row whose last rules were refused.
    refusals: u32,
}

/// The check of a rule's packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    object: ObjectHandle,
    /// The rule of the first group.
    rule: RuleHandle,
    /// Its packets at the last reading.
    seen: u64,
    /// The rule of the other direction.
    partner: OffloadId,
}

/// Parts of a connection that is being installed.
#[derive(Default)]
struct Unfinished {
    object: Option<ObjectHandle>,
    /// Rules with their ports' numbers, in the order of installation.
    rules: Vec<(RuleHandle, u16)>,
}

impl<D: FlowDevice> DpdkOffload<D> {
    /// See [`flow::FlowOffload::window_check`].
    pub(super) fn checks_of(&self, rule: &OffloadRule) -> WindowCheck {
        let Some(&Action::Output(out)) = rule.actions.last() else { return WindowCheck::Never };
        let ends = [rule.in_port(), out].map(|port| self.ports.get(&port));
        let (TCP, [Some(from), Some(to)]) = (rule.headers.protocol(), ends) else {
            return WindowCheck::Never;
        };
        let refuse = |words: &str| {
            let (kind, words) = (Refusal::Device, Some(words.into()));
            WindowCheck::Refused(OffloadRefusal { kind, words })
        };
        // The API does not describe the effect on a segment inside a tunnel.
        if rule.tunnel.is_some() {
            return refuse("its packets come out of a tunnel");
        }
        if rule.second.is_some() {
            return refuse("its packets are tracked in two zones");
        }
        let refused = [from, to].into_iter().find_map(|port| port.checks.refused.clone());
        refused.map_or(WindowCheck::Possible, WindowCheck::Refused)
    }

    /// See [`flow::FlowOffload::install_checked`].
    pub(super) fn install_pair(
        &mut self,
        rules: [&OffloadRule; 2],
        windows: &TcpWindows,
    ) -> Result<[OffloadId; 2], OffloadRefusal> {
        let mut made = Unfinished::default();
        let answer = self.try_pair(rules, windows, &mut made);
        if answer.is_err() {
            for (rule, port) in made.rules.into_iter().rev() {
                self.destroy(rule, port);
            }
            made.object.into_iter().for_each(|object| self.destroy_object(object));
            self.drop_leaving();
        }
        answer
    }

    /// Returns the state to keep for a port that is reconfigured with a number.
    pub(super) fn keep_checks(&mut self, old: Port, number: u16) -> Option<PortChecks> {
        if old.number == number {
            return Some(old.checks);
        }
        old.checks.leaving.into_iter().for_each(|rule| self.destroy(rule, old.number));
        None
    }

    fn try_pair(
        &mut self,
        rules: [&OffloadRule; 2],
        windows: &TcpWindows,
        made: &mut Unfinished,
    ) -> Result<[OffloadId; 2], OffloadRefusal> {
        let [there, back] = rules.map(|rule| self.device_rule(rule));
        let device_rules = [there?, back?];
        let ports = rules.map(OffloadRule::in_port);
        let [port, peer] = device_rules.each_ref().map(|it| it.in_port);
        for (port, device_rule) in ports.into_iter().zip(&device_rules) {
            self.share_leaving(port, device_rule.in_port)?;
        }
        let state = object_of(windows);
        log::debug!(
            target: "netdev_offload",
            "{state}\nflow indirect_action {port} create transfer action conntrack / end"
        );
        let object = self.device.create_object(port, peer, &state);
        let object = object.map_err(|refused| self.note_refusal(ports[0], in_words(refused)))?;
        made.object = Some(object);
        let mut forwards = Vec::new();
        for (nth, rule) in rules.into_iter().enumerate() {
            if nth == 1 {
                let turned = self.device.turn_object(object);
                turned.map_err(|refused| self.note_refusal(ports[0], in_words(refused)))?;
            }
            let [check, forward] = checking(rule, &device_rules[nth], object)?;
            let handle = self.create_checked(ports[nth], &check, CHECK_SHAPE);
            let handle = handle.map_err(|refusal| match nth {
                0 => self.note_refusal(ports[0], refusal),
                // The other port may belong to another card.
                _ => self.count_refusal(ports[0], refusal),
            })?;
            made.rules.push((handle, device_rules[nth].in_port));
            forwards.push(forward);
        }
        for (nth, forward) in forwards.iter().enumerate() {
            let handle = self.create_checked(ports[nth], forward, CHECKED_SHAPE);
            let handle = handle.map_err(|refusal| self.count_refusal(ports[nth], refusal))?;
            made.rules.push((handle, device_rules[nth].in_port));
        }
        Ok(self.keep_pair(&device_rules, object, &made.rules))
    }

    fn create_checked(
        &mut self,
        port: PortNo,
        rule: &FlowRule,
        shape: usize,
    ) -> Result<RuleHandle, OffloadRefusal> {
        self.create_shape(port, rule, Duration::MAX, (shape, Strictness::without_age()))
    }

    /// Stores the rules of both directions: those of the first group, then those that forward.
    fn keep_pair(
        &mut self,
        device_rules: &[DeviceRule; 2],
        object: ObjectHandle,
        made: &[(RuleHandle, u16)],
    ) -> [OffloadId; 2] {
        let ids = [0, 1].map(|nth| {
            let ((rule, port), (handle, _)) = (made[nth], made[nth + 2]);
            let check = Some(Check { object, rule, seen: 0, partner: OffloadId(0) });
            let read = OffloadTraffic::default();
            self.keep(Installed { handle, port, only_marks: None, read, check })
        });
        for (nth, id) in ids.into_iter().enumerate() {
            if let Some(check) = self.installed(id).and_then(|it| it.check.as_mut()) {
                check.partner = ids[1 - nth];
            }
        }
        for port in self.ports.values_mut() {
            let its = device_rules.iter().filter(|it| it.in_port == port.number).count();
            if its > 0 {
                port.checks.directions += its;
                port.checks.refusals = 0;
            }
        }
        ids
    }

    /// Removes the shared rules of ports without connections.
    fn drop_leaving(&mut self) {
        let mut all = Vec::new();
        for port in self.ports.values_mut().filter(|it| it.checks.directions == 0) {
            all.extend(
                std::mem::take(&mut port.checks.leaving).into_iter().map(|it| (it, port.number)),
            );
        }
        all.into_iter().for_each(|(rule, port)| self.destroy(rule, port));
    }

    /// Installs the rules by which a port receives segments that the rules of its connections do not forward.
    fn share_leaving(&mut self, port: PortNo, number: u16) -> Result<(), OffloadRefusal> {
        let known = self.ports.get_mut(&port).ok_or(Refusal::InPort)?;
        let device = &mut self.device;
        // They are removed when the device is flushed.
        let mut is_there = |rule: &RuleHandle| device.query(*rule).is_some();
        if !known.checks.leaving.is_empty() && known.checks.leaving.iter().all(&mut is_there) {
            return Ok(());
        }
        for rule in std::mem::take(&mut known.checks.leaving) {
            self.destroy(rule, number);
        }
        let mut made = Vec::new();
        for rule in leaving(number) {
            log::debug!(target: "netdev_offload", "{}", Commands(number, &rule));
            match self.device.create(number, &rule) {
                Ok(handle) => made.push(handle),
                Err(refused) => {
                    made.into_iter().for_each(|rule| self.destroy(rule, number));
                    return Err(self.note_refusal(port, in_words(refused)));
                }
            }
        }
        if let Some(known) = self.ports.get_mut(&port) {
            known.checks.leaving = made;
        }
        Ok(())
    }

    /// Records that a port's device checks no windows.
    fn note_refusal(&mut self, port: PortNo, refusal: OffloadRefusal) -> OffloadRefusal {
        if refusal.kind == Refusal::Device
            && let Some(port) = self.ports.get_mut(&port)
        {
            port.checks.refused = Some(refusal.clone());
        }
        refusal
    }

    /// Records that a port's device refused the last rules of a connection, which may be caused by the
    /// connection's flows or by its other port.
    fn count_refusal(&mut self, port: PortNo, refusal: OffloadRefusal) -> OffloadRefusal {
        let Some(known) = self.ports.get_mut(&port) else { return refusal };
        known.checks.refusals += u32::from(refusal.kind == Refusal::Device);
        if known.checks.refusals < REFUSALS_MAX {
            refusal
        } else {
            self.note_refusal(port, refusal)
        }
    }

    /// Reads the object of a rule: whether it still checks, and, if there were packets, the windows.
    pub(super) fn read_check(&mut self, id: OffloadId) -> OffloadStatus {
        let ended = OffloadStatus { is_ended: true, ..OffloadStatus::default() };
        let Some(check) = self.installed(id).and_then(|it| it.check) else { return ended };
        let Some(state) = self.device.query(check.rule) else { return ended };
        if state.packets == check.seen {
            return OffloadStatus::default();
        }
        if let Some(check) = self.installed(id).and_then(|it| it.check.as_mut()) {
            check.seen = state.packets;
        }
        let Some(object) = self.device.query_object(check.object) else { return ended };
        // A device stops checking after an invalid segment.
        let is_ended = !object.enable || object.state != ConnectionState::Established;
        OffloadStatus { is_ended, windows: Some(windows_of(&object)), ..OffloadStatus::default() }
    }

    /// Sets whether segments outside the windows of a connection are valid.
    pub(super) fn set_liberal(&mut self, id: OffloadId, is_liberal: bool) -> Option<()> {
        let object = self.installed(id)?.check?.object;
        let state = self.device.query_object(object)?;
        let state = ConnectionObject { liberal_mode: is_liberal, ..state };
        self.device.update_object(object, &state).ok()
    }

    /// See [`flow::FlowOffload::end_checked`]. The rules that forward then get no packets, and stay until
    /// they are removed.
    pub(super) fn end_pair(&mut self, id: OffloadId) -> Option<TcpWindows> {
        let check = self.installed(id)?.check?;
        for id in [id, check.partner] {
            let Some(installed) = self.installed(id) else { continue };
            let port = installed.port;
            if let Some(check) = installed.check.take() {
                self.destroy(check.rule, port);
            }
            let mut ports = self.ports.values_mut();
            if let Some(known) = ports.find(|it| it.number == port && it.checks.directions > 0) {
                known.checks.directions -= 1;
            }
        }
        let state = self.device.query_object(check.object);
        self.destroy_object(check.object);
        self.drop_leaving();
        state.as_ref().map(windows_of)
    }

    fn destroy_object(&mut self, object: ObjectHandle) {
        if let Err(words) = self.device.destroy_object(object) {
            log::error!(
                target: "netdev_offload",
                "DPDK: cannot remove a connection object: {words}; it stays until its port is closed"
            );
        }
    }
}

/// Makes an object with these windows.
fn object_of(windows: &TcpWindows) -> ConnectionObject {
    let TcpWindows { original, reply, is_checked } = windows;
    // An acknowledgement allowed the other side to send up to its limit, with a window of at most the largest
    // one.
    let max_ack =
        |own: &TcpWindow, other: &TcpWindow| other.allowed_end.wrapping_sub(own.max_window);
    let direction = |own: &TcpWindow, other: &TcpWindow| TcpDirection {
        scale: own.scale.unwrap_or(UNSCALED),
        close_initiated: false,
        last_ack_seen: true,
        data_unacked: max_ack(other, own) != own.sent_end,
        sent_end: own.sent_end,
        reply_end: own.allowed_end,
        max_win: own.max_window,
        max_ack: max_ack(own, other),
    };
    let scales = [original.scale, reply.scale].map(Option::unwrap_or_default);
    let last_window = original.max_window >> original.scale.unwrap_or(0);
    ConnectionObject {
        enable: true,
        live_connection: true,
        // Selective acknowledgements change no window.
        selective_ack: true,
        challenge_ack_passed: false,
        last_direction: true,
        liberal_mode: !is_checked,
        state: ConnectionState::Established,
        max_ack_window: scales[0].max(scales[1]).min(THREE_BITS),
        retransmission_limit: THREE_BITS,
        original: direction(original, reply),
        reply: direction(reply, original),
        last_window: u16::try_from(last_window).unwrap_or(u16::MAX),
        last_index: LAST_WAS_ACK,
        last_seq: original.sent_end,
        last_ack: max_ack(original, reply),
        last_end: original.sent_end,
    }
}

/// Returns the windows of an object.
fn windows_of(object: &ConnectionObject) -> TcpWindows {
    let window = |from: &TcpDirection| TcpWindow {
        sent_end: from.sent_end,
        allowed_end: from.reply_end,
        max_window: from.max_win,
        scale: Some(from.scale).filter(|scale| *scale != UNSCALED),
    };
    let (original, reply) = (window(&object.original), window(&object.reply));
    TcpWindows { original, reply, is_checked: !object.liberal_mode }
}
