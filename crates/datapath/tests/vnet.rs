//! A sender writes any start and offset of a partial checksum into the vnet header: the bytes that leave are those
//! that the rules saw, whatever it says.

#[path = "support/bench.rs"]
mod bench;
#[path = "support/unfinished.rs"]
mod unfinished;

use unfinished::Rig;

const NEEDS_CSUM: u8 = 1;

fn header(gso: u8, segment_bytes: u16, start: usize, offset: usize) -> [u8; 10] {
    let mut header = [0; 10];
    (header[0], header[1]) = (NEEDS_CSUM, gso);
    header[4..6].copy_from_slice(&segment_bytes.to_ne_bytes());
    header[6..8].copy_from_slice(&(start as u16).to_ne_bytes());
    header[8..10].copy_from_slice(&(offset as u16).to_ne_bytes());
    header
}

const FRAMES: [&str; 6] = [
    "10.1.1.1:1000>10.1.1.2:80 udp len=20",
    "10.1.1.1:1000>10.1.1.2:80 PA len=20",
    "[fd00::1]:1000>[fd00::2]:80 udp len=20",
    "[fd00::1]:1000>[fd00::2]:80 PA len=20",
    "10.1.1.1:1000>10.1.1.2:80 sctp tag=9 len=20",
    "10.1.1.1>10.1.1.2 icmp-echo id=7 seq=1",
];

#[test]
fn no_start_and_offset_change_what_the_rules_saw() {
    let mut rig = Rig::new();
    for text in FRAMES {
        let bytes = wire::text::parse(text).unwrap();
        for start in 0..bytes.len() {
            for offset in (0..bytes.len() - start - 1).filter(|at| *at < 24 || at % 7 == 0) {
                assert_eq!(rig.check(&header(0, 0, start, offset), &bytes), 1, "{start} {offset}");
            }
        }
    }
}

#[test]
fn no_start_and_offset_change_segments() {
    let mut rig = Rig::new();
    let large = [
        ("10.1.1.1:1000>10.1.1.2:80 PA len=300", 1),
        ("[fd00::1]:1000>[fd00::2]:80 PA len=300", 4),
        ("10.1.1.1:1000>10.1.1.2:80 udp len=300", 5),
    ];
    for (text, gso) in large {
        let bytes = wire::text::parse(text).unwrap();
        let mut accepted = Vec::new();
        for start in 0..bytes.len() - 1 {
            for offset in (0..bytes.len() - start - 1).filter(|at| *at < 24) {
                if rig.check(&header(gso, 100, start, offset), &bytes) > 0 {
                    accepted.push((start, offset));
                }
            }
        }
        assert_eq!(accepted.len(), 1, "{accepted:?}");
    }
}
