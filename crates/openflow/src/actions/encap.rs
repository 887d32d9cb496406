//! `encap` and `decap` on the wire (ovs: `lib/ofp-actions.c`, `decode_NXAST_RAW_ENCAP`).

use super::nicira_out::action;
use crate::action::{Action, NshProperty};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use wire::ethertype;

/// The namespace of packet types that are Ethernet types.
const ETHERTYPES: u32 = 1 << 16;
/// OFPPPC_NSH
const NSH_CLASS: u16 = 4;
/// OFPPPT_PROP_NSH_MDTYPE and OFPPPT_PROP_NSH_TLV
const NSH_MD_TYPE: u8 = 1;
const NSH_TLV: u8 = 2;
/// Bytes of a property's own header, and of the header and the fields of a TLV.
const PROPERTY: usize = 4;
const TLV: usize = 8;

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

/// Reads Nicira's action 46 to 48 after its subtype.
pub(super) fn take(subtype: u16, body: &mut Input<'_>) -> Result<Action, OfError> {
    match subtype {
        46 => take_encap(body),
        47 => take_decap(body),
        _ => {
            body.skip(6)?;
            Ok(Action::DecNshTtl)
        }
    }
}

fn take_encap(body: &mut Input<'_>) -> Result<Action, OfError> {
    let (header_bytes, packet_type) = (body.u16()?, body.u32()?);
    let (space, kind) = (packet_type & !0xffff, packet_type as u16);
    let encap = match (space, kind) {
        (0, 0) => Action::EncapEthernet { header_bytes },
        (ETHERTYPES, ethertype::MPLS | ethertype::MPLS_MULTICAST) => {
            Action::EncapMpls { ethertype: kind, header_bytes }
        }
        (ETHERTYPES, ethertype::NSH) => {
            let properties = take_properties(body)?;
            return Ok(Action::EncapNsh { header_bytes, properties });
        }
        _ => {
            let space = space >> 16;
            let reason =
                format!("encap: no header of packet type ({space},{kind:#x}) can be put on");
            return Err(bad(ErrorCode::BadHeaderType, reason));
        }
    };
    if !body.is_empty() {
        return Err(bad(ErrorCode::UnknownProperty, "encap: only NSH has properties"));
    }
    Ok(encap)
}

/// Reads the properties of NSH (ovs: `lib/ofp-ed-props.c`, `decode_ed_prop`).
fn take_properties(body: &mut Input<'_>) -> Result<Vec<NshProperty>, OfError> {
    let mut properties = Vec::new();
    while !body.is_empty() {
        let (class, kind, len) = (body.u16()?, body.u8()?, usize::from(body.u8()?));
        let padded = len.next_multiple_of(8);
        if len < PROPERTY || padded - PROPERTY > body.len() {
            return Err(bad(ErrorCode::ActionBadLen, format!("encap: a property of {len} bytes")));
        }
        let mut value = body.part(padded - PROPERTY)?;
        properties.push(match (class, kind) {
            (NSH_CLASS, NSH_MD_TYPE) if len <= TLV => NshProperty::MdType(value.u8()?),
            (NSH_CLASS, NSH_TLV) if len >= TLV => {
                let (class, kind, value_len) = (value.u16()?, value.u8()?, value.u8()?.into());
                if len != TLV + usize::next_multiple_of(value_len, 8) {
                    let reason = format!("encap: a TLV of {value_len} bytes in {len}");
                    return Err(bad(ErrorCode::BadEncapProperty, reason));
                }
                NshProperty::Tlv { class, kind, value: value.take(value_len)?.to_vec() }
            }
            (NSH_CLASS, NSH_MD_TYPE | NSH_TLV) => {
                let reason = format!("encap: a property of {len} bytes");
                return Err(bad(ErrorCode::BadEncapProperty, reason));
            }
            _ => {
                let reason = format!("encap: NSH has no property {kind} of class {class}");
                return Err(bad(ErrorCode::UnknownProperty, reason));
            }
        });
    }
    Ok(properties)
}

fn take_decap(body: &mut Input<'_>) -> Result<Action, OfError> {
    body.skip(2)?;
    let packet_type = body.u32()?;
    if !body.is_empty() {
        return Err(bad(ErrorCode::UnknownProperty, "decap: there are no properties"));
    }
    Ok(Action::Decap(packet_type))
}

