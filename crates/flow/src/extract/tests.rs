//! Extraction of whole, truncated and malformed frames.

use super::*;
use crate::frame::Frame;
use base::PortNo;
use packet::Packet;
use proptest::prelude::*;

const TCP_FRAME: &str = "020000000002 020000000001 0800 4500002c00010000400600000a0000010a000002 \
                         03e8005000000001000000005002ffff00000000 020405b4";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |d: u8| (d as char).to_digit(16).unwrap() as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn check(hex: &str, expect: &[(Field, u128)], l4: Option<u16>) {
    check_within(1, hex, expect, l4);
}

/// Extracts with this limit of VLAN headers.
fn check_within(vlans: u32, hex: &str, expect: &[(Field, u128)], l4: Option<u16>) {
    let mut key = FlowKey::new();
    let layers = extract(&bytes(hex), VlanLimit::new(vlans), &mut key).unwrap();
    let mut want = FlowKey::new();
    for &(field, value) in expect {
        want.set(field, value);
    }
    for &field in Field::BASIC {
        if !matches!(field, Field::EthSrc | Field::EthDst) {
            assert_eq!(key.get(field), want.get(field), "{field:?} of {hex}");
        }
    }
    assert_eq!(layers.l4, l4, "{hex}");
}

#[test]
fn whole_frames() {
    use Field::*;
    let ip =
        [(EthType, 0x800), (Ipv4Src, 0x0a000001), (Ipv4Dst, 0x0a000002), (NwProto, 6), (NwTtl, 64)];
    let tcp = [&ip[..], &[(TpSrc, 1000), (TpDst, 80), (TcpFlags, 2)]].concat();
    check(TCP_FRAME, &tcp, Some(34));
    let tagged = TCP_FRAME.replacen("0800 ", "8100 600a 0800 ", 1);
    let with_tag = [&tcp[..], &[(VlanTpid, 0x8100), (VlanTci, 0x700a)]].concat();
    check(&tagged, &with_tag, Some(38));
    let twice = TCP_FRAME.replacen("0800 ", "88a8 0005 8100 000a 0800 ", 1);
    check(&twice, &[(VlanTpid, 0x88a8), (VlanTci, 0x1005), (EthType, 0x8100)], None);
    let later = TCP_FRAME.replacen("00010000", "00010001", 1);
    check(&later, &[&ip[..], &[(NwFrag, 3)]].concat(), None);
    let first = TCP_FRAME.replacen("00010000", "00012000", 1);
    check(&first, &[&tcp[..], &[(NwFrag, 1)]].concat(), Some(34));
    // With a data offset inside the fixed header or beyond the packet, nothing of the TCP header is
    // extracted.
    for offset in ["4002", "7002", "f002"] {
        check(&TCP_FRAME.replacen("5002", offset, 1), &ip, None);
    }
    check(&TCP_FRAME.replacen("5002", "6002", 1), &tcp, Some(34));
    check(
        "ffffffffffff 020000000001 0806 00010800060400010200000000010a0000010000000000000a000002",
        &[
            (EthType, 0x806),
            (ArpSpa, 0x0a000001),
            (ArpTpa, 0x0a000002),
            (ArpOp, 1),
            (ArpSha, 0x020000000001),
        ],
        None,
    );
    check("020000000002 020000000001 0026 424203", &[(EthType, 0x5ff)], None);
    check("020000000002 020000000001 0026 aaaa03 000000 0800 45", &[(EthType, 0x800)], None);
}

