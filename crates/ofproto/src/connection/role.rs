//! Roles of several controllers of one bridge.

use super::Connections;
use super::session::Session;
use openflow::message::{Message, Role, Version};
use openflow::{ErrorCode, OfError};

/// OFPCRR_PRIMARY_REQUEST
const PRIMARY_REQUEST: u8 = 0;

impl Connections {
    /// Changes a controller's role. A new primary makes the old one secondary, which from OpenFlow 1.3 on
    /// receives a role-status message regardless of its asynchronous configuration (ovs: `ofproto/connmgr.c`,
    /// `ofconn_send_role_status`).
    pub(super) fn change_role(
        &mut self,
        session: &mut Session,
        role: Role,
        generation: Option<u64>,
    ) -> Result<Message, OfError> {
        if matches!(role, Role::Primary | Role::Secondary)
            && let Some(generation) = generation
        {
            self.elect(session, generation)?;
        }
        let generation = self.elections.get(&session.bridge).copied();
        if role == Role::Primary && session.role != Role::Primary {
            for other in self.sessions.values_mut() {
                if other.bridge == session.bridge && other.role == Role::Primary {
                    other.role = Role::Secondary;
                    other.send_role_status(PRIMARY_REQUEST, generation);
                }
            }
        }
        if role != Role::NoChange {
            session.role = role;
        }
        Ok(Message::RoleReply { role: session.role, generation })
    }

    /// Records an election, unless a later one is known. Generation ids wrap: the signed difference decides
    /// (OpenFlow 1.3.5 section 6.3.5).
    fn elect(&mut self, session: &Session, generation: u64) -> Result<(), OfError> {
        if let Some(&last) = self.elections.get(&session.bridge)
            && (generation.wrapping_sub(last) as i64) < 0
        {
            let reason = format!("election {generation} is over: there was {last} already");
            return Err(OfError::new(ErrorCode::RoleStale, reason));
        }
        self.elections.insert(session.bridge, generation);
        Ok(())
    }
}

impl Session {
    /// Sends a role-status message.
    fn send_role_status(&mut self, reason: u8, generation: Option<u64>) {
        let told = self.version().filter(|&it| it >= Version::V13 && self.closing().is_none());
        if let Some(version) = told {
            let role = self.role;
            self.write(version, 0, &Message::RoleStatus { role, reason, generation });
        }
    }
}
