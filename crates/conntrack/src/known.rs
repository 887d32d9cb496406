//! Packets of connections that are known from earlier packets of the same tuple.

use crate::connection::Protocol;
use crate::counters::Counters;
use crate::extract::Reading;
use crate::table::Table;
use crate::tcp::Update;
use crate::timeout::TimeoutPolicy;
use base::Instant;
use flow::{ConnectionRef, Frame};

/// Lets a packet act on the connection that earlier packets of its tuple were found to be of, if
/// it is like them in all that flows can see. Does nothing otherwise, and says so.
pub(crate) fn follow_known(
    table: &mut Table,
    now: Instant,
    policy: &TimeoutPolicy,
    known: ConnectionRef,
    frame: &Frame,
) -> bool {
    if table.generation(known.id) != Some(known.generation) {
        return false;
    }
    let Some((connection, _)) = table.get_mut(known.id) else { return false };
    let Ok(reading) = Reading::of(frame, connection.original.zone) else { return false };
    if reading.related || connection.has_expired(now) {
        return false;
    }
    // The packet acts on a copy, which counts only where what comes of it is what is expected.
    let mut protocol = connection.protocol;
    let (update, timeout) = match (&mut protocol, &reading.segment) {
        (Protocol::Tcp(peers), Some(segment)) if !segment.is_control() => {
            peers.update(segment, known.is_reply, true, &mut Counters::new())
        }
        (Protocol::Other(exchange), None) => {
            let (update, timeout) = exchange.update(known.is_reply);
            (update, Some(timeout))
        }
        _ => return false,
    };
    let is_valid = matches!(update, Update::Valid | Update::ValidNew);
    if !is_valid || protocol.phase() != connection.protocol.phase() {
        return false;
    }
    connection.protocol = protocol;
    if let Some(timeout) = timeout {
        table.set_deadline(known.id, now + policy.duration(timeout));
    }
    true
}
