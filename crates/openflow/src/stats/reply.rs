//! Replies, which may be split into several messages.

use super::{Kind, flow, flow_monitor, group, kind, port, table, table_features};
use crate::bytes::all;
use crate::bytes::{Input, Output};
use crate::error::OfError;
use crate::header::{Xid, finish};
use crate::message::StatsReply;
use crate::oxs;
use crate::version::Version;
use crate::{meter_mod, queue, table_mod};

/// OFPSF_REPLY_MORE
const MORE: u8 = 1;
/// Lengths of the description's five texts.
const DESC: [usize; 5] = [256, 256, 256, 32, 256];
/// Offset of the flags' low byte in a message.
const FLAGS_AT: usize = 11;

/// Returns whether another part follows this statistics reply (whole message).
pub fn has_more(bytes: &[u8]) -> bool {
    bytes.get(FLAGS_AT).is_some_and(|flags| flags & MORE != 0)
}

/// Says in the last of these encoded messages of a reply that others follow.
pub fn set_more(mut messages: &mut [u8]) {
    loop {
        let length = match messages {
            [_, _, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])),
            _ => return,
        };
        if length < FLAGS_AT || length >= messages.len() {
            break;
        }
        messages = &mut messages[length..];
    }
    if let Some(flags) = messages.get_mut(FLAGS_AT) {
        *flags |= MORE;
    }
}

/// Reads one message of a reply.
pub(crate) fn take_reply(input: &mut Input<'_>, version: Version) -> Result<StatsReply, OfError> {
    let (kind, _) = Kind::take(input, version)?;
    if let (Kind::Nicira(subtype @ (0 | 1)), Version::V10) = (kind, version) {
        return match subtype {
            0 => {
                all(input, flow::take_nicira).map(|flows| StatsReply::Flow { flows, nicira: true })
            }
            _ => take_aggregate(input, version, true),
        };
    }
    let Some(standard) = kind.standard(version) else { return Err(kind.unknown()) };
    Ok(match standard {
        kind::DESC => {
            let mut texts: [String; 5] = Default::default();
            for (text, len) in texts.iter_mut().zip(DESC) {
                *text = input.text(len)?;
            }
            StatsReply::Desc(texts)
        }
        kind::FLOW => {
            let flows = all(input, |input| flow::take(input, version))?;
            StatsReply::Flow { flows, nicira: false }
        }
        kind::AGGREGATE => take_aggregate(input, version, false)?,
        kind::TABLE => StatsReply::Table(all(input, |input| table::take(input, version))?),
        kind::PORT => StatsReply::Port(all(input, |input| port::take(input, version))?),
        kind::PORT_DESC => {
            StatsReply::PortDesc(all(input, |input| crate::port::take_desc(input, version))?)
        }
        kind::GROUP => StatsReply::GroupStats(all(input, |it| group::take_stats(it, version))?),
        kind::GROUP_DESC => StatsReply::GroupDesc(all(input, |it| group::take_desc(it, version))?),
        kind::METER => StatsReply::MeterStats(all(input, meter_mod::take_stats)?),
        kind::METER_CONFIG => StatsReply::MeterConfig(all(input, meter_mod::take_desc)?),
        kind::TABLE_FEATURES => StatsReply::TableFeatures(all(input, table_features::take)?),
        kind::TABLE_DESC => StatsReply::TableDesc(all(input, table_mod::take_desc)?),
        kind::QUEUE => StatsReply::Queue(all(input, |it| queue::take_stats(it, version))?),
        kind::QUEUE_DESC => StatsReply::QueueDesc(all(input, |it| queue::take_desc(it, version))?),
        kind::FLOW_MONITOR => {
            StatsReply::FlowMonitor(all(input, |input| flow_monitor::take_update(input, version))?)
        }
        other => {
            // This switch's features are fixed; a peer's are ignored.
            input.take(input.len())?;
            match other {
                kind::GROUP_FEATURES => StatsReply::GroupFeatures,
                kind::METER_FEATURES => StatsReply::MeterFeatures,
                _ => return Err(kind.unknown()),
            }
        }
    })
}

