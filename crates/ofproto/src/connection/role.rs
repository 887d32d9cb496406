//! Roles of several controllers of one bridge.

use super::Connections;
use super::session::Session;
use openflow::message::{Message, Role};
use openflow::{ErrorCode, OfError};

impl Connections {
    /// Gives a controller the role that it asks for. A new primary makes the old one secondary.
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
        if role == Role::Primary && session.role != Role::Primary {
            for other in self.sessions.values_mut() {
                if other.bridge == session.bridge && other.role == Role::Primary {
                    other.role = Role::Secondary;
                }
            }
        }
        if role != Role::NoChange {
            session.role = role;
        }
        let generation = self.elections.get(&session.bridge).copied();
        Ok(Message::RoleReply { role: session.role, generation })
    }

    /// Notes an election, unless a later one is known. Numbers go round: the difference counts,
    /// as a signed number (OpenFlow 1.3.5, section 6.3.5).
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
