//! NXT_CT_FLUSH: deletes tracked connections (ovs: `lib/ofp-ct.c`).

use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use base::Zone;
use flow::{CtFlush, Masked, TupleMatch};
use std::net::{IpAddr, Ipv6Addr};

const ORIGINAL: u16 = 0;
const REPLY: u16 = 1;
const ZONE: u16 = 2;
// Since Open vSwitch 3.3.
const MARK: u16 = 3;
const MARK_MASK: u16 = 4;
const LABELS: u16 = 5;
const LABELS_MASK: u16 = 6;

const SRC: u16 = 0;
const DST: u16 = 1;
const SRC_PORT: u16 = 2;
const DST_PORT: u16 = 3;
const ICMP_ID: u16 = 4;
const ICMP_TYPE: u16 = 5;
const ICMP_CODE: u16 = 6;

/// Bytes before a property's value.
const PROPERTY_HEADER: usize = 4;

/// Reads the message after its subtype. An unknown property is an error: ignoring it would delete more
/// connections than requested.
pub(crate) fn take(input: &mut Input<'_>) -> Result<CtFlush, OfError> {
    let protocol = input.u8()?;
    if input.take(7)?.iter().any(|&byte| byte != 0) {
        return Err(OfError::new(ErrorCode::MustBeZero, "ct-flush: padding that is not zero"));
    }
    let mut flush = CtFlush { protocol: number(protocol), ..CtFlush::default() };
    let (mut family, mut mark, mut label) = (None, Bits::default(), Bits::default());
    while !input.is_empty() {
        let (kind, mut value) = input.property()?;
        match kind {
            ORIGINAL => take_tuple(&mut value, &mut flush.original, &mut family)?,
            REPLY => take_tuple(&mut value, &mut flush.reply, &mut family)?,
            ZONE => flush.zone = Some(Zone(value.u16()?)),
            MARK => mark.value = Some(u32::from_be_bytes(take_whole(&mut value)?)),
            MARK_MASK => mark.mask = Some(u32::from_be_bytes(take_whole(&mut value)?)),
            LABELS => label.value = Some(u128::from_be_bytes(take_whole(&mut value)?)),
            LABELS_MASK => label.mask = Some(u128::from_be_bytes(take_whole(&mut value)?)),
            _ => return Err(unknown("property", kind)),
        }
    }
    (flush.mark, flush.label) = (mark.masked(u32::MAX), label.masked(u128::MAX));
    settle_icmp(&mut flush);
    Ok(flush)
}

/// A value and its mask, each if present.
#[derive(Default)]
struct Bits<N> {
    value: Option<N>,
    mask: Option<N>,
}

impl<N: Copy + Default + PartialEq> Bits<N> {
    /// A value without a mask is compared completely; a mask without a value compares with zero.
    fn masked(self, whole: N) -> Option<Masked<N>> {
        let mask = self.mask.or(self.value.map(|_| whole))?;
        let value = self.value.unwrap_or_default();
        (mask != N::default()).then_some(Masked { value, mask })
    }
}

/// Reads a value that must fill its property.
fn take_whole<const BYTES: usize>(value: &mut Input<'_>) -> Result<[u8; BYTES], OfError> {
    let whole = value.array()?;
    if value.is_empty() {
        return Ok(whole);
    }
    let reason = format!("ct-flush: a property longer than the {BYTES} bytes of its value");
    Err(OfError::new(ErrorCode::PropertyBadLen, reason))
}

fn unknown(what: &str, kind: u16) -> OfError {
    OfError::new(ErrorCode::PropertyBadType, format!("ct-flush: a {what} of unknown type {kind}"))
}

/// Returns `None` for zero, which means "any".
fn number<N: Default + PartialEq>(value: N) -> Option<N> {
    (value != N::default()).then_some(value)
}

fn take_tuple(
    input: &mut Input<'_>,
    tuple: &mut TupleMatch,
    family: &mut Option<bool>,
) -> Result<(), OfError> {
    // Nested properties begin at a multiple of 8.
    input.skip(PROPERTY_HEADER)?;
    while !input.is_empty() {
        let (kind, mut value) = input.property()?;
        match kind {
            SRC => tuple.src = take_address(&mut value, family)?,
            DST => tuple.dst = take_address(&mut value, family)?,
            SRC_PORT => tuple.src_port = number(value.u16()?),
            DST_PORT => tuple.dst_port = number(value.u16()?),
            // For ICMP, zero is an ordinary value.
            ICMP_ID => tuple.icmp_id = Some(value.u16()?),
            ICMP_TYPE => tuple.icmp_type = Some(value.u8()?),
            ICMP_CODE => tuple.icmp_code = Some(value.u8()?),
            _ => return Err(unknown("part of a tuple", kind)),
        }
    }
    Ok(())
}

