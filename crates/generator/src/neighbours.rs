//! Resolution of servers' IP addresses to MAC addresses (ARP, RFC 826; ND, RFC 4861), with one question for
//! all connections that wait for an address.

use crate::address::Address;
use base::MacAddr;
use std::collections::HashMap;

/// Time to wait for an answer before the question is repeated.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Most questions for one address (RFC 4861 section 10, MAX_UNICAST_SOLICIT).
const ASKED_AT_MOST: u8 = 3;
/// Most addresses that are kept. Connections to further servers count as unresolved.
const ADDRESSES: usize = 1 << 20;

enum Neighbour {
    Known(MacAddr),
    Asked { local: Address, waiting: Vec<u32>, again_at: u64, times: u8 },
}

/// The result of a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lookup {
    Known(MacAddr),
    /// A question is under way; the connection waits.
    Wait,
    /// The caller is the first to need this address and must send the question.
    Ask,
    /// The table is full.
    Full,
}

/// What to do about a question without an answer.
pub(crate) enum Overdue {
    /// Ask for `wanted` again in the name of `local`.
    Ask { local: Address, wanted: Address },
    /// No host answered: these connections cannot be opened.
    GiveUp(Vec<u32>),
}

/// Resolved and pending addresses.
#[derive(Default)]
pub(crate) struct Neighbours {
    all: HashMap<Address, Neighbour>,
    look_at: u64,
    asked: usize,
}

impl Neighbours {
    /// Returns the MAC address of `wanted`, or makes connection `id` wait for it.
    pub fn look_up(&mut self, wanted: Address, local: Address, id: u32, now: u64) -> Lookup {
        let full = self.all.len() >= ADDRESSES;
        match self.all.get_mut(&wanted) {
            Some(Neighbour::Known(mac)) => Lookup::Known(*mac),
            Some(Neighbour::Asked { waiting, .. }) => {
                waiting.push(id);
                Lookup::Wait
            }
            None if full => Lookup::Full,
            None => {
                let again_at = now + PATIENCE_NS;
                let waiting = vec![id];
                self.all.insert(wanted, Neighbour::Asked { local, waiting, again_at, times: 1 });
                self.asked += 1;
                self.look_at = self.look_at.min(again_at).max(now);
                Lookup::Ask
            }
        }
    }

    /// Processes an answer and returns the connections that waited for it. Unsolicited answers are ignored.
    pub fn learn(&mut self, address: Address, mac: MacAddr) -> Vec<u32> {
        let Some(neighbour) = self.all.get_mut(&address) else { return Vec::new() };
        if mac.is_multicast() {
            return Vec::new();
        }
        match std::mem::replace(neighbour, Neighbour::Known(mac)) {
            Neighbour::Known(_) => Vec::new(),
            Neighbour::Asked { waiting, .. } => {
                self.asked -= 1;
                waiting
            }
        }
    }

    /// Returns the questions whose time to answer is over.
    pub fn overdue(&mut self, now: u64) -> Vec<Overdue> {
        let mut found = Vec::new();
        if self.asked == 0 || now < self.look_at {
            return found;
        }
        self.look_at = now + PATIENCE_NS / 10;
        let mut given_up = Vec::new();
        for (&wanted, neighbour) in &mut self.all {
            let Neighbour::Asked { local, waiting, again_at, times } = neighbour else { continue };
            if *again_at > now {
                continue;
            }
            if *times >= ASKED_AT_MOST {
                found.push(Overdue::GiveUp(std::mem::take(waiting)));
                given_up.push(wanted);
            } else {
                *times += 1;
                *again_at = now + PATIENCE_NS;
                found.push(Overdue::Ask { local: *local, wanted });
            }
        }
        for address in given_up {
            self.all.remove(&address);
            self.asked -= 1;
        }
        found
    }
}