#[test]
fn tags_are_read_up_to_the_limit_and_further_ones_are_payload() {
    use Field::*;
    let (service, inner) =
        ([(VlanTpid, 0x88a8), (VlanTci, 0x1005)], [(VlanTpid1, 0x8100), (VlanTci1, 0x700a)]);
    let both = [&service[..], &inner[..]].concat();
    let with = |tags: &[(Field, u128)], eth_type| [tags, &[(EthType, eth_type)]].concat();
    let ip = [(Ipv4Src, 0x0a000001), (Ipv4Dst, 0x0a000002), (NwProto, 6), (NwTtl, 64)];
    let tcp = [&ip[..], &[(TpSrc, 1000), (TpDst, 80), (TcpFlags, 2)]].concat();
    let whole = |tags: &[(Field, u128)]| [&with(tags, 0x800)[..], &tcp[..]].concat();
    let frame = |tags: &str| TCP_FRAME.replacen("0800 ", &format!("{tags} 0800 "), 1);
    let (one, two) = (frame("88a8 0005"), frame("88a8 0005 8100 600a"));
    let three = frame("88a8 0005 8100 600a 8100 0007");
    check_within(1, &one, &whole(&service), Some(38));
    check_within(2, &one, &whole(&service), Some(38));
    check_within(1, &two, &with(&service, 0x8100), None);
    check_within(2, &two, &whole(&both), Some(42));
    check_within(1, &three, &with(&service, 0x8100), None);
    check_within(2, &three, &with(&both, 0x8100), None);
    // A second tag that is truncated, or that no type follows, does not count.
    let cut = |bytes: usize| two.chars().filter(|c| *c != ' ').take(bytes * 2).collect::<String>();
    for bytes in 18..22 {
        check_within(2, &cut(bytes), &with(&service, 0x8100), None);
    }
    check_within(2, &cut(22), &with(&both, 0x800), None);
    // Tags of another TPID do not count.
    check_within(
        2,
        &frame("8100 700a 9100 0005"),
        &[(VlanTpid, 0x8100), (VlanTci, 0x700a), (EthType, 0x9100)],
        None,
    );
}

/// A packet that waited for the control side is parsed with as many tags as before, whatever the limit is
/// now, and with the tags that were pushed meanwhile.
#[test]
fn a_packet_is_read_again_with_as_many_tags_as_its_key_has() {
    let twice = TCP_FRAME.replacen("0800 ", "88a8 0005 8100 000a 0800 ", 1);
    let packet = || Packet::from_bytes(&bytes(&twice));
    for (limit, layers) in [(1, (18, None)), (2, (22, Some(42)))] {
        let frame = Frame::parse_within(packet(), PortNo(1), VlanLimit::new(limit)).unwrap();
        assert_eq!((frame.layers.l3, frame.layers.l4), layers);
        let again = Frame::parse_as(packet(), &frame.key).unwrap();
        assert_eq!((&again.key, again.layers), (&frame.key, frame.layers));
        let again = Frame::resume(packet(), &frame.key).unwrap();
        assert_eq!(again.layers, frame.layers);
    }
}

#[test]
fn ipv6_with_extension_headers_and_neighbour_discovery() {
    use Field::*;
    let head = "333300000001 020000000001 86dd";
    let addresses = "fe800000000000000000000000000001 fe800000000000000000000000000002";
    let (src, dst) = (0xfe80u128 << 112 | 1, 0xfe80u128 << 112 | 2);
    let ip = |protocol: u128| {
        vec![
            (EthType, 0x86dd),
            (Ipv6Src, src),
            (Ipv6Dst, dst),
            (NwProto, protocol),
            (NwTtl, 255),
            (NwTos, 0x20),
            (Ipv6Label, 0x12345),
        ]
    };
    let udp = [ip(17), vec![(TpSrc, 53), (TpDst, 54)]].concat();
    let hop = format!("{head} 62012345 0010 00 ff {addresses} 11000104 00000000 0035003600080000");
    check(&hop, &udp, Some(62));
    let first =
        format!("{head} 62012345 0010 2c ff {addresses} 11000001 00000007 0035003600080000");
    check(&first, &[udp.clone(), vec![(NwFrag, 1)]].concat(), Some(62));
    let atomic =
        format!("{head} 62012345 0010 2c ff {addresses} 11000000 00000007 0035003600080000");
    check(&atomic, &udp, Some(62));
    // Only the first fragment contains the protocol.
    let later =
        format!("{head} 62012345 0010 2c ff {addresses} 11000009 00000007 0035003600080000");
    check(&later, &[ip(44), vec![(NwFrag, 3)]].concat(), None);
    let lying =
        format!("{head} 62012345 0010 00 ff {addresses} 11ff0104 00000000 0035003600080000");
    check(&lying, &[(EthType, 0x86dd), (Ipv6Src, src), (Ipv6Dst, dst)], None);
    let solicit = format!(
        "{head} 62012345 0020 3a ff {addresses} 87000000 00000000 \
         fe800000000000000000000000000009 0101020000000001"
    );
    let nd =
        [ip(58), vec![(TpSrc, 135), (NdTarget, 0xfe80u128 << 112 | 9), (NdSll, 0x020000000001)]];
    check(&solicit, &[nd.concat(), vec![(NdOptionsType, 1)]].concat(), Some(54));
}

