//! The hash functions by which Open vSwitch chooses links (ovs: `lib/flow.c`, `flow_hash_fields`).
//!
//! Two switches that choose by the same fields choose the same link, so that flows keep their paths when one kind of
//! switch replaces the other. The functions are Bob Jenkins' lookup3 and the body and finalizer of Austin Appleby's
//! MurmurHash3. Open vSwitch uses CRC-32C in place of the latter where it is compiled for SSE 4.2 or ARMv8's CRC
//! instructions; the builds of distributions for x86-64 are not.

use flow::{FRAG_ANY, Field, FlowKey};
use openflow::action::HashFields;
use wire::{ethertype, protocol};

/// The hash of a packet's fields.
pub fn hash(key: &FlowKey, fields: HashFields, basis: u16) -> u32 {
    let basis = basis.into();
    match fields {
        HashFields::EthSrc => lookup3(&bytes::<6>(key.get(Field::EthSrc)), basis),
        HashFields::NwSrc => address(key, basis, |(source, _)| source),
        HashFields::NwDst => address(key, basis, |(_, destination)| destination),
        HashFields::SymmetricL3 => {
            let mut image = [0; 20];
            image[..16].copy_from_slice(&address_image(key));
            image[16..18].copy_from_slice(&key.eth_type().to_be_bytes());
            lookup3(&image, basis)
        }
        HashFields::SymmetricL4 => symmetric_l4(key, basis),
        HashFields::SymmetricL3L4 => symmetric_l3l4(key, basis, false),
        HashFields::SymmetricL3L4Udp => symmetric_l3l4(key, basis, true),
    }
}

/// The hash of two words (ovs: `lib/hash.h`, `hash_2words`).
pub fn hash_2words(first: u32, second: u32) -> u32 {
    finish(add(add(first, 0), second), 8)
}

/// The lowest `N` bytes of a value, in network order.
fn bytes<const N: usize>(value: u128) -> [u8; N] {
    let all = value.to_be_bytes();
    std::array::from_fn(|at| all[16 - N + at])
}

/// The addresses of an IP packet.
fn addresses(key: &FlowKey) -> Option<(u128, u128)> {
    let (source, destination) = match key.eth_type() {
        ethertype::IPV4 => (Field::Ipv4Src, Field::Ipv4Dst),
        ethertype::IPV6 => (Field::Ipv6Src, Field::Ipv6Dst),
        _ => return None,
    };
    Some((key.get(source), key.get(destination)))
}

fn address(key: &FlowKey, basis: u32, which: impl Fn((u128, u128)) -> u128) -> u32 {
    match (key.eth_type(), addresses(key).map(which)) {
        (ethertype::IPV4, Some(address)) => lookup3(&bytes::<4>(address), basis),
        (_, Some(address)) => lookup3(&bytes::<16>(address), basis),
        (_, None) => basis,
    }
}

/// The exclusive or of both addresses, at the front.
fn address_image(key: &FlowKey) -> [u8; 16] {
    let both = addresses(key).map_or(0, |(source, destination)| source ^ destination);
    match key.eth_type() {
        ethertype::IPV4 => (both << 96).to_be_bytes(),
        _ => both.to_be_bytes(),
    }
}

fn ethernet_image(key: &FlowKey) -> [u8; 6] {
    bytes(key.get(Field::EthSrc) ^ key.get(Field::EthDst))
}

fn vlan_image(key: &FlowKey) -> [u8; 2] {
    ((key.vlan_tci() ^ key.vlan_tci1()) & 0x0fff).to_be_bytes()
}

fn ports_image(key: &FlowKey) -> [u8; 2] {
    bytes(key.get(Field::TpSrc) ^ key.get(Field::TpDst))
}

/// Whether the protocol has ports that are the same in both directions; those of UDP need not be.
pub fn has_symmetric_ports(proto: u8) -> bool {
    matches!(proto, protocol::TCP | protocol::SCTP)
}

