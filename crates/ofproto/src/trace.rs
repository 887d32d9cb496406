//! `ofproto/trace`: follows one packet through the tables (ovs: `ofproto/ofproto-dpif-trace.c`).

mod side_effects;

use crate::bridge::Bridge;
use crate::effect::Effect;
use crate::ids::BridgeId;
use crate::port::NO_DEVICE;
use crate::text::{self, PortNames};
use crate::translate::{
    Entry, Fork, Keys, Memory, Note, NoteKind, Notes, Sent, Translation, World, fix_tpid,
    translate_from, translate_sent,
};
use crate::{Ofproto, Outbox};
use base::{Instant, OfPort, PortNo, RecircId, WorkerId};
use flow::{
    Action, CtState, DropReason, Field, FlowCommand, FlowKey, FlowStats, Match, NatKind, NatRange,
    Protocol, VLAN_PRESENT,
};
use openflow::Action as OfAction;
use std::fmt::Write;
use std::net::IpAddr;
use wire::ethertype;

/// A trace request.
#[derive(Clone, Debug)]
pub struct TraceRequest {
    /// The bridge that the packet enters.
    pub bridge: BridgeId,
    /// The packet, with the bridge's in-port.
    pub key: FlowKey,
    /// Actions to execute instead of a table lookup, as for a packet-out.
    pub actions: Option<Vec<OfAction>>,
    /// An actual packet: addresses are learned from it, and it goes to controllers and connection tracking. No port
    /// sends or counts it.
    pub packet: Option<Vec<u8>>,
    /// The assumed connection states of the `ct` actions in order; after the last, `new|trk`.
    pub ct_next: Vec<CtState>,
    /// Print ports by name.
    pub names: bool,
    /// Linux's priority of the packet (`skb_priority`). It is printed and matched by no flow.
    pub skb_priority: u32,
}

impl TraceRequest {
    /// A trace of this packet with the defaults.
    pub fn new(bridge: BridgeId, key: FlowKey) -> Self {
        let (actions, packet, ct_next) = (None, None, Vec::new());
        let (names, skb_priority) = (false, 0);
        TraceRequest { bridge, key, actions, packet, ct_next, names, skb_priority }
    }
}

/// Maximum number of passes: tables that recirculate a packet forever would not end.
const MAX_PASSES: usize = 64;

impl Ofproto {
    /// Whether this recirculation id refers to a frozen state.
    pub fn is_frozen(&self, id: RecircId) -> bool {
        self.recirc.get(id).is_some()
    }

    /// Follows a packet through the tables, and each of its recirculated copies. A worker carries out what an actual
    /// packet causes beside its output.
    pub fn trace(&mut self, now: Instant, request: &TraceRequest, to: &mut Outbox) -> String {
        let mut out = String::new();
        let mut key = request.key.clone();
        // Users name a VLAN and omit the tag's Ethernet type.
        fix_tpid(&mut key);
        let mut queue = self.trace_pass(now, request, key, (&mut out, &mut *to));
        let mut ct_next = request.ct_next.iter();
        let mut passes = 1;
        while !queue.is_empty() && passes < MAX_PASSES {
            let mut fork = queue.remove(0);
            begin_pass(&mut fork, ct_next.next().copied(), &mut out);
            queue.extend(self.trace_pass(now, request, fork.key, (&mut out, &mut *to)));
            passes += 1;
        }
        out
    }