/// Reads an IPv6 address, or a mapped IPv4 address. All must be of one family.
fn take_address(
    value: &mut Input<'_>,
    family: &mut Option<bool>,
) -> Result<Option<IpAddr>, OfError> {
    let address = Ipv6Addr::from(value.array::<16>()?);
    if address.is_unspecified() {
        return Ok(None);
    }
    let address = address.to_canonical();
    if family.is_some_and(|is_ipv4| is_ipv4 != address.is_ipv4()) {
        let reason = format!("ct-flush: {address} is not of the other addresses' family");
        return Err(OfError::new(ErrorCode::PropertyBadValue, reason));
    }
    *family = Some(address.is_ipv4());
    Ok(Some(address))
}

/// `ovs-ofctl` writes zeros as the reply's ICMP fields if only the original direction was given. A complete
/// original direction is sufficient; ICMP fields of a reply without other fields are ignored (ovs:
/// `lib/ct-dpif.c`, `ct_dpif_flush_tuple`).
fn settle_icmp(flush: &mut CtFlush) {
    let is_whole = flush.original.src.is_some() && flush.original.dst.is_some();
    if is_whole && flush.reply.src.is_none() && flush.reply.dst.is_none() {
        let reply = &mut flush.reply;
        (reply.icmp_id, reply.icmp_type, reply.icmp_code) = (None, None, None);
    }
}

/// Writes the message after its subtype.
pub(crate) fn put(out: &mut Vec<u8>, flush: &CtFlush) {
    out.put_u8(flush.protocol.unwrap_or(0));
    out.put_zeros(7);
    put_tuple(out, ORIGINAL, &flush.original);
    put_tuple(out, REPLY, &flush.reply);
    if let Some(zone) = flush.zone {
        put_property(out, ZONE, &padded(zone.0));
    }
    if let Some(Masked { value, mask }) = flush.mark {
        put_property(out, MARK, &value.to_be_bytes());
        if mask != u32::MAX {
            put_property(out, MARK_MASK, &mask.to_be_bytes());
        }
    }
    if let Some(Masked { value, mask }) = flush.label {
        put_property(out, LABELS, &value.to_be_bytes());
        if mask != u128::MAX {
            put_property(out, LABELS_MASK, &mask.to_be_bytes());
        }
    }
}

fn put_tuple(out: &mut Vec<u8>, kind: u16, tuple: &TupleMatch) {
    // Padding up to the first nested property.
    let mut inner = vec![0; PROPERTY_HEADER];
    let address = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    let addresses = [(SRC, tuple.src), (DST, tuple.dst)];
    let shorts = [(SRC_PORT, tuple.src_port), (DST_PORT, tuple.dst_port), (ICMP_ID, tuple.icmp_id)];
    let bytes = [(ICMP_TYPE, tuple.icmp_type), (ICMP_CODE, tuple.icmp_code)];
    for (kind, value) in addresses.into_iter().filter_map(|(kind, value)| Some((kind, value?))) {
        put_property(&mut inner, kind, &address(value));
    }
    for (kind, value) in shorts.into_iter().filter_map(|(kind, value)| Some((kind, value?))) {
        put_property(&mut inner, kind, &padded(value));
    }
    for (kind, value) in bytes.into_iter().filter_map(|(kind, value)| Some((kind, value?))) {
        put_property(&mut inner, kind, &[value]);
    }
    if inner.len() > PROPERTY_HEADER {
        put_property(out, kind, &inner);
    }
}

/// A 16-bit value has padding that counts as part of the value.
fn padded(value: u16) -> [u8; 4] {
    let [high, low] = value.to_be_bytes();
    [high, low, 0, 0]
}

