//! Handling of one message.

use super::check;
use super::jobs::{Job, Kind};
use super::session::{MISS_SEND_LEN, Session};
use super::settings::ConnectionKind;
use super::statistics::VISIBLE_TABLES;
use super::status::CloseReason;
use super::{Connections, Switch, queues};
use crate::change::Change;
use base::Zone;
use openflow::message::{CtFlush, Message, Version};
use openflow::{ErrorCode, Header, OfError, decode};

/// NXFF_OPENFLOW10 and NXFF_NXM: Nicira's numbers of flow formats.
const FORMAT_OPENFLOW10: u32 = 0;
const FORMAT_NXM: u32 = 2;

impl Connections {
    /// Handles one complete message.
    pub(super) fn handle(
        &mut self,
        session: &mut Session,
        bytes: Vec<u8>,
        switch: &mut Switch<'_>,
    ) {
        let Some(header) = Header::read(&bytes) else { return };
        let Some(version) = session.version() else {
            greet(session, header, &bytes);
            return;
        };
        if session.settings.kind == ConnectionKind::Snoop {
            return;
        }
        switch.core.set_request(header.xid);
        let done = decode(version, &bytes, &session.decode_options())
            .and_then(|(xid, message)| self.answer(session, xid, message, &bytes, switch));
        match done {
            Ok(Done::Begun(kind)) => {
                self.begin(session.id, Job { xid: header.xid, request: bytes, kind });
            }
            Ok(Done::Answered(answer)) => session.answer(header.xid, &bytes, Ok(answer), switch),
            Err(error) => session.answer(header.xid, &bytes, Err(error), switch),
        }
    }

    /// Carries out a message and returns the reply, if it has one.
    fn answer(
        &mut self,
        session: &mut Session,
        xid: u32,
        message: Message,
        bytes: &[u8],
        switch: &mut Switch<'_>,
    ) -> Result<Done, OfError> {
        let reply = match message {
            Message::EchoRequest(data) => Message::EchoReply(data),
            Message::FeaturesRequest => features(session, switch),
            Message::GetConfigRequest => session.get_config(switch),
            Message::SetConfig { flags, miss_send_len } => {
                session.set_config(flags, miss_send_len, switch)?;
                return Ok(Done::WITHOUT_REPLY);
            }
            Message::BarrierRequest => return Ok(Done::Answered(session.barrier(xid, switch))),
            Message::QueueConfigRequest { port } => queues::config(port, session.bridge, switch)?,
            Message::StatsRequest(request) => {
                return self.statistics(session, xid, request, switch);
            }
            Message::RoleRequest { role, generation } => {
                self.change_role(session, role, generation)?
            }
            Message::BundleControl { bundle, control, flags } => {
                return session.bundle_control(bundle, control, flags, bytes, switch);
            }
            Message::BundleAdd { bundle, flags, xid: inner, message, .. } => {
                let others = self.sessions.values();
                session.bundles.others_bytes = others.map(|other| other.bundles.bytes()).sum();
                session.bundle_add(bundle, flags, (xid, inner), &message, bytes, switch)?;
                return Ok(Done::WITHOUT_REPLY);
            }
            Message::TlvTableRequest => {
                let bridge = switch.core.bridges().get(session.bridge);
                bridge.ok_or_else(|| crate::flow_mod::no_bridge(session.bridge))?.tlv_table()
            }
            Message::GetAsyncRequest => session.told_async(),
            Message::GroupMod(_) | Message::MeterMod(_) => {
                return self.change_and_forward(session, xid, message, switch);
            }
            Message::FlowMod(_)
            | Message::TlvTableMod { .. }
            | Message::PacketOut(_)
            | Message::PortMod { .. }
            | Message::Resume(_)
            | Message::TableMod(_) => {
                return Ok(Done::of(session.change_switch(message, switch)?));
            }
            Message::FlowMonitorCancel(id) => {
                self.cancel_monitor(session, id, switch.core)?;
                return Ok(Done::WITHOUT_REPLY);
            }
            Message::CtFlushZone(zone) => {
                switch.out.conntrack_flush.push(Zone(zone));
                return Ok(Done::WITHOUT_REPLY);
            }
            Message::CtFlush(flush) => {
                session.flush_connections(*flush, switch);
                return Ok(Done::WITHOUT_REPLY);
            }
            other => {
                session.set_up(other)?;
                return Ok(Done::WITHOUT_REPLY);
            }
        };
        Ok(Done::Answered(Some(reply)))
    }

    /// Changes groups or meters, and forwards the request to other controllers.
    fn change_and_forward(
        &mut self,
        session: &Session,
        xid: u32,
        message: Message,
        switch: &mut Switch<'_>,
    ) -> Result<Done, OfError> {
        let change = session.change_switch(message.clone(), switch)?;
        let others = self.sessions.values_mut();
        others.for_each(|other| other.forward(session.bridge, xid, &message));
        Ok(Done::of(change))
    }
}

/// What became of a request.
#[expect(clippy::large_enum_variant, reason = "it is returned and taken apart at once")]
pub(super) enum Done {
    /// It is done, with this reply, if it has one.
    Answered(Option<Message>),
    /// It may last.
    Begun(Kind),
}

impl Done {
    const WITHOUT_REPLY: Done = Done::Answered(None);

    fn of(change: Option<Change>) -> Done {
        change.map_or(Done::WITHOUT_REPLY, |change| Done::Begun(Kind::Change(Box::new(change))))
    }
}

