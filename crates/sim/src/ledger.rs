//! Packets on their way, and what is held against each of them.

use crate::header::Header;
use crate::history::{History, Version};
use crate::knowledge::Knowledge;
use crate::law::Law;
use crate::oracle::{Path, paths};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A packet that is on its way.
#[derive(Clone, Debug)]
struct Track {
    header: Header,
    /// The step in which a worker received it.
    step: usize,
    /// The version of the rules that its worker had carried out by then.
    version: usize,
    /// Ports that it was sent to, with its type of service.
    sent: Vec<(u8, u8)>,
}

/// How many packets of a rule there were for sure, and at the most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    pub sure: u64,
    pub most: u64,
}

/// What was broken, without its step.
pub type Broken = (Law, String);

#[derive(Debug, Default)]
pub struct Ledger {
    open: BTreeMap<u32, Track>,
    pub known: Knowledge,
    /// The last packet of each flow that was sent to each port, and in which version of the rules, where it met
    /// one alone. Where packets are sent to a port more than once, the copies are told apart: a batch goes out
    /// copy by copy.
    last: HashMap<(Header, u8, usize), (u32, Option<usize>)>,
    /// Packets that went nowhere, or not everywhere that they should have.
    pub missing: u64,
    /// Packets that workers received.
    pub received: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that no port took.
    pub nowhere: u64,
    /// Packets of each rule.
    pub rules: BTreeMap<usize, Count>,
    digest: DefaultHasher,
}

impl Ledger {
    /// A worker that has carried out this version received a packet.
    pub fn received(&mut self, number: u32, header: Header, step: usize, version: usize) {
        self.received += 1;
        self.known.came(&header);
        self.open.insert(number, Track { header, step, version, sent: Vec::new() });
    }

    /// A packet was sent to a port.
    pub fn sent(
        &mut self,
        (number, tos): (u32, u8),
        port: u8,
        step: usize,
        history: &History,
    ) -> Result<(), Broken> {
        self.sent += 1;
        (number, tos, port, step).hash(&mut self.digest);
        let Some(track) = self.open.get_mut(&number) else {
            let text = format!("packet {number} is sent to port {port} and was not under way");
            return Err((Law::Sanity, text));
        };
        let copies = track.sent.iter().filter(|(to, _)| *to == port).count();
        track.sent.push((port, tos));
        let (header, version) = (track.header, track.version);
        // While rules change, packets of a flow may be sent different ways.
        let kept = (version == history.last()).then_some(version);
        let before = self.last.insert((header, port, copies), (number, kept));
        match before {
            Some((before, at)) if before > number && at == kept && kept.is_some() => {
                let text = format!("packet {before} overtook {number} to port {port} ({header})");
                Err((Law::Order, text))
            }
            _ => Ok(()),
        }
    }

    /// Packets that are on their way.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// These packets are where they go.
    pub fn close_some(
        &mut self,
        numbers: &[u32],
        step: usize,
        history: &History,
    ) -> Result<(), Broken> {
        numbers.iter().try_for_each(|&number| self.close(number, step, history))
    }

    /// All packets are where they go.
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
        // A packet that was lost on its way may have gone any way of which this is a part.
        let possible: Vec<&Path> =
            all.iter().filter(|path| is_part(&track.sent, &path.sent)).collect();
        self.known.gone(&track.header, track.step, step, &possible);
        let mut counts: BTreeMap<usize, Count> = BTreeMap::new();
        for (nth, path) in same.iter().enumerate() {
            for &slot in &path.rules {
                let count = counts.entry(slot).or_default();
                count.most = 1;
                // One that all before this one hit, too.
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

    /// A packet was not sent where it should be. That is no harm if it was lost on the way.
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

    /// The same for two runs in which the same packets were sent in the same steps.
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }
}

/// Whether a sorted list is within another one.
fn is_part(part: &[(u8, u8)], whole: &[(u8, u8)]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|it| rest.any(|other| other == it))
}
