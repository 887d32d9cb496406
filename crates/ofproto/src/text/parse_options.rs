//! Parsing of tunnel options in a datapath flow's key: `{class=0x102,type=0x80,len=8,0x1/0xff}` (ovs:
//! `lib/odp-util.c`, `scan_geneve`).

use super::parse::{ParseError, error, number};
use flow::{FlowKey, Mask, OptionMapping, Wide};
use wire::geneve::{OPTION_HEADER_LEN, OPTIONS_LEN_MAX, option_header};

/// One option.
struct GivenOption {
    class: u16,
    kind: u8,
    len: u8,
    value: Wide,
    mask: Wide,
}

/// Parses options into a key and its mask, which also matches the absence of others.
pub(super) fn read_geneve(
    key: &mut FlowKey,
    mask: &mut Mask,
    text: &str,
) -> Result<(), ParseError> {
    let (mut rest, mut options, mut bits) = (text.trim(), Vec::new(), Vec::new());
    while !rest.is_empty() {
        let Some((inside, behind)) = rest.strip_prefix('{').and_then(|it| it.split_once('}'))
        else {
            return error(rest, "an option is {class=,type=,len=,VALUE}");
        };
        let given = read_option(inside)?;
        let len = given.len.into();
        options.extend(option_header(given.class, given.kind, len));
        options.extend(given.value.to_bytes(len));
        bits.extend([0xff; OPTION_HEADER_LEN]);
        bits.extend(given.mask.to_bytes(len));
        if options.len() > OPTIONS_LEN_MAX {
            return error(rest, format!("options have at most {OPTIONS_LEN_MAX} bytes"));
        }
        rest = behind.trim_start();
    }
    key.set_raw_options(&options);
    mask.set_raw_options(&bits);
    Ok(())
}

fn read_option(text: &str) -> Result<GivenOption, ParseError> {
    let mut given = GivenOption { class: 0, kind: 0, len: 0, value: Wide::ZERO, mask: Wide::ZERO };
    for part in text.split(',').map(str::trim) {
        let (name, value) = part.split_once('=').unwrap_or(("", part));
        let up_to = |max: u128| match number(value)? {
            number if number <= max => Ok(number),
            _ => error(part, "is too large for its field"),
        };
        match name {
            "class" => given.class = up_to(0xffff)? as u16,
            "type" => given.kind = up_to(0xff)? as u8,
            "len" => {
                given.len = up_to(OptionMapping::LEN_MAX.into())? as u8;
                if !given.len.is_multiple_of(4) {
                    return error(part, "is no multiple of four bytes");
                }
            }
            "" => {
                let (value, mask) =
                    part.split_once('/').map_or((part, None), |(v, m)| (v, Some(m)));
                given.value = wide(value)?;
                given.mask = mask.map_or(Ok(Wide::ONES), wide)?;
                if given.value.byte_len() > given.len.into() {
                    return error(value, "is too long for the option");
                }
            }
            _ => return error(part, "an option has class, type, len and a value"),
        }
    }
    Ok(given)
}

fn wide(text: &str) -> Result<Wide, ParseError> {
    match text.strip_prefix("0x").and_then(Wide::from_hex) {
        Some(value) => Ok(value),
        None => number(text).map(Wide::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{PortNames, format_flow, parse_flow};

    #[test]
    fn what_was_printed_is_read() {
        let long = format!("0x{}", "123456789abcdef0".repeat(7));
        let texts = [
            "{class=0xffff,type=0,len=4,0xa}".to_owned(),
            "{class=0xffff,type=0,len=4,0xb/0xf}{class=0x102,type=0x2,len=0}".to_owned(),
            format!("{{class=0xffff,type=0x81,len=60,{long}}}"),
            format!("{{class=0xffff,type=0x81,len=60,{long}/{long}}}"),
            "{class=0xffff,type=0x81,len=60}".to_owned(),
        ];
        let names = PortNames::default();
        for text in texts {
            let flow = format!("tunnel(src=1.1.1.1,dst=2.2.2.2,geneve({text})");
            let (key, mask) = parse_flow(&format!("{flow})"), &|_| None).unwrap();
            let printed = format_flow(&key, &mask, false, names);
            assert!(printed.starts_with(&flow), "{printed} {flow}");
        }
    }

    #[test]
    fn what_no_packet_can_have_is_said() {
        let cases = [
            ("{class=0xffff,type=0,len=3}", "is no multiple of four bytes"),
            ("{class=0xffff,type=0,len=128}", "is too large for its field"),
            ("{class=0xffff,type=0,len=4,0x100000000}", "is too long for the option"),
            ("class=9", "an option is {class=,type=,len=,VALUE}"),
            ("{class=1,kind=2}", "an option has class, type, len and a value"),
        ];
        for (text, expect) in cases {
            let (mut key, mut mask) = (FlowKey::new(), Mask::new());
            let found = read_geneve(&mut key, &mut mask, text);
            assert_eq!(found.unwrap_err().what, expect, "{text}");
        }
        let many = "{class=1,type=1,len=124}".repeat(2);
        let (mut key, mut mask) = (FlowKey::new(), Mask::new());
        let found = read_geneve(&mut key, &mut mask, &many);
        assert_eq!(found.unwrap_err().what, "options have at most 252 bytes");
    }
}
