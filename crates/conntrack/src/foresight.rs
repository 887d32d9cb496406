//! Whether a packet of a known connection would be followed, without telling the connection of it.
//!
//! A packet that is tracked in two zones is of a connection in each. It takes its short way only where
//! both go on as they are known, and the first must not be told of it before that is sure.

use crate::connections::{Connections, Tools};
use crate::extract::Reading;
use crate::record::{Kind, passed_ms};
use crate::settings::Settings;
use crate::tcp::{TcpPeers, Update};
use base::Instant;
use flow::{ConnectionRef, Frame};

/// Whether the packet goes the same way as the one before it did.
pub(crate) fn would_follow(
    connections: &Connections,
    settings: &Settings,
    tools: &mut Tools,
    now: Instant,
    connection: ConnectionRef,
    frame: &Frame,
) -> bool {
    let record = connections.record(connection.id);
    let (life, state, zone) = (record.life(), record.state(), record.zone());
    let is_flushed = connections.zones.number(zone) != state.header();
    let is_same = life.generation() == connection.generation && !life.is_over(passed_ms(now));
    if !is_same || is_flushed || state.has_helper() {
        return false;
    }
    let reading = Reading::of(frame, zone).ok().filter(|it| !it.related);
    let is_reply = Some(connection.is_reply);
    let Some(reading) = reading.filter(|it| record.direction(&it.key) == is_reply) else {
        return false;
    };
    match (state.kind(), reading.segment) {
        (Kind::Other, _) => {
            let mut after = state.exchange();
            let _ = after.update(connection.is_reply);
            after == state.exchange()
        }
        (Kind::Tcp, Some(segment)) => {
            let mut after = TcpPeers::from_words(record.tcp_words());
            let check = settings.check_tcp_windows;
            let (update, timeout) =
                after.update(&segment, connection.is_reply, check, &mut tools.trial);
            tools.settle_trial(false);
            segment.is_usual() && update == Update::Valid && timeout.is_some()
        }
        (Kind::Tcp | Kind::Icmp | Kind::Sctp, _) => false,
    }
}
