//! Expected connections as dumps show them.

use super::{Expectation, Expectations, Place};
use base::{Instant, Zone};
use flow::Tuple;
use std::ops::Bound;

/// The maximum number of expected connections in one part of a dump.
const PART: usize = 256;

/// A connection that is expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpectedConnection {
    /// The tuple of its first packet; the source port is 0 for any.
    pub original: Tuple,
    /// The original direction of the connection that announced it.
    pub parent: Tuple,
    /// Its zone.
    pub zone: Zone,
    /// The mark that it will have.
    pub mark: u32,
    /// The label that it will have.
    pub label: u128,
}

/// The position of a dump of expected connections; [`ExpectedCursor::default`] is the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExpectedCursor(Option<Place>);

/// A part of a dump of expected connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpectedPage {
    /// Expected connections; may be empty although more follow.
    pub connections: Vec<ExpectedConnection>,
    /// Where the next part begins, or `None` at the end.
    pub next: Option<ExpectedCursor>,
}

impl Expectations {
    /// Returns one part of a dump of one zone or all.
    pub fn page(&self, now: Instant, zone: Option<Zone>, cursor: ExpectedCursor) -> ExpectedPage {
        let begin = match (cursor.0, zone) {
            (Some(last), _) => Bound::Excluded(last),
            (None, Some(zone)) => Bound::Included((zone.0, 0, 0, 0, 0, 0)),
            (None, None) => Bound::Unbounded,
        };
        let rest = self.by_place.range((begin, Bound::Unbounded));
        let mut of_zone = rest.take_while(|(place, _)| zone.is_none_or(|zone| place.0 == zone.0));
        let part: Vec<_> = of_zone.by_ref().take(PART).collect();
        let last = part.last().filter(|_| part.len() == PART);
        let next = last.map(|(place, _)| ExpectedCursor(Some(**place)));
        let live = part.iter().map(|(_, expected)| &expected.expectation);
        let live = live.filter(|it| now < it.deadline);
        ExpectedPage { connections: live.map(ExpectedConnection::from).collect(), next }
    }
}

impl From<&Expectation> for ExpectedConnection {
    fn from(expectation: &Expectation) -> Self {
        ExpectedConnection {
            original: expectation.key.tuple(),
            parent: expectation.parent.tuple(),
            zone: Zone(expectation.key.zone),
            mark: expectation.mark,
            label: expectation.label,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::key::{Family, Key};
    use std::net::Ipv4Addr;

    fn key(zone: u16, ports: [u16; 2]) -> Key {
        let [src, dst] = [1, 9].map(|host| Ipv4Addr::new(10, 0, 0, host).into());
        Key { src, dst, l4: ports, zone, protocol: 6, family: Family::V4 }
    }

    #[test]
    fn dumps_come_in_parts_and_leave_out_what_is_over() {
        let mut expectations = Expectations::default();
        let later = Instant::from_millis(1000);
        for number in 0..700 {
            let (zone, at) = (number % 2, if number < 4 { Instant::ZERO } else { later });
            let parent = (number.into(), key(zone, [number, 21]));
            let expected = key(zone, [0, 5000 + number]);
            expectations.add(Expectation::new(parent, expected, at));
        }
        let ports = |zone: Option<Zone>, now_s: u64| {
            let (mut ports, mut cursor) = (Vec::new(), Some(ExpectedCursor::default()));
            while let Some(at) = cursor {
                let page = expectations.page(Instant::from_millis(now_s * 1000), zone, at);
                assert!(page.connections.len() <= PART);
                ports.extend(page.connections.iter().map(|it| it.to_string()));
                cursor = page.next;
            }
            ports
        };
        let counts =
            [(None, 1), (Some(0), 1), (Some(1), 1), (Some(2), 1), (None, 300), (None, 301)];
        let counts = counts.map(|(zone, now_s)| ports(zone.map(Zone), now_s).len());
        assert_eq!(counts, [700, 350, 350, 0, 696, 0]);
        assert_eq!(
            ports(Some(Zone(1)), 1)[0],
            "tcp,orig=(src=10.0.0.1,dst=10.0.0.9,sport=0,dport=5001),zone=1,\
             parent=(src=10.0.0.1,dst=10.0.0.9,sport=1,dport=21)"
        );
        expectations.set_inheritance(0, 5, 0x1f);
        assert_eq!(
            expectations.page(later, Some(Zone(0)), ExpectedCursor::default()).connections[0]
                .to_string(),
            "tcp,orig=(src=10.0.0.1,dst=10.0.0.9,sport=0,dport=5000),mark=5,labels=0x1f,\
             parent=(src=10.0.0.1,dst=10.0.0.9,sport=0,dport=21)"
        );
    }
}