    /// Traces one pass. Returns the copies that recirculate.
    fn trace_pass(
        &mut self,
        now: Instant,
        request: &TraceRequest,
        key: FlowKey,
        (out, to): (&mut String, &mut Outbox),
    ) -> Vec<Fork> {
        let translation = self.trace_translate(now, request, &key);
        let in_bridge =
            |port: OfPort| Some(self.bridges.get(request.bridge)?.port(port)?.spec.name.clone());
        let in_datapath = |port: PortNo| self.device_name(port).map(str::to_owned);
        let options = self.bridges.get(request.bridge).map_or(&[][..], Bridge::tunnel_options);
        let names = match request.names {
            true => PortNames { device: Some(&in_datapath), bridge: Some(&in_bridge), options },
            false => PortNames { options, ..PortNames::default() },
        };
        let shown =
            |key: &FlowKey| with_skb_priority(text::format_key(key, names), request.skb_priority);
        // Where the bridge's table does not go with the packet's options, the translation says so.
        let mut told_key = key.clone();
        let _ = told_key.map_options(options);
        let key = told_key;
        let _ = writeln!(out, "Flow: {}", shown(&key));
        write_notes(out, &translation.notes, 0);
        let mut last = translation.final_key.as_deref().unwrap_or(&key).clone();
        last.set(Field::ActsetOutput, key.get(Field::ActsetOutput));
        let last = if last == key { "unchanged".into() } else { shown(&last) };
        let _ = writeln!(out, "\nFinal flow: {last}");
        let mut mask = translation.told_mask.unwrap_or(translation.mask);
        // The presence of a second tag is not printed (ovs: `xlate_wc_finish`).
        if mask.get(Field::VlanTci1) == VLAN_PRESENT.into() {
            mask.set(Field::VlanTci1, 0);
        }
        let megaflow = Match::new(&key, &mask);
        let _ = writeln!(out, "Megaflow: {}", text::format_match(&megaflow, names));
        // Open vSwitch shows the actions without the slow path.
        let is_shown = |action: &&Action| !matches!(action, Action::Protocol(_));
        let actions: Vec<Action> = translation.actions.iter().filter(is_shown).cloned().collect();
        let mut actions = text::format_actions(&actions, &key, names);
        if request.packet.is_none() {
            // Without an actual packet, controllers receive nothing (ovs: `ofproto/ofproto-dpif-xlate.c`,
            // `xlate_controller_action`).
            actions = actions.replace("dont_send=0,continuation=0", "dont_send=1,continuation=0");
        }
        let _ = write!(out, "Datapath actions: {actions}");
        if let Some(error) = translation.error {
            let _ = write!(out, "\nTranslation failed ({}), packet is dropped.\n", failure(error));
        }
        let by_action = translation.is_slow.then_some("Uses action(s) not supported by datapath.");
        let reasons = [translation.protocol.map(Protocol::explanation), by_action];
        if translation.error.is_none() && reasons.iter().any(Option::is_some) {
            out.push_str("\nThis flow is handled by the userspace slow path because it:");
            for reason in reasons.into_iter().flatten() {
                let _ = write!(out, "\n  - {reason}");
            }
        }
        if let Some(bytes) = &request.packet {
            self.learn_from(&translation.links.effects, now);
            let device = self.source_of(request.bridge, &key);
            let execute = side_effects::of(bytes, &key, device, &translation.actions);
            let execute = execute.filter(|_| translation.error.is_none());
            to.commands.extend(execute.map(|it| (WorkerId(0), FlowCommand::Execute(it))));
        }
        translation.forks
    }

    /// The datapath's number of the port from which a traced packet comes.
    fn source_of(&self, bridge: BridgeId, key: &FlowKey) -> PortNo {
        let port =
            self.bridges.get(bridge).and_then(|it| it.port(OfPort(key.in_port_raw() as u16)));
        port.and_then(|port| port.source()).unwrap_or(NO_DEVICE)
    }

    /// Applies learned addresses and flows; flows, tables and patch ports do not count the packet (ovs:
    /// `ofproto/ofproto-dpif-trace.c`, `ofproto_trace__`, sets no `resubmit_stats`).
    fn learn_from(&mut self, effects: &[Effect], now: Instant) {
        let is_learning =
            |effect: &&Effect| matches!(effect, Effect::Learn { .. } | Effect::LearnFlow { .. });
        for effect in effects.iter().filter(is_learning) {
            self.apply(effect, &FlowStats::default(), now);
        }
    }

    fn trace_translate(
        &mut self,
        now: Instant,
        request: &TraceRequest,
        key: &FlowKey,
    ) -> Translation {
        let notes = Notes::On { names: request.names, learns: request.packet.is_some() };
        let in_port = OfPort(key.in_port_raw() as u16);
        let bridge = self.bridges.get(request.bridge);
        let device = self.source_of(request.bridge, key);
        let packet_len = request.packet.as_ref().map(Vec::len);
        let world = World { packet_len, ..self.world(now) };
        match &request.actions {
            Some(actions) if key.recirc_id() == RecircId(0) => {
                let mut pipeline = key.clone();
                let _ = pipeline.map_options(bridge.map_or(&[][..], Bridge::tunnel_options));
                let sent = Sent { bridge: request.bridge, actions, pipeline: &pipeline };
                translate_sent(world, key, &sent, notes)
            }
            _ => {
                let entry = Entry { bridge: request.bridge, in_port, device };
                translate_from(world, key, entry, notes, Memory::default(), &mut Keys::default())
            }
        }
    }
}

/// A flow's text with `skb_priority`, where Open vSwitch prints it.
fn with_skb_priority(flow: String, priority: u32) -> String {
    if priority == 0 {
        return flow;
    }
    let before = ["pkt_mark=", "recirc_id=", "dp_hash=", "conj_id="];
    let is_before = |part: &&str| before.iter().any(|name| part.starts_with(name));
    let (first, rest): (Vec<&str>, Vec<&str>) = flow.split(',').partition(is_before);
    let own = format!("skb_priority={priority:#x}");
    [&first[..], &[&own], &rest[..]].concat().join(",")
}

