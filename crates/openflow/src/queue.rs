//! Encoding of queues: statistics and configuration. No queue has rates here.

use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::message::{Message, QueueId, QueueRequest, QueueStats};
use crate::port::{put_port, take_port};
use crate::version::Version;
use base::OfPort;

/// OFPQ_ALL
const ALL: u32 = 0xffff_ffff;
const NANOSECONDS: u64 = 1_000_000_000;

/// Reads the queues of a request.
pub(crate) fn take_request(
    input: &mut Input<'_>,
    version: Version,
) -> Result<QueueRequest, OfError> {
    let port = take_port(input, version)?;
    if version == Version::V10 {
        input.skip(2)?;
    }
    let is_all = version == Version::V10 && port == OfPort::ALL;
    let queue = Some(input.u32()?).filter(|&queue| queue != ALL);
    Ok(QueueRequest { port: if is_all { OfPort::NONE } else { port }, queue })
}

/// Writes the queues of a request.
pub(crate) fn put_request(out: &mut Vec<u8>, version: Version, request: &QueueRequest) {
    let v10 = version == Version::V10;
    let is_all = v10 && request.port == OfPort::NONE;
    put_port(out, version, if is_all { OfPort::ALL } else { request.port });
    if v10 {
        out.put_zeros(2);
    }
    out.put_u32(request.queue.unwrap_or(ALL));
}

/// Reads one queue's statistics.
pub(crate) fn take_stats(input: &mut Input<'_>, version: Version) -> Result<QueueStats, OfError> {
    let mut body = *input;
    if version >= Version::V14 {
        let len = usize::from(body.u16()?);
        body = input.part(len.max(2))?;
        body.skip(8)?;
    }
    let port = take_port(&mut body, version)?;
    if version == Version::V10 {
        body.skip(2)?;
    }
    let id = QueueId { port, queue: body.u32()? };
    let mut counters = [None; 3];
    for counter in &mut counters {
        *counter = Some(body.u64()?).filter(|count| *count != u64::MAX);
    }
    let mut duration_ns = None;
    if version >= Version::V13 {
        let (seconds, nanoseconds) = (body.u32()?, body.u32()?);
        let duration = u64::from(seconds) * NANOSECONDS + u64::from(nanoseconds);
        duration_ns = (seconds != u32::MAX).then_some(duration);
    }
    if version < Version::V14 {
        *input = body;
    }
    Ok(QueueStats { id, counters, duration_ns })
}

/// Writes one queue's statistics.
pub(crate) fn put_stats(out: &mut Vec<u8>, version: Version, stats: &QueueStats) {
    if version >= Version::V14 {
        // The length of the whole entry.
        out.put_u16(48);
        out.put_zeros(6);
    }
    put_port(out, version, stats.id.port);
    if version == Version::V10 {
        out.put_zeros(2);
    }
    out.put_u32(stats.id.queue);
    stats.counters.iter().for_each(|counter| out.put_u64(counter.unwrap_or(u64::MAX)));
    if version >= Version::V13 {
        match stats.duration_ns {
            Some(duration) => {
                out.put_u32((duration / NANOSECONDS) as u32);
                out.put_u32((duration % NANOSECONDS) as u32);
            }
            None => out.put_u64(u64::MAX),
        }
    }
}

/// Reads one queue's description of OpenFlow 1.4, and ignores its rates.
pub(crate) fn take_desc(input: &mut Input<'_>, version: Version) -> Result<QueueId, OfError> {
    let id = QueueId { port: take_port(input, version)?, queue: input.u32()? };
    let rest = usize::from(input.u16()?).checked_sub(10);
    let short = || OfError::new(ErrorCode::BadLen, "a queue's description of less than 16 bytes");
    input.skip(rest.ok_or_else(short)?)?;
    Ok(id)
}

/// Writes one queue's description.
pub(crate) fn put_desc(out: &mut Vec<u8>, version: Version, id: QueueId) {
    put_port(out, version, id.port);
    out.put_u32(id.queue);
    out.put_u16(16);
    out.put_zeros(6);
}

/// Reads the request for a port's queues of OpenFlow 1.0 to 1.3.
pub(crate) fn take_config_request(
    input: &mut Input<'_>,
    version: Version,
) -> Result<Message, OfError> {
    let port = take_port(input, version)?;
    input.skip(if version == Version::V10 { 2 } else { 4 })?;
    Ok(Message::QueueConfigRequest { port })
}

/// Reads the reply.
pub(crate) fn take_config_reply(
    input: &mut Input<'_>,
    version: Version,
) -> Result<Message, OfError> {
    let port = take_port(input, version)?;
    input.skip(if version == Version::V10 { 6 } else { 4 })?;
    let has_port = version >= Version::V12;
    let mut queues = Vec::new();
    while !input.is_empty() {
        queues.push(input.u32()?);
        input.skip(if has_port { 4 } else { 0 })?;
        let rest = usize::from(input.u16()?).checked_sub(if has_port { 10 } else { 6 });
        let short = || OfError::new(ErrorCode::BadLen, "a queue that is shorter than its header");
        input.skip(rest.ok_or_else(short)?)?;
    }
    Ok(Message::QueueConfigReply { port, queues })
}

/// Writes the request or reply. Returns the type.
pub(crate) fn put_config(out: &mut Vec<u8>, version: Version, message: &Message) -> u8 {
    let v10 = version == Version::V10;
    match message {
        Message::QueueConfigReply { port, queues } => {
            put_port(out, version, *port);
            out.put_zeros(if v10 { 6 } else { 4 });
            for &queue in queues {
                out.put_u32(queue);
                if version >= Version::V12 {
                    put_port(out, version, *port);
                    out.put_u16(16);
                    out.put_zeros(6);
                } else {
                    out.put_u16(8);
                    out.put_zeros(2);
                }
            }
            if v10 { 21 } else { 23 }
        }
        Message::QueueConfigRequest { port } => {
            put_port(out, version, *port);
            out.put_zeros(if v10 { 2 } else { 4 });
            if v10 { 20 } else { 22 }
        }
        _ => 0,
    }
}