fn take_aggregate(
    input: &mut Input<'_>,
    version: Version,
    nicira: bool,
) -> Result<StatsReply, OfError> {
    if version == Version::V15 {
        let sums = oxs::take(input)?;
        let (packets, bytes, flows) = (sums.packets, sums.bytes, sums.flows);
        return Ok(StatsReply::Aggregate { packets, bytes, flows, nicira });
    }
    let (packets, bytes, flows) = (input.u64()?, input.u64()?, input.u32()?);
    input.skip(4)?;
    Ok(StatsReply::Aggregate { packets, bytes, flows, nicira })
}

/// Collects entries into messages of less than 64 KB.
struct Parts {
    version: Version,
    xid: Xid,
    kind: Kind,
    done: Vec<Vec<u8>>,
    open: Vec<u8>,
    entry: Vec<u8>,
    /// Entries that fit into no message.
    left_out: usize,
}

impl Parts {
    fn new(version: Version, xid: Xid, kind: Kind) -> Self {
        let (done, open, entry) = (Vec::new(), Vec::new(), Vec::new());
        let mut parts = Parts { version, xid, kind, done, open, entry, left_out: 0 };
        parts.open = parts.start();
        parts
    }

    fn start(&self) -> Vec<u8> {
        let mut out = vec![self.version as u8, 0, 0, 0];
        out.put_u32(self.xid);
        self.kind.put(&mut out, self.version);
        out
    }

    fn message_type(&self) -> u8 {
        if self.version == Version::V10 { 17 } else { 19 }
    }

    /// Adds one entry, which is never split. An entry too large for any message is dropped.
    fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.entry.clear();
        write(&mut self.entry);
        if self.start().len() + self.entry.len() > usize::from(u16::MAX) {
            self.left_out += 1;
            return;
        }
        if self.open.len() + self.entry.len() > usize::from(u16::MAX) {
            let next = self.start();
            let mut full = std::mem::replace(&mut self.open, next);
            if let Some(flags) = full.get_mut(FLAGS_AT) {
                *flags |= MORE;
            }
            finish(&mut full, self.message_type());
            self.done.push(full);
        }
        self.open.put(&self.entry);
    }

    fn finish(mut self) -> Vec<Vec<u8>> {
        let message_type = self.message_type();
        finish(&mut self.open, message_type);
        self.done.push(self.open);
        self.done
    }
}

/// Returns the type of a reply.
fn kind_of(reply: &StatsReply, version: Version) -> Kind {
    let nicira_kind = |standard: u16, nicira: bool| match (nicira, version) {
        (true, Version::V10) => Kind::Nicira(u32::from(standard - kind::FLOW)),
        _ => Kind::Standard(standard),
    };
    let standard = match reply {
        StatsReply::Flow { nicira, .. } => return nicira_kind(kind::FLOW, *nicira),
        StatsReply::Aggregate { nicira, .. } => return nicira_kind(kind::AGGREGATE, *nicira),
        StatsReply::Desc(_) => kind::DESC,
        StatsReply::Table(_) => kind::TABLE,
        StatsReply::Port(_) => kind::PORT,
        StatsReply::PortDesc(_) => kind::PORT_DESC,
        StatsReply::TableFeatures(_) => kind::TABLE_FEATURES,
        StatsReply::TableDesc(_) => kind::TABLE_DESC,
        StatsReply::GroupFeatures => kind::GROUP_FEATURES,
        StatsReply::GroupDesc(_) => kind::GROUP_DESC,
        StatsReply::GroupStats(_) => kind::GROUP,
        StatsReply::MeterFeatures => kind::METER_FEATURES,
        StatsReply::MeterConfig(_) => kind::METER_CONFIG,
        StatsReply::MeterStats(_) => kind::METER,
        StatsReply::Queue(_) => kind::QUEUE,
        StatsReply::QueueDesc(_) => kind::QUEUE_DESC,
        StatsReply::FlowMonitor(_) => kind::FLOW_MONITOR,
    };
    Kind::of(standard, version)
}

