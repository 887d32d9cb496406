//! The text form of a flush: `mark=0x1/0xff`, `labels=7`,
//! `ct_nw_src=10.0.0.1,ct_nw_proto=6,ct_tp_dst=80` (ovs: `lib/ofp-ct.c`).

use super::Direction;
use crate::error::Error;
use crate::management::text::{fields, masked, number};
use flow::{CtFlush, Masked, TupleMatch};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::protocol;

/// Adds the conditions of a text such as `ct_nw_src=10.0.0.1,ct_nw_proto=6,ct_tp_dst=80` for one
/// direction (ovs: `lib/ofp-ct.c`, `ofp_ct_tuple_parse`).
///
/// # Errors
/// The errors of [`Error`] for tuples, in Open vSwitch's words.
pub fn add_tuple(flush: &mut CtFlush, direction: Direction, text: &str) -> Result<(), Error> {
    for (key, value) in fields(text) {
        if value.is_empty() {
            return Err(Error::MissingValue { key: key.to_owned() });
        }
        add_field(flush, direction, key, value)?;
    }
    let tuple = side(flush, direction);
    let has_port = tuple.src_port.is_some() || tuple.dst_port.is_some();
    if has_port && flush.protocol.is_none() {
        return Err(Error::PortWithoutProtocol);
    }
    Ok(())
}

fn side(flush: &mut CtFlush, direction: Direction) -> &mut TupleMatch {
    match direction {
        Direction::Original => &mut flush.original,
        Direction::Reply => &mut flush.reply,
    }
}

fn add_field(
    flush: &mut CtFlush,
    direction: Direction,
    key: &str,
    value: &str,
) -> Result<(), Error> {
    let bad = || Error::BadValue { key: key.to_owned() };
    let is_icmp = matches!(flush.protocol, Some(protocol::ICMP | protocol::ICMPV6));
    match key {
        "ct_nw_src" | "ct_nw_dst" => {
            let ip: Ipv4Addr = value.parse().map_err(|_| bad())?;
            add_address(flush, direction, key, value, ip.into())?;
        }
        "ct_ipv6_src" | "ct_ipv6_dst" => {
            let ip: Ipv6Addr = value.parse().map_err(|_| bad())?;
            add_address(flush, direction, key, value, ip.into())?;
        }
        "ct_nw_proto" => {
            flush.protocol = Some(number(value).ok_or_else(bad)?).filter(|&it: &u8| it != 0);
        }
        "ct_tp_src" | "ct_tp_dst" => {
            let port = number(value).ok_or_else(bad)?;
            let side = side(flush, direction);
            let slot = if key == "ct_tp_src" { &mut side.src_port } else { &mut side.dst_port };
            *slot = Some(port).filter(|&port| port != 0);
        }
        "icmp_id" | "icmp_type" | "icmp_code" if !is_icmp => return Err(Error::NotIcmp),
        "icmp_id" => side(flush, direction).icmp_id = Some(number(value).ok_or_else(bad)?),
        "icmp_type" => side(flush, direction).icmp_type = Some(number(value).ok_or_else(bad)?),
        "icmp_code" => side(flush, direction).icmp_code = Some(number(value).ok_or_else(bad)?),
        _ => return Err(Error::UnknownField { key: key.to_owned() }),
    }
    Ok(())
}

fn add_address(
    flush: &mut CtFlush,
    direction: Direction,
    key: &str,
    value: &str,
    ip: IpAddr,
) -> Result<(), Error> {
    let given = [flush.original.src, flush.original.dst, flush.reply.src, flush.reply.dst];
    if given.iter().flatten().any(|other| other.is_ipv4() != ip.is_ipv4()) {
        return Err(Error::MixedFamilies { value: value.to_owned() });
    }
    let side = side(flush, direction);
    let slot = if key.ends_with("src") { &mut side.src } else { &mut side.dst };
    if slot.is_some() {
        return Err(Error::Repeated { key: key.to_owned() });
    }
    *slot = Some(ip).filter(|ip| !ip.is_unspecified());
    Ok(())
}

