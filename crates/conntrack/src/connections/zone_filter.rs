//! A summary of a zone's connections in one cache line of its index, which inserts keep up to date.
//!
//! Like a Bloom filter, it lets a flush or dump skip zones that never had the address, port,
//! protocol, or mark or label bits that it selects. Ends are kept apart by side: the client's is
//! the source of the original direction and, if NAT changed it, the destination of the replies; the
//! server's is the other. A zone may have many clients and few servers, and a port is nearly always
//! the server's.
//!
//! ```text
//! 0-1  addresses of clients, each as one of 128 bits     4-5  ports of servers, likewise
//! 2-3  addresses of servers, likewise                    6    marks | one of 32 bits a protocol << 32
//!                                                        7    labels, both halves laid over each other
//! ```
//!
//! Marks and labels are the bits that any connection ever had. A clear bit proves that no
//! connection matches; a set bit proves nothing. All bits are cleared when the zone is flushed.

use crate::key::{Address, Key};
use crate::management::filter::Filter;
use flow::{CtAction, CtFlush};
use std::net::IpAddr;
use table::Index;
use wire::protocol;

const CLIENTS: usize = 0;
const SERVERS: usize = 2;
const PORTS: usize = 4;
const MARKS: usize = 6;
const LABELS: usize = 7;
const _: () = assert!(LABELS < Index::NOTES);

/// 2^64 divided by the golden ratio, odd: the upper bits of a product with it depend on all bits of
/// the other factor.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bit of the filter.
#[derive(Clone, Copy)]
struct Place {
    word: usize,
    bit: u64,
}

impl Place {
    /// The bit of a value among the 128 from word `first` on.
    #[inline(always)]
    fn of(first: usize, value: u64) -> Place {
        let number = (value.wrapping_mul(SPREAD) >> 57) as usize;
        Place { word: first + (number >> 6), bit: 1 << (number & 63) }
    }

    #[inline(always)]
    fn of_address(first: usize, address: Address) -> Place {
        let [high, low] = address.words();
        Place::of(first, high.wrapping_mul(SPREAD).rotate_left(32) ^ low)
    }

    fn of_protocol(protocol: u8) -> Place {
        Place { word: MARKS, bit: protocol_bit(protocol) }
    }

    #[inline(always)]
    fn note(self, index: &Index) {
        index.note(self.word, self.bit);
    }

    fn is_noted(self, index: &Index) -> bool {
        index.noted(self.word) & self.bit != 0
    }
}

/// The properties that a flush or dump selects by.
#[derive(Clone, Copy, Default)]
struct Wanted {
    clients: [Option<IpAddr>; 2],
    servers: [Option<IpAddr>; 2],
    /// An address on either side.
    end: Option<IpAddr>,
    ports: [Option<u16>; 2],
    protocol: Option<u8>,
    mark: u32,
    label: u128,
}

impl Wanted {
    fn may_be_in(&self, index: &Index) -> bool {
        let of = |first, ip: &IpAddr| Place::of_address(first, Address::from(*ip));
        let is_noted = |place: Place| place.is_noted(index);
        self.clients.iter().flatten().all(|ip| is_noted(of(CLIENTS, ip)))
            && self.servers.iter().flatten().all(|ip| is_noted(of(SERVERS, ip)))
            && self.end.is_none_or(|ip| is_noted(of(CLIENTS, &ip)) || is_noted(of(SERVERS, &ip)))
            && self.ports.iter().flatten().all(|port| is_noted(Place::of(PORTS, (*port).into())))
            && self.protocol.is_none_or(|it| is_noted(Place::of_protocol(it)))
            && u64::from(self.mark) & !index.noted(MARKS) == 0
            && folded(self.label) & !index.noted(LABELS) == 0
    }
}

/// Adds a connection without NAT, mark and label, by its key's words.
#[inline(always)]
pub(crate) fn note_plain<const N: usize>(index: &Index, key: &[u64; N]) {
    let rest = match *key.as_slice() {
        [addresses, rest] => {
            Place::of(CLIENTS, addresses >> 32).note(index);
            Place::of(SERVERS, addresses & 0xffff_ffff).note(index);
            rest
        }
        [a, b, c, d, rest] => {
            Place::of_address(CLIENTS, Address::from_words([a, b])).note(index);
            Place::of_address(SERVERS, Address::from_words([c, d])).note(index);
            rest
        }
        _ => return,
    };
    Place::of(PORTS, (rest >> 32) & 0xffff).note(index);
    index.note(MARKS, protocol_bit((rest >> 8) as u8));
}

/// Adds a connection with these keys.
pub(crate) fn note(index: &Index, original: &Key, reply: &Key) {
    for (client, server, port) in
        [(original.src, original.dst, original.l4[1]), (reply.dst, reply.src, reply.l4[0])]
    {
        Place::of_address(CLIENTS, client).note(index);
        Place::of_address(SERVERS, server).note(index);
        Place::of(PORTS, port.into()).note(index);
    }
    Place::of_protocol(original.protocol).note(index);
}

/// Adds bits of a connection's mark and label.
pub(crate) fn note_mark_and_label(index: &Index, mark: u32, label: u128) {
    index.note(MARKS, mark.into());
    index.note(LABELS, folded(label));
}

/// Adds the bits of an action's mark and label.
pub(crate) fn note_action(index: &Index, action: &CtAction) {
    let mark = action.mark.map_or(0, |it| it.value & it.mask);
    let label = action.label.map_or(0, |it| it.value & it.mask);
    note_mark_and_label(index, mark, label);
}

#[inline(always)]
fn protocol_bit(protocol: u8) -> u64 {
    1 << (32 + (protocol & 31))
}

fn folded(label: u128) -> u64 {
    (label >> 64) as u64 | label as u64
}

/// Whether the zone may have connections that the flush selects.
pub(crate) fn may_hold(index: &Index, flush: &CtFlush) -> bool {
    // ICMP connections have no ports, so the filter has none of theirs.
    let has_ports = |protocol: u8| !matches!(protocol, protocol::ICMP | protocol::ICMPV6);
    let ports = match flush.protocol.is_some_and(has_ports) {
        true => [flush.original.dst_port, flush.reply.src_port],
        false => [None; 2],
    };
    let wanted = Wanted {
        clients: [flush.original.src, flush.reply.dst],
        servers: [flush.original.dst, flush.reply.src],
        ports,
        protocol: flush.protocol,
        mark: flush.mark.map_or(0, |it| it.value & it.mask),
        label: flush.label.map_or(0, |it| it.value & it.mask),
        ..Wanted::default()
    };
    wanted.may_be_in(index)
}

impl Filter {
    /// Whether the zone may have connections that the dump selects.
    pub(crate) fn may_show_of(&self, index: &Index) -> bool {
        let whole = |(ip, prefix): (IpAddr, u8)| {
            (prefix >= if ip.is_ipv4() { 32 } else { 128 }).then_some(ip)
        };
        let wanted = Wanted {
            clients: [self.source.and_then(whole), None],
            servers: [self.destination.and_then(whole), None],
            end: self.network.and_then(whole),
            protocol: self.protocol,
            mark: self.mark.map_or(0, |it| it.value & it.mask),
            label: self.label.map_or(0, |it| it.value & it.mask),
            ..Wanted::default()
        };
        wanted.may_be_in(index)
    }
}
