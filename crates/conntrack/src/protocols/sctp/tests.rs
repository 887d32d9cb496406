//! Associations by their packets; `testdata/conntrack/sctp.toml` has more cases.

use super::*;
use proptest::prelude::*;

fn chunks(text: &str) -> Result<Chunks, Event> {
    let frame = wire::text::parse(&format!("10.0.0.1:1>10.0.0.2:2 sctp {text}")).unwrap();
    Chunks::read(&frame[34..])
}

/// Packets, with `<` before those of the other side, and the resulting states.
fn states(packets: &[&str]) -> Vec<String> {
    let mut counters = Counters::new();
    let mut association: Option<Association> = None;
    packets
        .iter()
        .map(|text| {
            let (is_reply, text) = text.strip_prefix('<').map_or((false, *text), |it| (true, it));
            let chunks = match chunks(text) {
                Ok(chunks) => chunks,
                Err(event) => return event.name().to_owned(),
            };
            let Some(known) = &mut association else {
                if let Err(event) = chunks.begins() {
                    return event.name().to_owned();
                }
                association = Some(Association::new(&chunks).0);
                return format!("new {}", association.unwrap().state);
            };
            let (update, _) = known.update(&chunks, is_reply, &mut counters);
            match update {
                Update::Valid => known.state.to_string(),
                other => format!("{other:?}"),
            }
        })
        .collect()
}

const HANDSHAKE: [&str; 4] = [
    "chunks=init/7",
    "<tag=7 chunks=init-ack/9",
    "tag=9 chunks=cookie-echo,data",
    "<tag=7 chunks=cookie-ack,sack",
];

fn after_handshake(packets: &[&str]) -> Vec<String> {
    states(&[&HANDSHAKE[..], packets].concat()).split_off(HANDSHAKE.len())
}

#[test]
fn a_handshake() {
    assert_eq!(states(&HANDSHAKE), ["new CLOSED", "COOKIE_WAIT", "COOKIE_ECHOED", "ESTABLISHED"]);
}

#[test]
fn either_side_may_end_it() {
    let ends =
        ["tag=9 chunks=shutdown", "<tag=7 chunks=shutdown-ack", "tag=9 chunks=shutdown-complete"];
    assert_eq!(after_handshake(&ends), ["SHUTDOWN_SENT", "SHUTDOWN_ACK_SENT", "CLOSED"]);
    let ends =
        ["<tag=7 chunks=shutdown", "tag=9 chunks=shutdown-ack", "<tag=7 chunks=shutdown-complete"];
    assert_eq!(after_handshake(&ends), ["SHUTDOWN_RECD", "SHUTDOWN_ACK_SENT", "CLOSED"]);
    assert_eq!(after_handshake(&["<tag=7 chunks=abort"]), ["CLOSED"]);
    assert_eq!(after_handshake(&["<tag=9 chunks=abort!"]), ["CLOSED"]);
    assert_eq!(after_handshake(&["tag=9 chunks=abort", "chunks=init/3"]), ["CLOSED", "Reopens"]);
}

#[test]
fn a_wrong_tag_changes_nothing() {
    for packet in [
        "tag=7 chunks=shutdown",
        "<tag=9 chunks=abort",
        "tag=8 chunks=data",
        "<tag=7 chunks=abort!",
        "tag=8 chunks=cookie-echo",
        "<tag=8 chunks=init-ack/4",
    ] {
        let found = after_handshake(&[packet, "tag=9 chunks=data"]);
        assert_eq!(found, ["Invalid", "ESTABLISHED"], "{packet}");
    }
}

#[test]
fn a_forged_init_does_not_break_an_association() {
    let packets = [
        "chunks=init/5",
        "<chunks=init/6",
        "tag=9 chunks=data",
        "<tag=7 chunks=data",
        "tag=6 chunks=data",
        "<tag=5 chunks=data",
        "tag=9 chunks=shutdown",
    ];
    let expect = [
        "ESTABLISHED",
        "ESTABLISHED",
        "ESTABLISHED",
        "ESTABLISHED",
        "Invalid",
        "Invalid",
        "SHUTDOWN_SENT",
    ];
    assert_eq!(after_handshake(&packets), expect);
}

