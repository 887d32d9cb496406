//! Which MAC address a server's IP address has (ARP, RFC 826; ND, RFC 4861), asked for once for
//! all connections that wait for it.

use crate::address::Address;
use base::MacAddr;
use std::collections::HashMap;

/// How long an answer may take before the question is asked again.
const PATIENCE_NS: u64 = 1_000_000_000;
/// How often it is asked (RFC 4861 section 10, MAX_UNICAST_SOLICIT).
const ASKED_AT_MOST: u8 = 3;
/// Addresses remembered at most: more servers are counted as unresolved.
const ADDRESSES: usize = 1 << 20;

enum Neighbour {
    Known(MacAddr),
    Asked { local: Address, waiting: Vec<u32>, again_at: u64, times: u8 },
}

/// What became of a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lookup {
    Known(MacAddr),
    /// The question was sent already.
    Wait,
    /// The caller is the first, and is to ask.
    Ask,
    /// There is no room for more.
    Full,
}

/// What is to be done about a question without an answer.
pub(crate) enum Overdue {
    /// Ask for `wanted` again in the name of `local`.
    Ask { local: Address, wanted: Address },
    /// No host answers: these connections cannot be opened.
    GiveUp(Vec<u32>),
}

/// The known and the asked-for addresses.
#[derive(Default)]
pub(crate) struct Neighbours {
    all: HashMap<Address, Neighbour>,
    look_at: u64,
    asked: usize,
}

impl Neighbours {
    /// The MAC address of `wanted`, or else connection `id` waits for it.
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

    /// Takes an answer; returns the connections that waited for it. Unsolicited answers
    /// are not believed.
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

    /// Questions that have gone without an answer for too long.
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