/// Writes the action if it is one of these. Returns whether it is.
pub(super) fn put(out: &mut Vec<u8>, what: &Action) -> bool {
    let encap = |out: &mut Vec<u8>, header_bytes: u16, packet_type: u32| {
        out.put_u16(header_bytes);
        out.put_u32(packet_type);
    };
    match what {
        Action::EncapEthernet { header_bytes } => {
            action(out, 46, |out| encap(out, *header_bytes, 0));
        }
        Action::EncapMpls { ethertype, header_bytes } => action(out, 46, |out| {
            encap(out, *header_bytes, ETHERTYPES | u32::from(*ethertype));
        }),
        Action::EncapNsh { header_bytes, properties } => action(out, 46, |out| {
            encap(out, *header_bytes, ETHERTYPES | u32::from(ethertype::NSH));
            properties.iter().for_each(|property| put_property(out, property));
        }),
        Action::Decap(packet_type) => action(out, 47, |out| {
            out.put_zeros(2);
            out.put_u32(*packet_type);
        }),
        Action::DecNshTtl => action(out, 48, |_| {}),
        _ => return false,
    }
    true
}

fn put_property(out: &mut Vec<u8>, property: &NshProperty) {
    let start = out.len();
    out.put_u16(NSH_CLASS);
    match property {
        NshProperty::MdType(md_type) => out.put(&[NSH_MD_TYPE, PROPERTY as u8 + 1, *md_type]),
        NshProperty::Tlv { class, kind, value } => {
            let value = value.get(..NshProperty::VALUE_MAX).unwrap_or(value);
            out.put(&[NSH_TLV, (TLV + value.len().next_multiple_of(8)) as u8]);
            out.put_u16(*class);
            out.put(&[*kind, value.len() as u8]);
            out.put(value);
        }
    }
    out.pad8(start);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(bytes: &[u8]) -> Result<Action, ErrorCode> {
        let mut input = Input::new(bytes, ErrorCode::ActionBadLen, "the action");
        take_encap(&mut input).map_err(|error| error.code)
    }

    #[test]
    fn headers_and_their_properties_are_checked() {
        let nsh = |properties: &[u8]| take(&[&[0, 0, 0, 1, 0x89, 0x4f], properties].concat());
        let properties = |action| match action {
            Ok(Action::EncapNsh { properties, .. }) => Ok(properties),
            Ok(other) => panic!("{other:?}"),
            Err(code) => Err(code),
        };
        let md_type = [0, 4, 1, 5, 2, 0, 0, 0];
        let tlv = [0, 4, 2, 16, 0x10, 0, 10, 3, 7, 8, 9, 0, 0, 0, 0, 0];
        let read = NshProperty::Tlv { class: 0x1000, kind: 10, value: vec![7, 8, 9] };
        let both = properties(nsh(&[&md_type[..], &tlv].concat()));
        assert_eq!(both, Ok(vec![NshProperty::MdType(2), read]));
        let changed = |at: usize, byte: u8| {
            let mut bytes = tlv;
            bytes[at] = byte;
            properties(nsh(&bytes)).map(|_| ())
        };
        assert_eq!(changed(1, 3), Err(ErrorCode::UnknownProperty));
        assert_eq!(changed(2, 3), Err(ErrorCode::UnknownProperty));
        assert_eq!(changed(3, 3), Err(ErrorCode::ActionBadLen));
        assert_eq!(changed(3, 17), Err(ErrorCode::ActionBadLen));
        assert_eq!(changed(3, 5), Err(ErrorCode::BadEncapProperty));
        assert_eq!(changed(7, 9), Err(ErrorCode::BadEncapProperty));
        assert_eq!(properties(nsh(&[0, 4, 1, 9, 2, 0, 0, 0])), Err(ErrorCode::ActionBadLen));
        let mpls = [0, 0, 0, 1, 0x88, 0x48];
        let label = Action::EncapMpls { ethertype: 0x8848, header_bytes: 0 };
        assert_eq!(take(&mpls), Ok(label));
        assert_eq!(take(&[&mpls[..], &md_type].concat()), Err(ErrorCode::UnknownProperty));
        assert_eq!(take(&[0, 0, 0, 0, 0x88, 0x48]), Err(ErrorCode::BadHeaderType));
        assert_eq!(take(&[0, 0, 0, 1, 8, 0]), Err(ErrorCode::BadHeaderType));
    }
}
