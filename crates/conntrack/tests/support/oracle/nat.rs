//! NAT: which tuple a connection's replies get, and packets with other addresses.
//! Checksums are taken anew over all that they cover.

use super::reading::{self, Place};
use flow::{NatKind, NatRange, Tuple, TupleL4};
use std::net::IpAddr;
use wire::checksum;

/// The first tuple, in the order in which they are to be tried, that no connection has: the connection's
/// packets after NAT. Ports are kept where they can be, and else counted up from there, round
/// the end of what is allowed.
pub fn choose(tuple: Tuple, range: &NatRange, is_free: impl Fn(Tuple) -> bool) -> Option<Tuple> {
    let own = if range.kind == NatKind::Src { tuple.src } else { tuple.dst };
    let given = range.addresses.filter(|(first, _)| !first.is_unspecified());
    let (first, last) = given.unwrap_or((own, own));
    if first.is_ipv4() != own.is_ipv4() {
        return None;
    }
    let mut address = first;
    loop {
        let moved = match range.kind {
            NatKind::Src => Tuple { src: address, ..tuple },
            NatKind::Dst => Tuple { dst: address, ..tuple },
        };
        if let Some(free) = with_ports(moved, range).into_iter().find(|&it| is_free(it)) {
            return Some(free);
        }
        if address == last {
            return None;
        }
        address = after(address);
    }
}

fn after(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(ip) => IpAddr::from((ip.to_bits() + 1).to_be_bytes()),
        IpAddr::V6(ip) => IpAddr::from((ip.to_bits() + 1).to_be_bytes()),
    }
}

/// All tuples of these addresses, in order. Privileged ports stay privileged.
fn with_ports(tuple: Tuple, range: &NatRange) -> Vec<Tuple> {
    let class = |port: u16| match port {
        0..512 => (1, 511),
        512..1024 => (600, 1023),
        _ => (1024, 65535),
    };
    match tuple.l4 {
        TupleL4::Ports { src, dst } if matches!(tuple.protocol, 6 | 17 | 132) => {
            let (sources, destinations) = match range.kind {
                NatKind::Src => (from(src, range.ports.unwrap_or(class(src))), vec![dst]),
                NatKind::Dst => {
                    (from(src, class(src)), from(dst, range.ports.unwrap_or((dst, dst))))
                }
            };
            let ports =
                sources.iter().flat_map(|&src| destinations.iter().map(move |&dst| (src, dst)));
            ports.map(|(src, dst)| Tuple { l4: TupleL4::Ports { src, dst }, ..tuple }).collect()
        }
        TupleL4::Icmp { id, icmp_type, code } => {
            let ids = from(id, (0, 65535)).into_iter();
            ids.map(|id| Tuple { l4: TupleL4::Icmp { id, icmp_type, code }, ..tuple }).collect()
        }
        _ => vec![tuple],
    }
}

/// All numbers of a range, from `start` on where it is one of them.
fn from(start: u16, (first, last): (u16, u16)) -> Vec<u16> {
    let start = if (first..=last).contains(&start) { start } else { first };
    (start..=last).chain(first..start).collect()
}

/// Writes a tuple into the packet at `ip`, and what depends on it.
pub fn write_tuple(bytes: &mut [u8], ip: usize, tuple: &Tuple, is_partial: bool) {
    let place = reading::place(bytes, ip, true).expect("it was read before");
    match (tuple.src, tuple.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            bytes[ip + 12..ip + 16].copy_from_slice(&src.octets());
            bytes[ip + 16..ip + 20].copy_from_slice(&dst.octets());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            bytes[ip + 8..ip + 24].copy_from_slice(&src.octets());
            bytes[ip + 24..ip + 40].copy_from_slice(&dst.octets());
        }
        _ => unreachable!("both addresses are of one version"),
    }
    match tuple.l4 {
        TupleL4::Ports { src, dst } if matches!(tuple.protocol, 6 | 17 | 132) => {
            bytes[place.l4..place.l4 + 2].copy_from_slice(&src.to_be_bytes());
            bytes[place.l4 + 2..place.l4 + 4].copy_from_slice(&dst.to_be_bytes());
        }
        TupleL4::Icmp { id, .. } => {
            bytes[place.l4 + 4..place.l4 + 6].copy_from_slice(&id.to_be_bytes());
        }
        _ => {}
    }
    finish(bytes, ip, &place, is_partial);
}

/// Writes an error's own addresses and those of the packet that it is about.
pub fn write_error(bytes: &mut [u8], ip: usize, outer: (IpAddr, IpAddr), inner: &Tuple) {
    let place = reading::place(bytes, ip, false).expect("it was read before");
    write_tuple(bytes, place.l4 + 8, inner, false);
    let (src, dst) = outer;
    let tuple = Tuple { src, dst, protocol: place.protocol, l4: TupleL4::None };
    write_tuple(bytes, ip, &tuple, false);
}

/// Computes checksums: IPv4's own, and the transport's where there is one.
pub fn finish(bytes: &mut [u8], ip: usize, place: &Place, is_partial: bool) {
    if bytes[ip] >> 4 == 4 {
        let header = ip..ip + usize::from(bytes[ip] & 15) * 4;
        bytes[ip + 10..ip + 12].fill(0);
        let sum = checksum::checksum(&bytes[header]);
        bytes[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    }
    let l4 = place.l4..place.end;
    let sum = reading::pseudo(bytes, ip, place.protocol, l4.len());
    let (field, begin) = match place.protocol {
        6 => (place.l4 + 16, sum),
        17 => (place.l4 + 6, sum),
        1 => (place.l4 + 2, 0),
        58 => (place.l4 + 2, sum),
        132 => {
            if place.l4 + 12 <= place.end {
                let crc = checksum::sctp_crc(&bytes[l4]);
                bytes[place.l4 + 8..place.l4 + 12].copy_from_slice(&crc.to_le_bytes());
            }
            return;
        }
        _ => return,
    };
    if field + 2 > place.end || (place.protocol == 17 && reading::u16_at(bytes, field) == 0) {
        return;
    }
    bytes[field..field + 2].fill(0);
    let whole = match is_partial {
        true => begin,
        false => !checksum::combine(checksum::sum(&bytes[l4]), begin),
    };
    let whole = if place.protocol == 17 { checksum::udp_nonzero(whole) } else { whole };
    bytes[field..field + 2].copy_from_slice(&whole.to_be_bytes());
}
