//! ICMP errors about a control connection whose lines were rewritten.

use crate::support;
use base::Instant;
use flow::{CtAction, CtState};

/// Each announcement of a port grew by seven bytes: after a dozen, quotes by a router were taken for data
/// that the client never sent.
#[test]
fn an_error_quotes_what_was_rewritten() {
    let tracked = support::tracker();
    let send = |text: &str, action: &CtAction| {
        let mut frame = support::frame(text);
        tracked.execute(Instant::from_millis(1), action, std::slice::from_mut(&mut frame));
        frame
    };
    let nat = Some(support::nat("src=130.100.100.100"));
    let commit = CtAction { nat, helper: Some("ftp"), ..support::commit(0) };
    let look = CtAction { nat: Some(flow::Nat::Restore), ..support::look(0) };
    let (client, server) = ("10.0.0.1:1000>20.0.0.1:21", "20.0.0.1:21>130.100.100.100:1000");
    send(&format!("{client} S seq=100 win=60000"), &commit);
    send(&format!("{server} SA seq=500 ack=101 win=60000"), &look);
    let user = "PA seq=101 ack=501 win=60000 data=USER%20joe%0d%0a";
    send(&format!("{client} {user}"), &look);
    let (mut seq, mut shift) = (111, 0);
    for n in 0..30 {
        let line = format!("PORT%2010,0,0,1,20,{n}%0d%0a");
        let text = format!("{client} PA seq={seq} ack=501 win=60000 data={line}");
        let before = support::frame(&text).packet.data().len();
        let frame = send(&text, &look);
        assert!(frame.key.ct_state().contains(CtState::EST), "{n}");
        // The line as a router saw it.
        let seen = seq + shift;
        let quoted = format!("130.100.100.100:1000>20.0.0.1:21 PA seq={seen} ack=501 win=60000");
        let error = send(&format!("20.0.0.9>130.100.100.100 icmp-error(3,1) ({quoted})"), &look);
        let state = error.key.ct_state();
        assert!(state.contains(CtState::REL) && !state.contains(CtState::INV), "{n}: {state}");
        seq += format!("PORT 10,0,0,1,20,{n}").len() as u32 + 2;
        shift += (frame.packet.data().len() - before) as u32;
        send(&format!("{server} A seq=501 ack={} win=60000", seq + shift), &look);
    }
    assert_eq!(shift, 30 * 7);
    // Numbers that were not sent are still refused.
    let far = format!("130.100.100.100:1000>20.0.0.1:21 A seq={} ack=501 win=9", seq + shift + 100);
    let error = send(&format!("20.0.0.9>130.100.100.100 icmp-error(3,1) ({far})"), &look);
    assert!(error.key.ct_state().contains(CtState::INV));
}
