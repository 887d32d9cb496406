//! Any bytes as OpenFlow, in every version: what can be read is written again, and read again it is
//! the same.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use openflow::message::PacketInFormat;
use openflow::{DecodeOptions, EncodeOptions, Framer, Message, Version, decode, encode};
use tidegate_fuzz::openflow_stream::{PREFIX_LEN, mend_length, messages, mutate, version_of};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed, fuzzer_mutate)
});

fuzz_target!(|data: &[u8]| {
    let Some((prefix, stream)) = data.split_at_checked(PREFIX_LEN) else { return };
    cut_into_messages(stream, usize::from(prefix[0]).max(1));
    let flow_mod_table_id = prefix[1] & 1 != 0;
    for mut message in messages(stream) {
        mend_length(&mut message);
        round_trip(&message, flow_mod_table_id);
    }
});

/// The framer gives the same messages however the bytes arrive.
fn cut_into_messages(stream: &[u8], step: usize) {
    let mut framers = [Framer::new(), Framer::new()];
    framers[0].push(stream);
    let mut got = [Vec::new(), Vec::new()];
    let mut is_over = false;
    for chunk in stream.chunks(step) {
        framers[1].push(chunk);
        while !is_over {
            match framers[1].next_message() {
                Ok(Some(message)) => got[1].push(message),
                Ok(None) => break,
                Err(_) => is_over = true,
            }
        }
    }
    while let Ok(Some(message)) = framers[0].next_message() {
        got[0].push(message);
    }
    assert_eq!(got[0], got[1]);
}

fn round_trip(bytes: &[u8], flow_mod_table_id: bool) {
    let version = version_of(bytes[0]);
    let mut bytes = bytes.to_vec();
    bytes[0] = version as u8;
    let decode_options = DecodeOptions { flow_mod_table_id };
    let Ok((xid, message)) = decode(version, &bytes, &decode_options) else { return };
    // The form of packet-ins that says all that one can hold.
    let options = EncodeOptions { flow_mod_table_id, packet_in_format: PacketInFormat::Nxt2 };
    let written = encode(version, xid, &message, &options);
    let [once] = written.as_slice() else {
        assert!(matches!(message, Message::StatsReply(_)), "{message:?}");
        return;
    };
    let back = match decode(version, once, &decode_options) {
        Ok((back_xid, back)) => {
            assert_eq!(xid, back_xid);
            back
        }
        // Written with all that a form leaves out, a message may grow out of its length field.
        Err(_) if once.len() > 60_000 => return,
        Err(error) => panic!("{version:?} {error}: {message:?} {once:02x?}"),
    };
    // Nicira's form of what a later version has a form for is written in that one.
    let is_vendors = version != Version::V10 && bytes[1] == 4;
    if is_read_by_switches(&message) && !is_vendors {
        let (before, after) = (without_actions(&message), without_actions(&back));
        assert_eq!(before, after, "{version:?} {once:02x?}");
    }
    // What we only say is made regular when it is written: names, times, padding. So are actions
    // that a version has two forms for.
    let twice = encode(version, xid, &back, &options);
    assert_eq!(&twice[0], once, "{version:?} {message:?}");
}

/// The message, and how many actions it had.
fn without_actions(message: &Message) -> (Message, usize) {
    let mut message = message.clone();
    let actions = match &mut message {
        Message::FlowMod(flow_mod) => std::mem::take(&mut flow_mod.actions),
        Message::PacketOut(packet_out) => std::mem::take(&mut packet_out.actions),
        _ => Vec::new(),
    };
    (message, actions.len())
}

fn is_read_by_switches(message: &Message) -> bool {
    !matches!(
        message,
        Message::StatsReply(_)
            | Message::FeaturesReply { .. }
            | Message::PortStatus { .. }
            | Message::FlowRemoved { .. }
            | Message::BundleAdd { .. }
    )
}
