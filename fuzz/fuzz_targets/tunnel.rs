//! Any bytes as a tunnel's packet and as what is in one: every protocol's parser, the short reading beside
//! the whole one, and outer headers put in front of any packet and taken away again.

#![no_main]

use base::MacAddr;
use flow::{TunnelEnd, TunnelKind};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use std::net::IpAddr;
use tunnel::{Envelope, Inner, Outer, PacketType, TunnelConfig};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    kind: u8,
    is_ipv6: bool,
    trusted: bool,
    key: u64,
    tos: u8,
    checksum: bool,
    oam: bool,
    options: &'a [u8],
    group: (u8, u16),
    erspan: (u8, u32, u8, u8),
    gtpu: (u8, u8),
    packet: Option<u16>,
    configured: Vec<(&'a str, &'a str)>,
    /// Bytes of the outer headers that are other ones in the end.
    changes: Vec<(u8, u8)>,
    bytes: &'a [u8],
}

/// What is taken out lies in what was read, and the short reading agrees with the whole one.
fn read(end: TunnelEnd, frame: &[u8], trusted: bool) {
    let short = Envelope::read(end.kind, frame);
    let Ok(found) = tunnel::decapsulate(end, frame, trusted) else { return };
    assert!(found.header_len <= found.end && found.end <= frame.len());
    let options: usize =
        wire::geneve::read_options(found.metadata.options).map(|it| 4 + it.value.len()).sum();
    assert_eq!(options, found.metadata.options.len());
    if let Some(short) = short
        && found.inner == Inner::Frame
    {
        assert_eq!((short.len, short.end), (found.header_len, found.end));
        assert_eq!(short.options, found.metadata.options);
        assert!(short.is_right(frame, trusted));
    }
}

fuzz_target!(|input: Input<'_>| {
    let kind = TunnelKind::ALL[usize::from(input.kind) % TunnelKind::ALL.len()];
    let (group_policy, payload_type) = (input.oam, input.packet.unwrap_or_default());
    read(TunnelEnd { kind, group_policy, payload_type }, input.bytes, input.trusted);
    let mut configured: std::collections::BTreeMap<String, String> = input
        .configured
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    configured.entry("remote_ip".to_owned()).or_insert("flow".to_owned());
    configured.entry("key".to_owned()).or_insert("flow".to_owned());
    let Ok(config) = TunnelConfig::parse(kind, "t", &configured).config else { return };
    let ends = match input.is_ipv6 {
        true => [
            IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]),
            IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 2]),
        ],
        false => [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])],
    };
    let whole =
        wire::geneve::read_options(input.options).map(|it| 4 + it.value.len()).sum::<usize>();
    let outer = Outer {
        ethernet: (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        source: ends[0],
        destination: ends[1],
        tos: input.tos,
        ttl: 64,
        dont_fragment: true,
        checksum: input.checksum,
        oam: input.oam,
        key: input.key,
        options: &input.options[..whole],
        group: input.group,
        erspan: input.erspan,
        gtpu: input.gtpu,
        packet: input.packet.or((config.packet_type == PacketType::LegacyL3).then_some(0x0800)),
    };
    let Some(header) = tunnel::build(&config, &outer) else { return };
    let mut frame = header.to_vec();
    frame.extend(input.bytes);
    if tunnel::finish(
        &mut frame,
        kind,
        40_000,
        &flow::TunnelSequence::default(),
        base::Instant::ZERO,
    )
    .is_none()
    {
        return;
    }
    read(config.end(), &frame, input.trusted);
    for (at, byte) in &input.changes {
        if let Some(place) = frame.get_mut(usize::from(*at) % header.len()) {
            *place = *byte;
        }
    }
    read(config.end(), &frame, input.trusted);
});