/// Prints the assumptions about a recirculated copy, and applies them to its key.
fn begin_pass(fork: &mut Fork, ct_next: Option<CtState>, out: &mut String) {
    let line = "=".repeat(79);
    let _ = write!(out, "\n\n{line}\nrecirc({:#x})", fork.id.0);
    let state = match ct_next {
        Some(state) => {
            let _ = write!(out, " - resume conntrack with ct_state={state}");
            state
        }
        None => {
            out.push_str(
                " - resume conntrack with default ct_state=trk|new (use --ct-next to customize)",
            );
            CtState::TRK | CtState::NEW
        }
    };
    fork.key.set_ct_state(state);
    out.push('\n');
    if let Some(nat) = fork.nat.take() {
        out.push_str("Replacing src/dst IP/ports to simulate NAT:\n");
        // The result of NAT without a range is unknown here.
        let range = nat.filter(|range| range.addresses.is_some());
        let shown = |key: &FlowKey| range.as_ref().map_or(String::new(), |_| addresses(key));
        let _ = writeln!(out, " Initial flow: {}", shown(&fork.key));
        if let Some(range) = &range {
            rewrite_addresses(&mut fork.key, range);
        }
        let _ = writeln!(out, " Modified flow: {}", shown(&fork.key));
    }
    let _ = write!(out, "{line}\n\n");
}

/// Takes the first address and port that NAT may choose.
fn rewrite_addresses(key: &mut FlowKey, nat: &NatRange) {
    let (v4, v6, port) = match nat.kind {
        NatKind::Src => (Field::Ipv4Src, Field::Ipv6Src, Field::TpSrc),
        NatKind::Dst => (Field::Ipv4Dst, Field::Ipv6Dst, Field::TpDst),
    };
    match nat.addresses {
        Some((IpAddr::V4(first), _)) => key.set(v4, u32::from(first).into()),
        Some((IpAddr::V6(first), _)) => key.set(v6, first.into()),
        None => {}
    }
    if let Some((first, _)) = nat.ports {
        key.set(port, first.into());
    }
}

fn addresses(key: &FlowKey) -> String {
    let (src, dst) = (key.tp_src(), key.tp_dst());
    if key.eth_type() == ethertype::IPV6 {
        let (from, to) = (key.ipv6_src(), key.ipv6_dst());
        format!("ipv6_src={from},tp_src={src},ipv6_dst={to},tp_dst={dst}")
    } else {
        let (from, to) = (key.ipv4_src(), key.ipv4_dst());
        format!("nw_src={from},tp_src={src},nw_dst={to},tp_dst={dst}")
    }
}

/// Prints notes; nested ones are indented.
pub(crate) fn write_notes(out: &mut String, notes: &[Note], level: usize) {
    for (i, note) in notes.iter().enumerate() {
        if note.kind == NoteKind::Bridge {
            out.push('\n');
        }
        let is_heading = matches!(note.kind, NoteKind::Bridge | NoteKind::Table | NoteKind::Thaw);
        // The last note of a list is not indented, so that chains of tables stay readable.
        let more = usize::from(i + 1 < notes.len() || !is_heading);
        let indent = " ".repeat((level + more) * 4);
        let text = &note.text;
        let _ = match note.kind {
            NoteKind::Bridge => {
                writeln!(out, "{indent}{text}\n{indent}{}", "-".repeat(text.len()))
            }
            NoteKind::Table | NoteKind::Bucket | NoteKind::Thaw | NoteKind::Action => {
                writeln!(out, "{indent}{text}")
            }
            NoteKind::Detail => writeln!(out, "{indent} -> {text}"),
            NoteKind::Warning => writeln!(out, "{indent} >> {text}"),
            NoteKind::Error => writeln!(out, "{indent} >>>> {text} <<<<"),
        };
        write_notes(out, &note.below, level + more + more);
    }
}

/// Why a translation stopped, in Open vSwitch's words (ovs: `ofproto/ofproto-dpif-xlate.c`,
/// `xlate_strerror`).
pub(crate) fn failure(reason: DropReason) -> &'static str {
    match reason {
        DropReason::ResubmitDepth => "Recursion too deep",
        DropReason::Resubmits => "Too many resubmits",
        DropReason::StackDepth => "Stack too deep",
        DropReason::NoBridge => "Bridge not found",
        DropReason::RecircUnknown => "No recirculation context",
        DropReason::MplsLabels => "Too many MPLS labels",
        DropReason::PacketType => "Unsupported packet type",
        DropReason::TunnelOption => "Invalid tunnel metadata",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests;