/// Whether `symmetric_l3l4` hashes the ports, which fragments may lack.
pub fn has_l3l4_ports(key: &FlowKey, udp: bool) -> bool {
    let proto = key.nw_proto();
    key.nw_frag() & FRAG_ANY == 0 && (has_symmetric_ports(proto) || udp && proto == protocol::UDP)
}

fn symmetric_l4(key: &FlowKey, basis: u32) -> u32 {
    let mut image = [0; 32];
    image[..16].copy_from_slice(&address_image(key));
    image[16..18].copy_from_slice(&key.eth_type().to_be_bytes());
    image[18..20].copy_from_slice(&vlan_image(key));
    if addresses(key).is_some() {
        if has_symmetric_ports(key.nw_proto()) {
            image[20..22].copy_from_slice(&ports_image(key));
        }
        image[28] = key.nw_proto();
    }
    image[22..28].copy_from_slice(&ethernet_image(key));
    lookup3(&image, basis)
}

fn symmetric_l3l4(key: &FlowKey, basis: u32, udp: bool) -> u32 {
    let image = address_image(key);
    let used = match key.eth_type() {
        ethertype::IPV4 => 4,
        ethertype::IPV6 => 16,
        _ => return symmetric_l2(key, basis),
    };
    let mut hash = words(&image[..used]).fold(basis, add);
    hash = add(hash, key.nw_proto().into());
    if has_l3l4_ports(key, udp) {
        hash = add(hash, u16::from_le_bytes(ports_image(key)).into());
    }
    finish(hash, basis)
}

/// Without an Ethernet header there is nothing to hash.
fn symmetric_l2(key: &FlowKey, basis: u32) -> u32 {
    if key.get(Field::PacketType) != 0 {
        return 0;
    }
    let mut image = [0; 12];
    image[..2].copy_from_slice(&key.eth_type().to_be_bytes());
    image[2..4].copy_from_slice(&vlan_image(key));
    image[4..10].copy_from_slice(&ethernet_image(key));
    finish(words(&image).fold(basis, add), basis)
}

/// The little-endian words of bytes, the last one filled with zeros.
fn words(image: &[u8]) -> impl Iterator<Item = u32> {
    image.chunks(4).map(|part| {
        let mut word = [0; 4];
        word[..part.len()].copy_from_slice(part);
        u32::from_le_bytes(word)
    })
}

/// One block of MurmurHash3_x86_32.
fn add(hash: u32, data: u32) -> u32 {
    let data = data.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    (hash ^ data).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

/// The end of MurmurHash3_x86_32, with the length or another number.
fn finish(hash: u32, number: u32) -> u32 {
    let mut hash = hash ^ number;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Bob Jenkins' lookup3 (hashlittle). As in Open vSwitch, a full last block gets the mixing of those before it, and no
/// final one.
fn lookup3(data: &[u8], basis: u32) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(data.len() as u32).wrapping_add(basis);
    let mut state = [start; 3];
    for block in data.chunks(12) {
        for (word, more) in state.iter_mut().zip(words(block)) {
            *word = word.wrapping_add(more);
        }
        if block.len() == 12 { mix(&mut state) } else { close(&mut state) }
    }
    state[2]
}

fn mix([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: &mut u32, z: &mut u32, by| {
        *x = x.wrapping_sub(*z) ^ z.rotate_left(by);
        *z = z.wrapping_add(*y);
    };
    step(a, b, c, 4);
    step(b, c, a, 6);
    step(c, a, b, 8);
    step(a, b, c, 16);
    step(b, c, a, 19);
    step(c, a, b, 4);
}

fn close([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: u32, by| *x = (*x ^ y).wrapping_sub(y.rotate_left(by));
    step(c, *b, 14);
    step(a, *c, 11);
    step(b, *a, 25);
    step(c, *b, 16);
    step(a, *c, 4);
    step(b, *a, 14);
    step(c, *b, 24);
}