fn put_property(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let start = out.len();
    out.put_u16(kind);
    out.put_u16((PROPERTY_HEADER + value.len()) as u16);
    out.put(value);
    out.pad8(start);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<CtFlush, ErrorCode> {
        take(&mut Input::new(bytes, ErrorCode::BadLen, "ct-flush")).map_err(|error| error.code)
    }

    /// Returns a padded property.
    fn property(kind: u8, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_property(&mut out, kind.into(), value);
        out
    }

    fn tuple(kind: u8, inner: &[Vec<u8>]) -> Vec<u8> {
        property(kind, &[vec![0; 4], inner.concat()].concat())
    }

    #[test]
    fn messages_say_what_is_looked_at() {
        let v4 = |last| [[0; 10].as_slice(), &[0xff, 0xff, 10, 0, 0, last]].concat();
        let address = |last| Some(IpAddr::from([10, 0, 0, last]));
        let icmp = || [property(4, &[0, 0]), property(5, &[0]), property(6, &[0])];
        type Case = (&'static str, u8, Vec<Vec<u8>>, Result<CtFlush, ErrorCode>);
        let mark = |value, mask| Some(Masked::<u32> { value, mask });
        let cases: [Case; 16] = [
            ("all", 0, vec![], Ok(CtFlush::default())),
            (
                "a zone",
                0,
                vec![property(2, &[0, 9])],
                Ok(CtFlush { zone: Some(Zone(9)), ..CtFlush::default() }),
            ),
            (
                "zeros do not count",
                6,
                vec![tuple(
                    0,
                    &[property(0, &[0; 16]), property(2, &[0, 0]), property(3, &[0, 80])],
                )],
                Ok(CtFlush {
                    protocol: Some(6),
                    original: TupleMatch { dst_port: Some(80), ..TupleMatch::default() },
                    ..CtFlush::default()
                }),
            ),
            (
                "as ovs-ofctl writes an ICMP query",
                1,
                vec![
                    tuple(0, &[&[property(0, &v4(1)), property(1, &v4(2))], &icmp()[..]].concat()),
                    tuple(1, &icmp()),
                ],
                Ok(CtFlush {
                    protocol: Some(1),
                    original: TupleMatch {
                        src: address(1),
                        dst: address(2),
                        icmp_id: Some(0),
                        icmp_type: Some(0),
                        icmp_code: Some(0),
                        ..TupleMatch::default()
                    },
                    ..CtFlush::default()
                }),
            ),
            (
                "two families",
                6,
                vec![tuple(0, &[property(0, &v4(1)), property(1, &[1; 16])])],
                Err(ErrorCode::PropertyBadValue),
            ),
            (
                "a mark",
                0,
                vec![property(3, &[0, 0, 0, 0xaa])],
                Ok(CtFlush { mark: mark(0xaa, u32::MAX), ..CtFlush::default() }),
            ),
            (
                "a mark of 0",
                0,
                vec![property(3, &[0; 4])],
                Ok(CtFlush { mark: mark(0, u32::MAX), ..CtFlush::default() }),
            ),
            (
                "bits of a mark, the mask first",
                0,
                vec![property(4, &[0, 0, 0, 2]), property(3, &[0, 0, 0, 0xff])],
                Ok(CtFlush { mark: mark(0xff, 2), ..CtFlush::default() }),
            ),
            (
                "a mask without a mark",
                0,
                vec![property(4, &[0, 0, 0, 5])],
                Ok(CtFlush { mark: mark(0, 5), ..CtFlush::default() }),
            ),
            (
                "masks without bits, and a zone",
                0,
                vec![property(2, &[0, 6]), property(4, &[0; 4]), property(6, &[0; 16])],
                Ok(CtFlush { zone: Some(Zone(6)), ..CtFlush::default() }),
            ),
            (
                "bits of a label",
                0,
                vec![property(5, &1_u128.to_be_bytes()), property(6, &3_u128.to_be_bytes())],
                Ok(CtFlush { label: Some(Masked { value: 1, mask: 3 }), ..CtFlush::default() }),
            ),
            ("a long mark", 0, vec![property(3, &[0; 8])], Err(ErrorCode::PropertyBadLen)),
            ("an unknown property", 0, vec![property(7, &[0; 4])], Err(ErrorCode::PropertyBadType)),
            (
                "an unknown part of a tuple",
                0,
                vec![tuple(0, &[property(7, &[0; 4])])],
                Err(ErrorCode::PropertyBadType),
            ),
            ("a short value", 0, vec![property(2, &[9])], Err(ErrorCode::PropertyBadLen)),
            ("no whole header", 0, vec![vec![0, 2, 0]], Err(ErrorCode::PropertyBadLen)),
        ];
        for (name, protocol, properties, expect) in cases {
            let head = [protocol, 0, 0, 0, 0, 0, 0, 0];
            let got = read(&[&head[..], &properties.concat()].concat());
            assert_eq!(got, expect, "{name}");
            if let Ok(flush) = got {
                let mut out = Vec::new();
                put(&mut out, &flush);
                assert_eq!(read(&out), Ok(flush), "{name}");
            }
        }
        assert_eq!(read(&[6, 0, 0, 1, 0, 0, 0, 0]), Err(ErrorCode::MustBeZero));
    }
}
