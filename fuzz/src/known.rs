//! What means something to the parts that are fuzzed, taken from where it is told or tested: pieces for
//! the mutators.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Lines of flow syntax.
pub static FLOWS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let sources = [
        include_str!("../../crates/openflow/src/text/tests.rs"),
        include_str!("../../crates/ofproto/src/translate/tests.rs"),
        include_str!("../../crates/ofproto/src/upcall/tests.rs"),
        include_str!("../../testdata/ofproto/rewriting.toml"),
        include_str!("../../testdata/ofproto/seed1.toml"),
    ];
    let pieces = sources.into_iter().flat_map(|source| source.split(['"', '\n']));
    pieces.filter(|piece| piece.contains('=') && !piece.contains([' ', '{', '\\'])).collect()
});

/// Packets in words.
pub static PACKETS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let sources = [
        include_str!("../../testdata/conntrack/icmp-errors.toml"),
        include_str!("../../testdata/conntrack/sctp.toml"),
        include_str!("../../testdata/conntrack/tcp.toml"),
        include_str!("../../testdata/conntrack/udp.toml"),
        include_str!("../../crates/ofproto/src/translate/tests.rs"),
        include_str!("../../crates/wire/src/text/tests.rs"),
    ];
    let pieces = sources.into_iter().flat_map(|source| source.split('"'));
    pieces.filter(|piece| piece.contains('>') && wire::text::parse(piece).is_ok()).collect()
});

/// Both, and what else a scene of the `translate` target may have.
pub static SCENES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| [&FLOWS[..], &PACKETS[..], &["bridge"]].concat());

/// OpenFlow messages that stock tools and switches sent, whole.
pub static MESSAGES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata");
    let mut messages = BTreeSet::new();
    for folder in ["openflow", "openflow-sessions"] {
        for file in std::fs::read_dir(format!("{root}/{folder}")).into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(file.path()).unwrap_or_default();
            let digits = text.lines().filter_map(|line| line.strip_prefix(['>', '<']));
            messages.extend(digits.filter_map(octets).filter(|message| message.len() < 1000));
        }
    }
    messages.into_iter().collect()
});

fn octets(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.trim();
    let octet = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(octet).collect()
}

/// Values that a database may have in a row or a schema.
pub static VALUES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| include_str!("../seeds/values.txt").lines().collect());
