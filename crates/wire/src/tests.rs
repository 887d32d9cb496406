//! The contract of the views: after `new_checked` no accessor panics, whatever the bytes are, also after
//! setters.

use std::hint::black_box;

use base::MacAddr;
use proptest::prelude::*;

use crate::ethernet::resolve_type;
use crate::ipv6::Extensions;
use crate::*;

/// Calls every accessor of every view that accepts `bytes`.
fn read_all(bytes: &[u8]) {
    if let Ok(v) = Ethernet::new_checked(bytes) {
        black_box((v.destination(), v.source(), resolve_type(v.ethertype(), v.payload())));
    }
    if let Ok(v) = Vlan::new_checked(bytes) {
        black_box((v.tci(), v.tci().vid(), v.tci().pcp(), v.ethertype(), v.payload()));
    }
    if let Ok(v) = Arp::new_checked(bytes) {
        black_box((v.operation(), v.sender_mac(), v.sender_ip(), v.target_mac(), v.target_ip()));
    }
    for v in [Ipv4::new_checked(bytes), Ipv4::new_quoted(bytes)].into_iter().flatten() {
        read_ipv4(&v);
    }
    for v in [Ipv6::new_checked(bytes), Ipv6::new_quoted(bytes)].into_iter().flatten() {
        black_box((v.traffic_class(), v.flow_label(), v.payload_len(), v.next_header()));
        black_box((v.hop_limit(), v.source(), v.destination(), v.payload()));
        let _ = black_box(v.extensions());
    }
    if let Ok(v) = Tcp::new_checked(bytes) {
        read_tcp(&v);
    }
    if let Ok(v) = Udp::new_checked(bytes) {
        black_box((v.source_port(), v.destination_port(), v.length(), v.checksum(), v.payload()));
    }
    if let Ok(v) = Sctp::new_checked(bytes) {
        black_box((v.source_port(), v.destination_port(), v.verification_tag(), v.checksum()));
        black_box(v.payload());
    }
    if let Ok(v) = Icmp::new_checked(bytes) {
        black_box((v.icmp_type(), v.code(), v.checksum(), v.rest(), v.echo_id(), v.echo_seq()));
        black_box((v.is_error(), v.payload()));
    }
    if let Ok(v) = Icmpv6::new_checked(bytes) {
        read_icmpv6(&v);
    }
    read_tunnels(bytes);
    for upper in [UpperLayer::find(bytes), UpperLayer::find_quoted(bytes)].into_iter().flatten() {
        black_box((upper.segment(bytes), upper.ports(bytes), upper.checksum_at()));
        black_box(upper.verify(bytes));
    }
}

fn read_tunnels(bytes: &[u8]) {
    if let Ok(v) = Vxlan::new_checked(bytes) {
        black_box((v.flags(), v.vni(), v.next_protocol(), v.group_policy(), v.payload()));
    }
    if let Ok(v) = Geneve::new_checked(bytes) {
        black_box((v.flags(), v.vni(), v.protocol(), v.header_len(), v.payload()));
        assert!(v.options().len() <= geneve::OPTIONS_LEN_MAX);
        black_box(geneve::read_options(v.options()).count());
    }
    if let Ok(v) = Gre::new_checked(bytes) {
        black_box((v.flags(), v.key(), v.protocol(), v.payload()));
        assert_eq!(v.header_len() + v.payload().len(), bytes.len());
    }
    if let Ok(v) = Erspan::new_checked(bytes) {
        black_box((v.version(), v.session(), v.index(), v.direction(), v.hardware()));
        assert_eq!(v.header_len() + v.payload().len(), bytes.len());
    }
    if let Ok(v) = Gtpu::new_checked(bytes) {
        black_box((v.flags(), v.message_type(), v.endpoint(), v.next_extension()));
        assert_eq!(v.header_len() + v.payload().len(), gtpu::HEADER_LEN + v.length());
    }
}

fn read_ipv4<T: AsRef<[u8]>>(v: &Ipv4<T>) {
    black_box((v.header_len(), v.tos(), v.total_len(), v.id(), v.dont_fragment()));
    black_box((v.more_fragments(), v.fragment_offset(), v.fragment(), v.ttl(), v.protocol()));
    black_box((v.checksum(), v.source(), v.destination(), v.header(), v.options(), v.payload()));
}

fn read_tcp<T: AsRef<[u8]>>(v: &Tcp<T>) {
    black_box((v.source_port(), v.destination_port(), v.seq(), v.ack(), v.header_len()));
    black_box((v.flags(), v.window(), v.checksum(), v.options().count()));
    black_box((v.window_scale(), v.payload()));
}

