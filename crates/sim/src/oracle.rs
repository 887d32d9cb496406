//! The oracle: determines the possible paths of a packet from the rules alone.

use crate::header::Header;
use crate::history::Version;
use crate::rule::{Act, Conn, Rule};

/// A possible path of a packet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Path {
    /// The ports that it is sent to, with its type of service there, sorted.
    pub sent: Vec<(u8, u8)>,
    /// The slots of the rules that it hits.
    pub rules: Vec<usize>,
    /// Its connection state by zone.
    pub tracked: Vec<(u16, Conn)>,
}

/// Returns the possible paths of a packet under these versions. Each pass through the datapath may use
/// another version, since the flows that it hits may come from different versions. `conns` returns the
/// possible connection states of the packet in a zone.
pub fn paths(
    versions: &[&Version],
    packet: &Header,
    conns: impl Fn(u16) -> Vec<Conn>,
) -> Vec<Path> {
    let mut all = Vec::new();
    for version in versions {
        let mut walk = Walk::new(version, *packet, None);
        let next = walk.table(0);
        match next {
            None => all.push(walk.path),
            Some((zone, table)) => {
                for conn in conns(zone) {
                    for later in versions {
                        let mut again = walk.go_on(later, conn);
                        again.path.tracked.push((zone, conn));
                        again.table(table);
                        all.push(again.path);
                    }
                }
            }
        }
    }
    without_ports(versions, &mut all);
    all.iter_mut().for_each(|path| path.sent.sort_unstable());
    all.sort_unstable();
    all.dedup();
    all
}

/// Adds the paths without the ports that a version does not have, since a removed port drops packets of older
/// rules.
fn without_ports(versions: &[&Version], paths: &mut Vec<Path>) {
    for at in 0..paths.len() {
        for version in versions {
            let mut path = paths[at].clone();
            path.sent.retain(|(port, _)| version.ports.contains(port));
            if path.sent.len() < paths[at].sent.len() {
                paths.push(path);
            }
        }
    }
}

/// A packet in one pass.
struct Walk<'a> {
    version: &'a Version,
    packet: Header,
    reg: u32,
    conn: Option<Conn>,
    path: Path,
}

impl<'a> Walk<'a> {
    fn new(version: &'a Version, packet: Header, conn: Option<Conn>) -> Walk<'a> {
        Walk { version, packet, reg: 0, conn, path: Path::default() }
    }

    /// Returns the packet in its next pass.
    fn go_on(&self, version: &'a Version, conn: Conn) -> Walk<'a> {
        let (packet, reg, path) = (self.packet, self.reg, self.path.clone());
        Walk { version, packet, reg, conn: Some(conn), path }
    }

    /// Looks the packet up in a table and executes the rule. Returns zone and table of the next pass.
    fn table(&mut self, table: u8) -> Option<(u16, u8)> {
        if !self.version.ports.contains(&self.packet.port) {
            return None;
        }
        let (slot, rule) = self.best(table)?;
        self.path.rules.push(slot);
        for act in &rule.acts {
            match *act {
                Act::Output(port) if port != self.packet.port => {
                    if self.version.ports.contains(&port) {
                        self.path.sent.push((port, self.packet.tos));
                    }
                }
                Act::Output(_) | Act::Commit { .. } => {}
                Act::Tos(tos) => self.packet.tos = tos,
                Act::Reg(value) => self.reg = value,
                Act::Resubmit(table) => return self.table(table),
                Act::Track { zone, table, .. } => return Some((zone, table)),
            }
        }
        None
    }

    /// Returns the matching rule with the highest priority.
    fn best(&self, table: u8) -> Option<(usize, &'a Rule)> {
        let rules = self.version.rules.iter().filter(|(_, rule)| {
            rule.table == table && rule.matching.matches(&self.packet, self.reg, self.conn)
        });
        rules.max_by_key(|(_, rule)| rule.priority).map(|(slot, rule)| (*slot, rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Matching;

    fn rule(table: u8, priority: u16, matching: Matching, acts: &[Act]) -> Rule {
        Rule { table, priority, matching, acts: acts.to_vec() }
    }

    fn version(rules: Vec<Rule>) -> Version {
        Version { rules: rules.into_iter().enumerate().collect(), ports: (1..=3).collect() }
    }

    const PACKET: Header = Header { port: 1, src: 1, dst: 2, sport: 1030, dport: 80, tos: 0 };

    fn sent(versions: &[&Version]) -> Vec<Vec<(u8, u8)>> {
        let paths = paths(versions, &PACKET, |_| vec![Conn::New]);
        paths.into_iter().map(|path| path.sent).collect()
    }

    #[test]
    fn the_highest_priority_wins_and_changes_last() {
        let any = Matching::default;
        let to_80 = Matching { dport: Some(80), ..any() };
        let in_reg = Matching { reg: Some(2), ..any() };
        let first = version(vec![
            rule(0, 1, any(), &[Act::Output(3)]),
            rule(0, 9, to_80, &[Act::Tos(32), Act::Output(2), Act::Reg(2), Act::Resubmit(1)]),
            rule(1, 1, in_reg, &[Act::Output(3), Act::Output(1)]),
        ]);
        assert_eq!(sent(&[&first]), [[(2, 32), (3, 32)]]);
        let mut second = first.clone();
        second.rules.remove(&1);
        assert_eq!(sent(&[&second]), [[(3, 0)]]);
        assert_eq!(sent(&[&first, &second]), [vec![(2, 32), (3, 32)], vec![(3, 0)]]);
    }

    #[test]
    fn a_port_that_is_gone_takes_and_gives_nothing() {
        let first = version(vec![rule(0, 1, Matching::default(), &[Act::Output(2)])]);
        let mut second = first.clone();
        second.ports.remove(&2);
        assert_eq!(sent(&[&first, &second]), [vec![], vec![(2, 0)]]);
        second.ports.remove(&1);
        assert_eq!(sent(&[&second]), [[]]);
    }

    #[test]
    fn each_pass_may_see_another_version() {
        let track = Act::Track { zone: 1, table: 2, nat: false };
        let first = version(vec![
            rule(0, 1, Matching::default(), &[Act::Reg(1), track]),
            rule(2, 1, Matching { reg: Some(1), ..Matching::default() }, &[Act::Output(2)]),
            rule(2, 2, Matching { reg: Some(2), ..Matching::default() }, &[Act::Output(3)]),
        ]);
        let mut second = first.clone();
        second.rules.insert(0, rule(0, 1, Matching::default(), &[Act::Reg(2), track]));
        second.rules.remove(&1);
        assert_eq!(sent(&[&first, &second]), [vec![], vec![(2, 0)], vec![(3, 0)]]);
    }
}