impl Session {
    /// Answers a request: with a reply if it has one, or with an error.
    pub fn answer(
        &mut self,
        xid: u32,
        request: &[u8],
        answer: Result<Option<Message>, OfError>,
        switch: &Switch<'_>,
    ) {
        match (answer, Header::read(request)) {
            (Ok(Some(reply @ Message::EchoReply(_))), Some(header)) => {
                self.reply_to(header, &reply)
            }
            (Ok(Some(reply)), _) => self.reply(xid, &reply),
            (Ok(None), _) => {}
            (Err(error), _) => {
                let name = switch.core.bridge(self.bridge).map_or("", |it| &it.config.name);
                let id = self.id.0;
                log::info!(target: "connmgr", "{name}<->#{id}: sending error reply: {error}");
                self.refuse(request, &error);
            }
        }
    }

    /// The reply with the wanted asynchronous messages.
    fn told_async(&self) -> Message {
        Message::GetAsyncReply(self.async_config.told(self.version().unwrap_or(Version::V13)))
    }

    /// Requests that a secondary controller may not make.
    fn change_switch(
        &self,
        message: Message,
        switch: &mut Switch<'_>,
    ) -> Result<Option<Change>, OfError> {
        self.may_change()?;
        let bridge = self.bridge;
        match message {
            Message::FlowMod(flow_mod) => {
                check::flow_mod(&flow_mod, self.version())?;
                return switch.core.begin_flow_mod(bridge, &flow_mod, switch.now);
            }
            Message::PacketOut(packet) => {
                check::packet_out(&packet, self.version())?;
                switch.core.packet_out(bridge, &packet, switch.now, switch.out)?;
            }
            Message::PortMod { port, mac, config, mask } => {
                switch.core.port_mod(bridge, port, mac, config, mask, switch.out)?;
            }
            Message::Resume(packet) => switch.core.resume(&packet, switch.now, switch.out)?,
            Message::GroupMod(group_mod) => {
                check::group_mod(&group_mod)?;
                return switch.core.begin_group_mod(bridge, &group_mod, switch.now);
            }
            Message::MeterMod(meter_mod) => {
                return switch.core.begin_meter_mod(bridge, &meter_mod, switch.now);
            }
            Message::TlvTableMod { command, maps } => {
                switch.core.tlv_table_mod(bridge, command, &maps)?;
            }
            Message::TableMod(table_mod) => switch.core.table_mod(bridge, &table_mod)?,
            _ => {}
        }
        Ok(None)
    }

    /// Flushes connections: a whole zone at once, others on a thread beside the control thread.
    fn flush_connections(&mut self, flush: CtFlush, switch: &mut Switch<'_>) {
        let only_zone = CtFlush { zone: flush.zone, ..CtFlush::default() };
        match flush.zone {
            Some(zone) if flush == only_zone => switch.out.conntrack_flush.push(zone),
            _ => {
                self.is_flushing = true;
                switch.out.conntrack_flush_tuples.push((self.id, flush));
            }
        }
    }

    /// Messages that change only the session.
    fn set_up(&mut self, message: Message) -> Result<(), OfError> {
        match message {
            Message::SetAsync(masks) => {
                let version = self.version().unwrap_or(Version::V10);
                self.async_config = self.async_config.asked(version, &masks);
                if self.settings.kind == ConnectionKind::Service && self.miss_send_len == 0 {
                    self.miss_send_len = MISS_SEND_LEN;
                }
            }
            Message::SetFlowFormat(format @ (FORMAT_OPENFLOW10 | FORMAT_NXM)) => {
                self.nicira = format == FORMAT_NXM;
            }
            Message::SetFlowFormat(format) => {
                let reason = format!("flow format {format} is unknown");
                return Err(OfError::new(ErrorCode::RequestEperm, reason));
            }
            Message::FlowModTableId(on) => self.flow_mod_table_id = on,
            Message::SetPacketInFormat(format) => self.packet_in_format = format,
            Message::SetControllerId(id) => self.controller_id = id,
            // An echo reply has done its work by arriving. Answering an error with an error could go on
            // forever.
            Message::EchoReply(_) => {}
            Message::Error { code, .. } => {
                log::info!(target: "connmgr", "connection {}: the peer reports {code:?}", self.id.0);
            }
            _ => {
                let reason = "a switch is not sent messages of this type";
                return Err(OfError::new(ErrorCode::BadType, reason));
            }
        }
        Ok(())
    }
}

/// The peer's first message: agrees on a version, or closes (OpenFlow 1.3.5 section 6.3.1).
fn greet(session: &mut Session, header: Header, bytes: &[u8]) {
    let hello = decode(Version::V10, bytes, &session.decode_options());
    let Ok((_, Message::Hello { versions: theirs })) = hello else {
        session.close(CloseReason::NoHello(header.message_type));
        return;
    };
    let ours = session.settings.versions;
    let common = |version: &Version| ours & theirs & (1 << *version as u8) != 0;
    if let Some(version) = Version::ALL.into_iter().filter(common).max() {
        session.agree(version);
        return;
    }
    let reason = CloseReason::NoCommonVersion { ours, theirs };
    let error = Message::Error {
        code: ErrorCode::HelloIncompatible,
        data: reason.to_string().into_bytes(),
    };
    // In the peer's highest version, so that it can decode it.
    let highest = theirs.checked_ilog2().unwrap_or(0).clamp(1, Version::V15 as u32) as u8;
    session.reply_to(Header { version: highest, ..header }, &error);
    session.close(reason);
}

fn features(session: &Session, switch: &Switch<'_>) -> Message {
    let bridge = switch.core.bridge(session.bridge);
    Message::FeaturesReply {
        datapath_id: bridge.map(|bridge| bridge.config.datapath_id).unwrap_or_default(),
        buffers: 0,
        tables: VISIBLE_TABLES,
        auxiliary_id: 0,
        ports: bridge.map(|bridge| bridge.describe_ports()).unwrap_or_default(),
    }
}
