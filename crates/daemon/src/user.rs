//! `--user`: runs as another user, with only the capabilities that a switch needs.

use super::DaemonError;
use base::reason;
use rustix::process::{geteuid, getuid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use rustix::{fs::Gid, fs::Uid};
use std::ffi::CString;

/// A user id and a group id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    uid: u32,
    gid: u32,
}

/// The capabilities that a switch needs: devices, raw sockets, low ports, locked memory (ovs:
/// lib/daemon-unix.c, `daemon_become_new_user_linux`).
const KEPT: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::NET_BROADCAST)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::IPC_LOCK);

impl User {
    /// Looks up `USER[:GROUP]`. The group defaults to the user's, the user to root.
    ///
    /// # Errors
    /// The user or group does not exist.
    pub fn look_up(text: &str) -> Result<Self, DaemonError> {
        let (name, group) = text.split_once(':').unwrap_or((text, ""));
        let (name, group) = (name.trim(), group.trim());
        let name = if name.is_empty() { "root" } else { name };
        let (uid, own_gid) = user_by_name(name)
            .ok_or_else(|| DaemonError::User(format!("user {name} not found, aborting.")))?;
        let gid = match group {
            "" => own_gid,
            group => group_by_name(group)
                .ok_or_else(|| DaemonError::User(format!("group {group} not found, aborting.")))?,
        };
        Ok(User { uid, gid })
    }

    /// Becomes this user permanently. The process must have one thread, because each thread has its own
    /// capabilities.
    ///
    /// # Errors
    /// The process does not run as root, or a system call failed.
    pub fn become_for_good(self) -> Result<(), DaemonError> {
        if !getuid().is_root() || !geteuid().is_root() {
            return Err(DaemonError::User("only root can use --user option".into()));
        }
        if let Some(vlog) = vlog::installed() {
            vlog.give_file_to(self.uid, self.gid).map_err(|error| self.failed(&error))?;
        }
        self.switch().map_err(|error| self.failed(&error.into()))
    }

    fn switch(self) -> rustix::io::Result<()> {
        use rustix::thread as one;
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let keeps = !uid.is_root();
        one::set_keep_capabilities(keeps)?;
        one::set_thread_groups(&[])?;
        one::set_thread_res_gid(gid, gid, gid)?;
        one::set_thread_res_uid(uid, uid, uid)?;
        if keeps {
            let had = one::capabilities(None)?.permitted;
            let kept = KEPT.intersection(had);
            one::set_capabilities(
                None,
                CapabilitySets {
                    effective: kept,
                    permitted: kept,
                    inheritable: CapabilitySet::empty(),
                },
            )?;
        }
        Ok(())
    }

    fn failed(self, error: &std::io::Error) -> DaemonError {
        let User { uid, gid } = self;
        DaemonError::User(format!(
            "fail to switch to user and group {uid}:{gid} ({}), aborting",
            reason(error)
        ))
    }
}

/// Returns the ids of the user and of its group.
fn user_by_name(name: &str) -> Option<(u32, u32)> {
    let name = CString::new(name).ok()?;
    // SAFETY: `name` ends in a null byte. The result points to memory of the C library that the next such
    // call overwrites; there is no other thread yet, and both ids are copied before another call.
    unsafe { libc::getpwnam(name.as_ptr()).as_ref().map(|entry| (entry.pw_uid, entry.pw_gid)) }
}

fn group_by_name(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: as in `user_by_name`.
    unsafe { libc::getgrnam(name.as_ptr()).as_ref().map(|entry| entry.gr_gid) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name() {
        let root = User { uid: 0, gid: 0 };
        for (text, expect) in [
            ("root", Ok(root)),
            ("root:root", Ok(root)),
            (":root", Ok(root)),
            (" root : ", Ok(root)),
            ("no-such-user", Err("user no-such-user not found, aborting.")),
            ("root:no-such-group", Err("group no-such-group not found, aborting.")),
            ("ro\0ot", Err("user ro\0ot not found, aborting.")),
        ] {
            let found = User::look_up(text).map_err(|error| error.to_string());
            assert_eq!(found, expect.map_err(String::from), "{text}");
        }
    }
}
