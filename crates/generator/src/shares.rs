//! Division of the clients among workers, each with hosts of its own: which worker has which addresses, and
//! which worker owns a frame that arrived.

use crate::address::{Address, AddressRange};
use crate::host::Role;
use crate::profile::Profile;

/// Bytes of a VLAN tag.
const TAG: usize = 4;

/// Consecutive parts of the clients' addresses, of nearly equal size.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    clients: AddressRange,
    workers: u64,
    tag: usize,
}

impl Shares {
    /// Divides this profile's clients among `workers`, at most one worker per address.
    pub fn new(profile: &Profile, workers: usize, vlan: Option<u16>) -> Shares {
        let clients = profile.clients;
        let workers = (workers as u64).clamp(1, clients.count());
        Shares { clients, workers, tag: if vlan.is_some() { TAG } else { 0 } }
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.workers as usize
    }

    /// Returns the profile of one worker: its own addresses and its part of the connections.
    pub fn profile(&self, profile: &Profile, worker: usize) -> Profile {
        let first = |worker: u64| (worker * self.clients.count()).div_ceil(self.workers);
        let worker = worker as u64;
        let part = |all: u64| all / self.workers + u64::from(worker < all % self.workers);
        Profile {
            clients: self.clients.part(first(worker), first(worker + 1)),
            connections_at_once: part(profile.connections_at_once.into()).max(1) as u32,
            connections_per_second: profile.connections_per_second.map(part),
            ..profile.clone()
        }
    }

    /// Returns the worker that owns a frame that arrived at this side; `None` where its address is no
    /// client's.
    pub fn owner(&self, frame: &[u8], side: Role) -> Option<usize> {
        let ip = frame.get(14 + self.tag..)?;
        let kind: [u8; 2] = frame.get(12 + self.tag..14 + self.tag)?.try_into().ok()?;
        // Offset of the client's address: its frames to a server have it as source, frames to a client as
        // destination.
        let from = side == Role::Server;
        let client = match kind {
            [0x08, 0x00] => {
                let start = if from { 12 } else { 16 };
                Address::v4(ip.get(start..start + 4)?.try_into().ok()?)
            }
            [0x86, 0xdd] => {
                let start = if from { 8 } else { 24 };
                Address(ip.get(start..start + 16)?.try_into().ok()?)
            }
            _ => return None,
        };
        let offset = self.clients.offset(client)?;
        Some((offset * self.workers / self.clients.count()) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(clients: &str) -> Profile {
        Profile { clients: clients.parse().unwrap(), connections_at_once: 10, ..Profile::default() }
    }

    #[test]
    fn everybody_has_his_own_and_all_is_shared_out() {
        for (clients, workers) in
            [("16.0.0.1-16.0.0.10", 3), ("16.0.0.1", 4), ("fd00::1-fd00::ff", 16)]
        {
            let whole = profile(clients);
            let shares = Shares::new(&whole, workers, None);
            let parts: Vec<Profile> =
                (0..shares.workers()).map(|worker| shares.profile(&whole, worker)).collect();
            let addresses: u64 = parts.iter().map(|part| part.clients.count()).sum();
            assert_eq!(addresses, whole.clients.count(), "{clients}");
            for (worker, part) in parts.iter().enumerate() {
                for index in 0..part.clients.count() {
                    let frame = frame(part.clients.get(index), Role::Server, 0);
                    assert_eq!(shares.owner(&frame, Role::Server), Some(worker), "{clients}");
                }
            }
            let at_once: u32 = parts.iter().map(|part| part.connections_at_once).sum();
            assert!(at_once >= 10);
        }
    }

    /// The part of a frame that `owner` reads.
    fn frame(client: Address, side: Role, tag: usize) -> Vec<u8> {
        let mut bytes = vec![0; 14 + tag + 40];
        let from = side == Role::Server;
        match client.as_v4() {
            Some(v4) => {
                bytes[12 + tag..14 + tag].copy_from_slice(&[0x08, 0x00]);
                let start = 14 + tag + if from { 12 } else { 16 };
                bytes[start..start + 4].copy_from_slice(&v4);
            }
            None => {
                bytes[12 + tag..14 + tag].copy_from_slice(&[0x86, 0xdd]);
                let start = 14 + tag + if from { 8 } else { 24 };
                bytes[start..start + 16].copy_from_slice(&client.0);
            }
        }
        bytes
    }

    #[test]
    fn frames_of_nobody_have_no_owner() {
        let whole = profile("16.0.0.1-16.0.0.10");
        let shares = Shares::new(&whole, 2, Some(7));
        let check = |frame: &[u8], side, expect| assert_eq!(shares.owner(frame, side), expect);
        let last = whole.clients.get(9);
        check(&frame(last, Role::Client, 4), Role::Client, Some(1));
        // A frame of another VLAN, another side, an unknown address, and truncated frames.
        check(&frame(last, Role::Client, 0), Role::Client, None);
        check(&frame(last, Role::Client, 4), Role::Server, None);
        check(&frame(Address::v4([16, 0, 0, 11]), Role::Client, 4), Role::Client, None);
        check(&frame(last, Role::Client, 4)[..30], Role::Client, None);
        check(&[], Role::Client, None);
    }
}
