//! Malformed messages: each gets a reply or closes its connection, and none panics.

use super::bench::{Bench, add_flow};
use super::replay::sent;
use crate::connection::Settings;
use openflow::message::{Message, Role, StatsRequest, Version};
use openflow::{EncodeOptions, encode};
use proptest::prelude::*;
use std::sync::LazyLock;

const VERSIONS: [Version; 6] = Version::ALL;

fn messages() -> Vec<Message> {
    let add = |message| Message::BundleAdd {
        bundle: 1,
        flags: 0,
        xid: 7,
        message: Box::new(message),
        bytes: Vec::new(),
    };
    vec![
        Message::EchoRequest(vec![1, 2, 3]),
        Message::FeaturesRequest,
        Message::GetConfigRequest,
        Message::SetConfig { flags: 0, miss_send_len: 1 },
        Message::BarrierRequest,
        Message::FlowMod(add_flow(3)),
        Message::RoleRequest { role: Role::Primary, generation: Some(3) },
        Message::StatsRequest(StatsRequest::Desc),
        Message::StatsRequest(StatsRequest::Table),
        Message::StatsRequest(StatsRequest::TableFeatures { tables: vec![], more: false }),
        Message::StatsRequest(StatsRequest::Port(base::OfPort::NONE)),
        Message::StatsRequest(StatsRequest::PortDesc(base::OfPort::NONE)),
        Message::BundleControl { bundle: 1, control: 0, flags: 0 },
        add(Message::FlowMod(add_flow(4))),
        Message::BundleControl { bundle: 1, control: 4, flags: 0 },
        Message::SetControllerId(2),
        Message::CtFlushZone(3),
        Message::CtFlush(Box::default()),
        Message::StatsRequest(StatsRequest::Queue(openflow::message::QueueRequest {
            port: base::OfPort::NONE,
            queue: None,
        })),
    ]
}

#[test]
fn every_type_and_every_shorter_length_is_answered() {
    for version in VERSIONS {
        for kind in 0..=255u8 {
            let mut bench = Bench::new(0);
            let id = bench.connect(Settings::service(), version);
            bench.send(id, &[version as u8, kind, 0, 8, 0, 0, 0, 9]);
            let answers = bench.take(id);
            // An empty body is complete for OFPT_ECHO_REPLY, and from 1.4 on for OFPT_SET_ASYNC, which then
            // sets nothing.
            let is_heard = kind == 3 || (kind == 28 && version >= Version::V14);
            assert_eq!(answers.len(), usize::from(!is_heard), "{version:?} {kind}: {answers:?}");
            assert!(bench.connections.is_closing(id).is_none());
        }
        for message in messages() {
            let whole = encode(version, 9, &message, &EncodeOptions::default()).concat();
            for len in 8..whole.len() {
                let mut bench = Bench::new(0);
                let id = bench.connect(Settings::service(), version);
                let mut cut = whole[..len].to_vec();
                cut[2..4].copy_from_slice(&(len as u16).to_be_bytes());
                bench.send(id, &cut);
                let answers = bench.take(id);
                if matches!(message, Message::FlowMod(_)) && bench.flows() == 1 {
                    // A flow-mod may end before its actions: it drops packets.
                    assert!(answers.is_empty());
                    continue;
                }
                let is_echo = matches!(message, Message::EchoRequest(_));
                assert_eq!(answers.len(), 1, "{version:?} {message:?} of {len} bytes");
                assert_eq!(answers[0][1], if is_echo { 3 } else { 1 }, "{message:?} {len}");
                if !is_echo {
                    // The error quotes the whole message and its transaction id.
                    assert!(answers[0].ends_with(&cut) && answers[0][4..8] == cut[4..8]);
                }
            }
        }
    }
}

/// Messages to mutate: our own, and those that tools and a test suite sent to another switch.
fn seeds(version: Version) -> &'static [Vec<u8>] {
    static SEEDS: LazyLock<[Vec<Vec<u8>>; 6]> = LazyLock::new(|| {
        VERSIONS.map(|version| {
            let own = messages();
            let own = own.iter().map(|m| encode(version, 9, m, &EncodeOptions::default()).concat());
            let files: &[&str] = match version {
                Version::V10 => &["tools-10.txt", "errors-1.txt"],
                Version::V11 | Version::V12 => &[],
                Version::V13 => &["tools-13.txt", "errors-4.txt"],
                Version::V14 => &["tools-14.txt"],
                Version::V15 => &["tools-15.txt", "errors-6.txt"],
            };
            // A wrong length field ends the stream.
            let is_whole = |m: &Vec<u8>| m.len() >= 8 && m[2..4] == (m.len() as u16).to_be_bytes();
            own.chain(files.iter().flat_map(|file| sent(file)).filter(is_whole)).collect()
        })
    });
    let place = VERSIONS.iter().position(|other| *other == version).unwrap();
    &SEEDS[place]
}

proptest! {
    #[test]
    fn broken_messages_harm_nobody(
        version in 0usize..6,
        picks in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::collection::vec((any::<u16>(), any::<u8>()), 0..6)),
            1..12,
        ),
        chunk in 1usize..200,
    ) {
        let version = VERSIONS[version];
        let mut bench = Bench::new(0);
        let [id, other] = [(); 2].map(|()| bench.connect(Settings::controller(), version));
        let mut stream = Vec::new();
        for (pick, changes) in picks {
            let mut bytes = pick.get(seeds(version)).clone();
            for (place, value) in changes {
                let len = bytes.len();
                bytes[usize::from(place) % len] = value;
            }
            stream.extend(bytes);
        }
        for bytes in stream.chunks(chunk) {
            bench.send(id, bytes);
        }
        bench.pass(100);
        // All replies are valid OpenFlow, and the other connection continues.
        bench.take(id);
        prop_assert!(bench.ask(other, &Message::BarrierRequest).contains(&Message::BarrierReply));
    }
}