#[test]
fn a_side_that_restarts_gets_new_tags() {
    let packets = [
        "chunks=init/5",
        "<tag=5 chunks=init-ack/6",
        "tag=9 chunks=data",
        "tag=6 chunks=cookie-echo",
        "<tag=5 chunks=cookie-ack",
        "tag=9 chunks=data",
        "tag=6 chunks=data",
    ];
    let found = after_handshake(&packets);
    assert_eq!(found[2..4], ["ESTABLISHED", "ESTABLISHED"]);
    assert_eq!(found[4..], ["ESTABLISHED", "Invalid", "ESTABLISHED"]);
}

#[test]
fn both_sides_may_begin_at_once() {
    let packets = [
        "chunks=init/7",
        "<chunks=init/9",
        "<tag=7 chunks=init-ack/9",
        "tag=9 chunks=init-ack/7",
        "tag=9 chunks=cookie-echo",
        "<tag=7 chunks=cookie-echo",
        "<tag=7 chunks=cookie-ack",
    ];
    let found = states(&packets);
    assert_eq!(found.last().unwrap(), "ESTABLISHED", "{found:?}");
}

#[test]
fn one_that_began_unseen_is_picked_up() {
    let packets =
        ["tag=9 chunks=data", "<tag=7 chunks=sack", "tag=8 chunks=data", "tag=9 chunks=data"];
    assert_eq!(states(&packets), ["new HEARTBEAT_SENT", "ESTABLISHED", "Invalid", "ESTABLISHED"]);
    for first in
        ["init-ack/9", "cookie-echo", "cookie-ack", "shutdown-ack", "abort", "data,shutdown"]
    {
        let found = states(&[&format!("tag=9 chunks={first}")]);
        assert_eq!(found, [Event::SctpNew.name()], "{first}");
    }
}

#[test]
fn chunks_that_do_not_go_together() {
    for text in [
        "",
        "tag=1 chunks=init/7",
        "chunks=init/7,data",
        "chunks=data",
        "chunks=init/0",
        "tag=1 chunks=init-ack/0",
        "tag=1 chunks=init-ack/7,data",
        "tag=1 chunks=data,shutdown-complete",
        "tag=1 len=3",
    ] {
        assert_eq!(chunks(text), Err(Event::SctpChunks), "{text}");
    }
}

proptest! {
    #[test]
    fn nobody_who_knows_no_tag_moves_an_association(
        packets in proptest::collection::vec((any::<bool>(), 10..u32::MAX, 0..14usize, any::<bool>()), 0..30)
    ) {
        let names = [
            "data", "init/77", "init-ack/78", "sack", "heartbeat", "heartbeat-ack", "abort", "shutdown",
            "shutdown-ack", "error", "cookie-echo", "cookie-ack", "shutdown-complete", "data,sack",
        ];
        let mut counters = Counters::new();
        let mut association = Association::new(&chunks(HANDSHAKE[0]).unwrap()).0;
        for (at, text) in HANDSHAKE.iter().enumerate().skip(1) {
            let text = text.trim_start_matches('<');
            association.update(&chunks(text).unwrap(), at % 2 == 1, &mut counters);
        }
        let before = association;
        for (is_reply, tag, name, flag) in packets {
            // 77 and 78 are tags of forged INITs; a forger knows these, which does not help.
            let flag = if flag && !names[name].contains('/') { "!" } else { "" };
            let tag = if names[name].starts_with("init/") { 0 } else { tag };
            let forged = chunks(&format!("tag={tag} chunks={}{flag}", names[name]));
            if let Ok(forged) = forged {
                association.update(&forged, is_reply, &mut counters);
            }
            prop_assert_eq!((association.state, association.tags), (before.state, before.tags));
        }
    }

    #[test]
    fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(chunks) = Chunks::read(&bytes) {
            let _ = chunks.begins();
            let mut association = Association::new(&chunks).0;
            association.update(&chunks, true, &mut Counters::new());
        }
    }
}