/// Selects by bits of the mark: `0x1/0xff`, or `7` for all bits. A mask of 0 selects everything.
///
/// # Errors
/// [`Error::BadMark`].
pub fn add_mark(flush: &mut CtFlush, text: &str) -> Result<(), Error> {
    let low = |bits| u32::try_from(bits).map_err(|_| Error::BadMark);
    let Masked { value, mask } = masked(text).ok_or(Error::BadMark)?;
    let mask = if mask == u128::MAX { u32::MAX } else { low(mask)? };
    let value = low(value)?;
    flush.mark = (mask != 0).then_some(Masked { value, mask });
    Ok(())
}

/// Selects by bits of the label, as [`add_mark`] does for the mark.
///
/// # Errors
/// [`Error::BadLabels`].
pub fn add_labels(flush: &mut CtFlush, text: &str) -> Result<(), Error> {
    let label = masked(text).ok_or(Error::BadLabels)?;
    flush.label = Some(label).filter(|label| label.mask != 0);
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn parsed(original: &str, reply: &str) -> Result<CtFlush, String> {
        let mut flush = CtFlush::default();
        add_tuple(&mut flush, Direction::Original, original).map_err(|error| error.to_string())?;
        add_tuple(&mut flush, Direction::Reply, reply).map_err(|error| error.to_string())?;
        Ok(flush)
    }

    #[test]
    fn marks_and_labels_may_have_masks() {
        let cases = [
            ("170", "Ok(Some(Masked { value: 170, mask: 4294967295 }))"),
            ("0xaa/0xf", "Ok(Some(Masked { value: 170, mask: 15 }))"),
            ("010/017", "Ok(Some(Masked { value: 8, mask: 15 }))"),
            ("0", "Ok(Some(Masked { value: 0, mask: 4294967295 }))"),
            ("30/0", "Ok(None)"),
            ("0x100000000", "Err(BadMark)"),
            ("1/0x100000000", "Err(BadMark)"),
            ("", "Err(BadMark)"),
            ("0x", "Err(BadMark)"),
            ("1/", "Err(BadMark)"),
            ("1/x", "Err(BadMark)"),
            ("-1", "Err(BadMark)"),
        ];
        for (text, expect) in cases {
            let mut flush = CtFlush::default();
            let got = add_mark(&mut flush, text).map(|()| flush.mark);
            assert_eq!(format!("{got:?}"), expect, "{text}");
        }
        let mut flush = CtFlush::default();
        let long = "0x80000000000000000000000000000000/0xf0000000000000000000000000000000";
        add_labels(&mut flush, long).unwrap();
        assert_eq!(flush.label, Some(Masked { value: 1 << 127, mask: 0xf << 124 }));
        assert_eq!(add_labels(&mut flush, "x").unwrap_err().to_string(), "failed to parse labels");
        assert_eq!(add_mark(&mut flush, "x").unwrap_err().to_string(), "failed to parse mark");
        add_labels(&mut flush, "5/0").unwrap();
        assert!(flush.is_whole());
    }

    #[test]
    fn texts_that_are_wrong_say_why() {
        let cases = [
            ("ct_nw_src", "", "field ct_nw_src missing value"),
            ("ct_nw_src=10.0.0", "", "failed to parse field ct_nw_src"),
            ("ct_nw_src=10.0.0.1,ct_ipv6_dst=::1", "", "the L3 protocol does not match ::1"),
            ("ct_nw_src=10.0.0.1", "ct_ipv6_dst=::2", "the L3 protocol does not match ::2"),
            ("ct_nw_src=1.1.1.1,ct_nw_src=1.1.1.1", "", "ct_nw_src is set multiple times"),
            ("ct_tp_src=1", "", "port is set without protocol"),
            ("ct_nw_proto=256", "", "failed to parse field ct_nw_proto"),
            ("ct_nw_proto=17,ct_tp_dst=65536", "", "failed to parse field ct_tp_dst"),
            ("ct_nw_proto=17,icmp_id=1", "", "invalid L4 fields"),
            ("ct_label=1", "", "invalid conntrack tuple field: ct_label"),
        ];
        for (original, reply, message) in cases {
            assert_eq!(parsed(original, reply), Err(message.to_owned()), "{original} {reply}");
        }
    }
}
