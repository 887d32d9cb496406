//! Checks each packet in the switch against the oracle.

use crate::header::Header;
use crate::history::{History, Version};
use crate::knowledge::Knowledge;
use crate::law::Law;
use crate::oracle::{Path, paths};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A packet in the switch.
#[derive(Clone, Debug)]
struct Track {
    header: Header,
    /// The step in which a worker received it.
    step: usize,
    /// The version of the rules that its worker had applied by then.
    version: usize,
    /// The ports that it was sent to, with its type of service there.
    sent: Vec<(u8, u8)>,
}

/// The minimum and the maximum number of packets of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    pub sure: u64,
    pub most: u64,
}

/// A violation without its step.
pub type Broken = (Law, String);

#[derive(Debug, Default)]
pub struct Ledger {
    open: BTreeMap<u32, Track>,
    pub known: Knowledge,
    /// The last packet of each flow that was sent to each port. If packets are sent to a port several times,
    /// each copy has an entry, since a batch is sent copy by copy.
    last: HashMap<(Header, u8, usize), u32>,
    /// Packets that were not sent to all ports that the rules require.
    pub missing: u64,
    /// Packets that workers received.
    pub received: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that were sent to no port.
    pub nowhere: u64,
    /// Packets of each rule.
    pub rules: BTreeMap<usize, Count>,
    digest: DefaultHasher,
}

impl Ledger {
    /// Records that a worker that has applied this version received a packet.
    pub fn received(&mut self, number: u32, header: Header, step: usize, version: usize) {
        self.received += 1;
        self.known.came(&header);
        self.open.insert(number, Track { header, step, version, sent: Vec::new() });
    }

    /// Records that a packet was sent to a port.
    pub fn sent(&mut self, (number, tos): (u32, u8), port: u8, step: usize) -> Result<(), Broken> {
        self.sent += 1;
        (number, tos, port, step).hash(&mut self.digest);
        let Some(track) = self.open.get_mut(&number) else {
            let text = format!("packet {number} is sent to port {port} and was not under way");
            return Err((Law::Sanity, text));
        };
        let copies = track.sent.iter().filter(|(to, _)| *to == port).count();
        track.sent.push((port, tos));
        match self.last.insert((track.header, port, copies), number) {
            Some(before) if before > number => {
                let header = track.header;
                let text = format!("packet {before} overtook {number} to port {port} ({header})");
                Err((Law::Order, text))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of packets in the switch.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Checks these packets, which have left the switch.
    pub fn close_some(
        &mut self,
        numbers: &[u32],
        step: usize,
        history: &History,
    ) -> Result<(), Broken> {
        numbers.iter().try_for_each(|&number| self.close(number, step, history))
    }

    /// Checks all packets, which have left the switch.
    pub fn close_all(&mut self, step: usize, history: &History) -> Result<(), Broken> {
        let done: Vec<u32> = self.open.keys().copied().collect();
        done.into_iter().try_for_each(|number| self.close(number, step, history))
    }

    fn close(&mut self, number: u32, step: usize, history: &History) -> Result<(), Broken> {
        let Some(mut track) = self.open.remove(&number) else { return Ok(()) };
        track.sent.sort_unstable();
        self.nowhere += u64::from(track.sent.is_empty());
        let versions = history.since(track.version);
        let conns = |zone| self.known.states(zone, &track.header, track.step);
        let all = paths(&versions, &track.header, conns);
        let same: Vec<&Path> = all.iter().filter(|path| path.sent == track.sent).collect();
        if same.is_empty() {
            return self.unexpected(number, &track, &versions, &all);
        }
        // A lost packet may have taken any path that includes the observed outputs.
        let possible: Vec<&Path> =
            all.iter().filter(|path| is_part(&track.sent, &path.sent)).collect();
        self.known.gone(&track.header, track.step, step, &possible);
        let mut counts: BTreeMap<usize, Count> = BTreeMap::new();
        for (nth, path) in same.iter().enumerate() {
            for &slot in &path.rules {
                let count = counts.entry(slot).or_default();
                count.most = 1;
                // All previous packets hit this rule, too.
                if count.sure == nth as u64 {
                    count.sure += 1;
                }
            }
        }
        for (slot, count) in counts {
            let sum = self.rules.entry(slot).or_default();
            sum.most += count.most;
            sum.sure += u64::from(count.sure == same.len() as u64);
        }
        Ok(())
    }

    /// Handles a packet whose outputs fit no path. It is no violation if the packet was lost.
    fn unexpected(
        &mut self,
        number: u32,
        track: &Track,
        versions: &[&Version],
        all: &[Path],
    ) -> Result<(), Broken> {
        if all.iter().any(|path| is_part(&track.sent, &path.sent)) {
            self.missing += 1;
            return Ok(());
        }
        let expected: Vec<&Vec<(u8, u8)>> = all.iter().map(|path| &path.sent).collect();
        let text = format!(
            "packet {number} ({}) of step {} was sent to {:?}; by {} version(s) of the rules it goes to \
             one of {expected:?}",
            track.header,
            track.step,
            track.sent,
            versions.len()
        );
        Err((Law::Rules, text))
    }

    /// Returns a hash of the sent packets and their steps, which equal runs share.
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }
}

/// Returns whether a sorted list is contained in another one.
fn is_part(part: &[(u8, u8)], whole: &[(u8, u8)]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|it| rest.any(|other| other == it))
}