#[test]
fn neighbour_discovery_is_read_as_in_open_vswitch() {
    use Field::*;
    const TARGET: u128 = 0xfe80 << 112 | 9;
    const MAC: u128 = 0x0200_0000_0001;
    let mac = |kind: u8| format!("{kind:02x}01020000000001");
    // Type, code, reserved word, options, and what is extracted besides target and type.
    type Fields = &'static [(Field, u128)];
    let cases: [(&str, &str, String, Fields); 9] = [
        ("8800", "60000000", mac(2), &[(NdReserved, 3 << 29), (NdOptionsType, 2), (NdTll, MAC)]),
        ("8700", "00000000", mac(2), &[(NdOptionsType, 2), (NdTll, MAC)]),
        ("8700", "00000001", String::new(), &[(NdReserved, 1)]),
        ("8800", "00000000", mac(1) + &mac(2), &[(NdOptionsType, 1), (NdSll, MAC), (NdTll, MAC)]),
        ("8800", "00000000", mac(2) + &mac(1), &[(NdOptionsType, 2), (NdSll, MAC), (NdTll, MAC)]),
        ("8700", "00000000", mac(14) + &mac(1), &[(NdOptionsType, 1), (NdSll, MAC)]),
        // Options after a malformed one are not parsed.
        ("8700", "00000000", mac(1) + "0200020000000001", &[(NdOptionsType, 1), (NdSll, MAC)]),
        // A repeated address option invalidates the target and the addresses only.
        ("8700", "00000000", mac(1) + &mac(1), &[(NdTarget, 0), (NdOptionsType, 1)]),
        // Other messages have no such fields.
        ("8701", "60000000", mac(1), &[(NdTarget, 0), (TpDst, 1)]),
    ];
    for (kind, reserved, options, fields) in cases {
        let len = 24 + options.len() / 2;
        let text = format!(
            "02000000000b 02000000000a 86dd 60000000 {len:04x} 3a ff {0:032x} {1:032x} \
             {kind}0000 {reserved} {TARGET:032x} {options}",
            1, 2
        );
        let mut key = FlowKey::new();
        extract(&bytes(&text), VlanLimit::MAX, &mut key).unwrap();
        let mut expect = FlowKey::new();
        expect.set(NdTarget, TARGET);
        fields.iter().for_each(|&(field, value)| expect.set(field, value));
        for field in [NdReserved, NdTarget, NdOptionsType, NdSll, NdTll, TpDst] {
            assert_eq!(key.get(field), expect.get(field), "{field:?} of {text}");
        }
        let mut again = key.clone();
        reread_icmpv6(&bytes(&text)[54..], &mut again);
        assert_eq!(again, key, "{text}");
    }
}

#[test]
fn frames_cut_at_every_byte_read_a_prefix_of_the_key() {
    let whole = bytes(TCP_FRAME);
    let mut full = FlowKey::new();
    extract(&whole, VlanLimit::MAX, &mut full).unwrap();
    for len in 0..whole.len() {
        let mut key = FlowKey::new();
        match extract(&whole[..len], VlanLimit::MAX, &mut key) {
            None => assert!(len < 14, "{len}"),
            Some(layers) => {
                assert_eq!(key.eth_type(), 0x800);
                assert_eq!((key.nw_proto(), layers.l4), (0, None), "cut to {len}");
            }
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = extract(&data, VlanLimit::MAX, &mut FlowKey::new());
    }

    #[test]
    fn no_change_of_a_good_frame_makes_it_panic(
        at in 0usize..58, value: u8, cut in 0usize..58,
    ) {
        let mut data = bytes(TCP_FRAME);
        data[at] = value;
        data.truncate(58 - cut);
        let mut key = FlowKey::new();
        if let Some(layers) = extract(&data, VlanLimit::MAX, &mut key) {
            prop_assert!(layers.l4.is_none_or(|l4| usize::from(l4) <= data.len()));
        }
    }
}
