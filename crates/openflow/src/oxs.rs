//! OpenFlow 1.5's statistics as type-length-value entries (ovs: `lib/ox-stat.c`).

use crate::bytes::{Input, Output};
use crate::duration::{put_duration, take_duration};
use crate::error::{ErrorCode, OfError};
use crate::message::FlowStatsEntry;

/// OFPXSC_OPENFLOW_BASIC
const CLASS: u16 = 0x8002;
const DURATION: u8 = 0;
const IDLE_TIME: u8 = 1;
const FLOW_COUNT: u8 = 3;
const PACKET_COUNT: u8 = 4;
const BYTE_COUNT: u8 = 5;

/// Decoded statistics; missing entries are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stats {
    pub duration_ns: u64,
    pub idle_age_s: u64,
    pub flows: u32,
    pub packets: u64,
    pub bytes: u64,
}

impl Stats {
    pub fn store(self, flow: &mut FlowStatsEntry) {
        flow.duration_ns = self.duration_ns;
        flow.idle_age_s = self.idle_age_s;
        flow.packets = self.packets;
        flow.bytes = self.bytes;
    }
}

/// Reads a list with its header and padding.
pub(crate) fn take(input: &mut Input<'_>) -> Result<Stats, OfError> {
    input.skip(2)?;
    let len = usize::from(input.u16()?);
    let Some(body) = len.checked_sub(4) else {
        return Err(OfError::new(ErrorCode::BadLen, format!("statistics of {len} bytes")));
    };
    let mut entries = input.part(body)?;
    input.skip(len.next_multiple_of(8) - len)?;
    let mut out = Stats::default();
    while !entries.is_empty() {
        let (class, field, len) = (entries.u16()?, entries.u8()? >> 1, entries.u8()?);
        let mut value = entries.part(len.into())?;
        match (class, field) {
            (CLASS, DURATION) => out.duration_ns = take_duration(&mut value)?,
            (CLASS, IDLE_TIME) => out.idle_age_s = take_duration(&mut value)? / 1_000_000_000,
            (CLASS, FLOW_COUNT) => out.flows = value.u32()?,
            (CLASS, PACKET_COUNT) => out.packets = value.u64()?,
            (CLASS, BYTE_COUNT) => out.bytes = value.u64()?,
            _ => {}
        }
    }
    Ok(out)
}

fn list(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_u32(0);
    body(out);
    let len = out.len() - start;
    out.set_u16(start + 2, len);
    out.pad8(start);
}

fn header(out: &mut Vec<u8>, field: u8, len: u8) {
    out.put_u16(CLASS);
    out.put(&[field << 1, len]);
}

/// Writes the statistics of a flow.
pub(crate) fn put_flow(out: &mut Vec<u8>, flow: &FlowStatsEntry, idle: bool) {
    list(out, |out| {
        header(out, DURATION, 8);
        put_duration(out, flow.duration_ns);
        if idle {
            header(out, IDLE_TIME, 8);
            out.put_u32(u32::try_from(flow.idle_age_s).unwrap_or(u32::MAX));
            out.put_u32(0);
        }
        header(out, PACKET_COUNT, 8);
        out.put_u64(flow.packets);
        header(out, BYTE_COUNT, 8);
        out.put_u64(flow.bytes);
    });
}

/// Writes sums.
pub(crate) fn put_aggregate(out: &mut Vec<u8>, packets: u64, bytes: u64, flows: u32) {
    list(out, |out| {
        header(out, PACKET_COUNT, 8);
        out.put_u64(packets);
        header(out, BYTE_COUNT, 8);
        out.put_u64(bytes);
        header(out, FLOW_COUNT, 4);
        out.put_u32(flows);
    });
}
