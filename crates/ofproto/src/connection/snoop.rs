//! Copies of the messages between a bridge and its controller, for `ovs-ofctl snoop` (ovs:
//! `ofproto/connmgr.c`, `add_snooper`; `lib/rconn.c`, `copy_to_monitor`).

use super::Connections;
use super::session::Session;
use super::settings::ConnectionKind;
use openflow::Header;
use openflow::message::Role;
use std::cmp::Reverse;

/// OFPT_HELLO is not copied: each connection has its own.
const HELLO: u8 = 0;

impl Connections {
    /// Copies messages of a session to the bridge's snoopers. With several controllers, only the primary one
    /// is copied, or else the oldest connection.
    pub(super) fn copy_to_snoopers(&mut self, of: &Session, bytes: &[u8]) {
        let is_of_bridge = |session: &Session| session.bridge == of.bridge;
        let snoops = |session: &Session| {
            session.settings.kind == ConnectionKind::Snoop && is_of_bridge(session)
        };
        if of.settings.kind != ConnectionKind::Controller || !self.sessions.values().any(snoops) {
            return;
        }
        let mut controllers = self.sessions.values().filter(|session| {
            session.settings.kind == ConnectionKind::Controller
                && is_of_bridge(session)
                && session.version().is_some()
        });
        if controllers.any(|other| preference(other) > preference(of)) {
            return;
        }
        for snooper in self.sessions.values_mut().filter(|session| snoops(session)) {
            let mut rest = bytes;
            while let Some((message, behind)) = split_message(rest) {
                rest = behind;
                if message.get(1) != Some(&HELLO) {
                    snooper.write_copy(message);
                }
            }
        }
    }
}

fn preference(session: &Session) -> (u8, Reverse<u32>) {
    let by_role = match session.role {
        Role::Primary => 2,
        Role::Equal => 1,
        _ => 0,
    };
    (by_role, Reverse(session.id.0))
}

/// The first message, and the bytes after it.
fn split_message(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    Header::read(bytes)?;
    let length = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    bytes.split_at_checked(length.max(8).into())
}
