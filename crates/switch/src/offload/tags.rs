//! Finds ports whose VLAN tags stand beside their frames, where the XDP program does not see them: it would take a
//! frame with a tag for one without, and one with two for one with one.
//!
//! The kernel runs the program before it takes a tag out of a frame, and tells a packet socket of all tags alike. So
//! of a port whose tags stand in the frames, the program has counted every tag that the socket tells of, up to two in
//! each frame: it forwards none in which it sees two. The tag of a
//! veth's peer stands beside the frame if the peer leaves tags to its device (`ethtool -k`, `tx-vlan-offload`).

use base::{Instant, PortNo};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long frames may lie in the socket that came before the program.
const SETTLES_IN: Duration = Duration::from_secs(1);

/// What is known of the tags of ports whose packets are offloaded.
#[derive(Debug, Default)]
pub struct Tags {
    ports: BTreeMap<PortNo, Known>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// The program is on its device since that time.
    Since(Instant),
    /// All frames come behind the program.
    Counting(Counting),
    /// Tags stand beside the frames.
    Beside,
}

/// Numbers of tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counting {
    /// Those that the socket had received and the program had seen at the begin of the comparison. Frames that the
    /// program saw in the first second may be in the first number and not in the second: until a second without
    /// tags, as many tags beside frames are not found.
    from: (u64, u64),
    /// The latest numbers, and since when they are the same.
    last: (u64, u64),
    since: Instant,
}

impl Tags {
    /// Notes that the program came onto a port's device, and that it begins to count.
    pub fn begin(&mut self, now: Instant, port: PortNo) {
        if !self.are_beside(port) {
            self.ports.insert(port, Known::Since(now));
        }
    }

    /// Forgets a port.
    pub fn forget(&mut self, port: PortNo) {
        self.ports.remove(&port);
    }

    /// Returns whether tags of the port stand beside its frames.
    pub fn are_beside(&self, port: PortNo) -> bool {
        self.ports.get(&port) == Some(&Known::Beside)
    }

    /// Looks at the numbers of tags: those that the socket received, which are read first, and those that
    /// the program saw. Returns whether it finds that tags stand beside frames.
    pub fn look(&mut self, now: Instant, port: PortNo, received: u64, seen: u64) -> bool {
        let Some(known) = self.ports.get_mut(&port) else { return false };
        match *known {
            Known::Since(begin) if now < begin + SETTLES_IN => {}
            Known::Since(_) => {
                let last = (received, seen);
                *known = Known::Counting(Counting { from: (received, 0), last, since: now });
            }
            Known::Counting(mut it) => {
                if received.saturating_sub(it.from.0) > seen.saturating_sub(it.from.1) {
                    *known = Known::Beside;
                    return true;
                }
                if it.last != (received, seen) {
                    (it.last, it.since) = ((received, seen), now);
                } else if now >= it.since + SETTLES_IN {
                    it.from = it.last;
                }
                *known = Known::Counting(it);
            }
            Known::Beside => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: PortNo = PortNo(3);

    /// Readings after so many milliseconds: of the socket, of the program, and whether tags are found beside frames.
    fn check(what: &str, readings: &[(u64, u64, u64, bool)]) {
        let mut tags = Tags::default();
        tags.begin(Instant::from_millis(0), PORT);
        for &(after_ms, received, seen, found) in readings {
            let now = Instant::from_millis(after_ms);
            assert_eq!(tags.look(now, PORT, received, seen), found, "{what}, at {after_ms} ms");
        }
        let is_found = readings.iter().any(|it| it.3);
        assert_eq!(tags.are_beside(PORT), is_found, "{what}");
    }

    #[test]
    fn tags_that_the_program_did_not_see_stand_beside_frames() {
        check("no tags", &[(1000, 0, 0, false), (2000, 0, 0, false)]);
        check("all in frames", &[(1000, 0, 0, false), (2000, 5, 5, false), (3000, 5, 9, false)]);
        check("one beside", &[(1000, 0, 0, false), (2000, 5, 5, false), (3000, 7, 6, true)]);
        check("found once", &[(1000, 0, 0, false), (2000, 5, 0, true), (3000, 9, 0, false)]);
        // What waited in the socket when the program came was never seen by it.
        check("from before", &[(10, 4, 0, false), (1000, 90, 2, false), (2000, 92, 4, false)]);
        check("and more", &[(10, 4, 0, false), (1000, 90, 0, false), (2000, 91, 0, true)]);
        // What the program saw in the first second counts no more after a second without tags.
        let early = [(1000, 5, 5, false), (1200, 9, 9, false), (2199, 9, 9, false)];
        check("not yet", &[&early[..], &[(2200, 10, 9, false), (2300, 13, 9, false)]].concat());
        check("in time", &[&early[..], &[(2200, 9, 9, false), (2300, 10, 9, true)]].concat());
    }

    #[test]
    fn a_port_that_is_set_up_anew_is_counted_from_the_start() {
        let mut tags = Tags::default();
        let at = Instant::from_millis;
        assert!(!tags.look(at(5), PORT, 9, 0), "a port that is not known");
        tags.begin(at(0), PORT);
        assert!(!tags.look(at(1000), PORT, 5, 5));
        tags.begin(at(2000), PORT);
        assert!(!tags.look(at(2100), PORT, 50, 0), "it begins again");
        assert!(!tags.look(at(3000), PORT, 50, 0) && tags.look(at(3050), PORT, 51, 0));
        tags.begin(at(4000), PORT);
        assert!(tags.are_beside(PORT), "until it is forgotten");
        tags.forget(PORT);
        assert!(!tags.are_beside(PORT));
    }
}