/// Writes a reply as one or more messages.
pub(crate) fn put_reply(version: Version, xid: Xid, reply: &StatsReply) -> Vec<Vec<u8>> {
    if let StatsReply::FlowMonitor(updates) = reply
        && let Some(message) = flow_monitor::put_pause(version, xid, updates)
    {
        return vec![message];
    }
    let mut out = Parts::new(version, xid, kind_of(reply, version));
    match reply {
        StatsReply::Desc(texts) => out.add(|out| {
            for (text, len) in texts.iter().zip(DESC) {
                out.put_text(text, len);
            }
        }),
        StatsReply::Flow { flows, nicira } => {
            for entry in flows {
                out.add(|out| flow::put(out, version, entry, *nicira));
            }
            if out.left_out > 0 {
                log::warn!(
                    target: "ofp_flow",
                    "Flow exceeded the maximum flow statistics reply size and was excluded from \
                     the response set"
                );
            }
        }
        StatsReply::Aggregate { packets, bytes, flows, .. } => out.add(|out| match version {
            Version::V15 => oxs::put_aggregate(out, *packets, *bytes, *flows),
            _ => {
                out.put_u64(*packets);
                out.put_u64(*bytes);
                out.put_u32(*flows);
                out.put_zeros(4);
            }
        }),
        StatsReply::Table(tables) => {
            tables.iter().for_each(|entry| out.add(|out| table::put(out, version, entry)));
        }
        StatsReply::TableDesc(tables) => {
            tables.iter().for_each(|entry| out.add(|out| table_mod::put_desc(out, entry)));
        }
        StatsReply::TableFeatures(tables) => {
            let all: Vec<u8> = tables.iter().map(|entry| entry.table.0).collect();
            for entry in tables {
                out.add(|out| table_features::put(out, version, entry, &all));
            }
        }
        StatsReply::Port(ports) => {
            ports.iter().for_each(|entry| out.add(|out| port::put(out, version, entry)));
        }
        StatsReply::PortDesc(ports) => {
            ports.iter().for_each(|p| out.add(|out| crate::port::put_desc(out, version, p)));
        }
        StatsReply::Queue(_) | StatsReply::QueueDesc(_) => put_queues(&mut out, version, reply),
        StatsReply::FlowMonitor(updates) => {
            for update in updates {
                out.add(|out| flow_monitor::put_update(out, version, update));
            }
        }
        StatsReply::GroupFeatures => out.add(|out| group::put_features(out, version)),
        StatsReply::GroupDesc(groups) => {
            groups.iter().for_each(|entry| out.add(|out| group::put_desc(out, version, entry)));
        }
        StatsReply::GroupStats(groups) => {
            groups.iter().for_each(|entry| out.add(|out| group::put_stats(out, version, entry)));
        }
        _ => put_meters(&mut out, reply),
    }
    out.finish()
}

fn put_meters(out: &mut Parts, reply: &StatsReply) {
    match reply {
        StatsReply::MeterFeatures => out.add(meter_mod::put_features),
        StatsReply::MeterConfig(meters) => {
            meters.iter().for_each(|it| out.add(|out| meter_mod::put_desc(out, it)));
        }
        StatsReply::MeterStats(meters) => {
            meters.iter().for_each(|it| out.add(|out| meter_mod::put_stats(out, it)));
        }
        _ => {}
    }
}

fn put_queues(out: &mut Parts, version: Version, reply: &StatsReply) {
    match reply {
        StatsReply::Queue(queues) => {
            queues.iter().for_each(|it| out.add(|out| queue::put_stats(out, version, it)));
        }
        StatsReply::QueueDesc(queues) => {
            queues.iter().for_each(|it| out.add(|out| queue::put_desc(out, version, *it)));
        }
        _ => {}
    }
}
