//! Whether a packet of a known connection would be followed, without telling the connection of it.
//!
//! A packet that is tracked in two zones is of a connection in each. It takes its short way only where
//! both go on as they are known, and the first must not be told of it before that is sure.

use crate::connections::Tools;
use crate::extract::Reading;
use crate::known::{Moment, settled};
use crate::record::Kind;
use crate::tcp::{TcpPeers, Update};
use flow::{ConnectionRef, Frame};

impl Moment<'_> {
    /// Whether the packet goes the same way as the one before it did.
    pub fn would_follow(
        &self,
        connection: ConnectionRef,
        frame: &Frame,
        tools: &mut Tools,
    ) -> bool {
        let (record, is_reply) = (self.connections.record(connection.id), connection.is_reply);
        let Some((_, state)) = self.unchanged(&record, connection) else { return false };
        let reading = Reading::of(frame, record.zone()).ok().filter(|it| !it.related);
        let ours = reading.filter(|it| record.direction(&it.key) == Some(is_reply));
        let Some(reading) = ours else { return false };
        match (state.kind(), reading.segment) {
            (Kind::Other, _) => settled(state, is_reply).is_some(),
            (Kind::Tcp, Some(segment)) => {
                let mut after = TcpPeers::from_words(record.tcp_words());
                let check = self.settings.check_tcp_windows;
                let (update, timeout) = after.update(&segment, is_reply, check, &mut tools.trial);
                tools.settle_trial(false);
                segment.is_usual() && update == Update::Valid && timeout.is_some()
            }
            (Kind::Tcp | Kind::Icmp | Kind::Sctp, _) => false,
        }
    }
}