fn read_icmpv6<T: AsRef<[u8]>>(v: &Icmpv6<T>) {
    black_box((v.icmp_type(), v.code(), v.checksum(), v.rest(), v.echo_id(), v.echo_seq()));
    black_box((v.is_error(), v.nd_target(), v.nd_options().count(), v.payload()));
    black_box((v.nd_source_link(), v.nd_target_link()));
}

/// Random bytes, partly with first bytes that pass the checks of versions and lengths.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let starts = vec![
        vec![],
        vec![0x45, 0, 0, 40],
        vec![0x4f, 0, 0, 60],
        vec![0x60, 0, 0, 0, 0, 20, 0],
        vec![0x60, 0, 0, 0, 0, 20, 44],
        vec![0, 1, 8, 0, 6, 4],
        vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa0],
        vec![135, 0],
        vec![136, 0],
        vec![8, 0, 0, 0, 0, 0, 1, 0],
        vec![12, 0, 0, 3, 0, 0, 1, 0],
        vec![0x88, 8, 0, 7, 0, 0, 1, 0],
        vec![2, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 2, 3, 1],
        vec![0xb0, 0, 0x65, 0x58],
        vec![0x10, 0, 0, 1],
        vec![0x20, 0, 0, 1],
        vec![0x32, 255, 0, 20],
    ];
    let tail = prop::collection::vec(any::<u8>(), 0..150);
    (prop::sample::select(starts), tail).prop_map(|(start, tail)| [start, tail].concat())
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in bytes()) {
        read_all(&bytes);
    }

    /// Lengths of a checked view lie within the bytes.
    #[test]
    fn lengths_hold(bytes in bytes()) {
        if let Ok(v) = Ipv4::new_checked(&bytes[..]) {
            prop_assert_eq!(v.header().len() + v.payload().len(), v.total_len());
        }
        if let Ok(v) = Ipv6::new_checked(&bytes[..]) {
            prop_assert_eq!(v.payload().len(), v.payload_len());
        }
        if let Ok(v) = Tcp::new_checked(&bytes[..]) {
            prop_assert_eq!(v.header_len() + v.payload().len(), bytes.len());
        }
        if let Ok(v) = Udp::new_checked(&bytes[..]) {
            prop_assert_eq!(8 + v.payload().len(), v.length());
        }
        if let Ok(upper) = UpperLayer::find(&bytes) {
            prop_assert!(upper.start <= upper.end && upper.end <= bytes.len());
        }
    }

    #[test]
    fn extension_walk_ends_inside(first: u8, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(walk) = Extensions::walk(first, &bytes) {
            prop_assert!(walk.len <= bytes.len());
        }
    }

    /// Setters may make length fields invalid; accessors must not panic.
    #[test]
    fn setters_do_not_break_the_contract(bytes in bytes(), word: u16, byte: u8, wide: u128) {
        let owned = || bytes.clone();
        if let Ok(mut v) = Ipv4::new_checked(owned()) {
            v.set_total_len(word);
            v.set_fragment_field(word);
            v.set_source((wide as u32).into());
            prop_assert_eq!(v.source().to_bits(), wide as u32);
            prop_assert_eq!(v.total_len(), usize::from(word));
            read_ipv4(&v);
        }
        if let Ok(mut v) = Ipv6::new_checked(owned()) {
            let label = v.flow_label();
            v.set_traffic_class(byte);
            prop_assert_eq!((v.traffic_class(), v.flow_label()), (byte, label));
            v.set_flow_label(wide as u32);
            prop_assert_eq!((v.traffic_class(), v.flow_label()), (byte, wide as u32 & 0xf_ffff));
            v.set_payload_len(word);
            v.set_destination(wide.into());
            prop_assert_eq!(u128::from(v.destination()), wide);
            let _ = (v.payload().len(), v.extensions());
        }
        if let Ok(mut v) = Icmpv6::new_checked(owned()) {
            v.set_nd_target(wide.into());
            read_icmpv6(&v);
        }
        if let Ok(mut v) = Ethernet::new_checked(owned()) {
            let (a, b) = (MacAddr::from_u64(wide as u64), MacAddr::from_u64((wide >> 64) as u64));
            v.set_source(a);
            v.set_destination(b);
            prop_assert_eq!((v.source(), v.destination()), (a, b));
        }
    }
}
