//! Values with masks as text.

use base::MacAddr;
use flow::{FRAG_ANY, FRAG_LATER, Field, FlowKey, Mask};
use std::fmt::{Display, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Writes the fields of one header: `src=1.2.3.4/255.0.0.0,proto=6`.
pub(super) struct Fields<'a> {
    pub key: &'a FlowKey,
    pub mask: &'a Mask,
    /// Also write fields without mask bits.
    pub verbose: bool,
    pub out: String,
}

/// The notation of a number.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Decimal,
    Hex,
}

impl<'a> Fields<'a> {
    pub fn new(key: &'a FlowKey, mask: &'a Mask, verbose: bool) -> Self {
        Fields { key, mask, verbose, out: String::new() }
    }

    /// A number and its mask in hexadecimal.
    pub fn number(&mut self, name: &str, field: Field, form: Number) {
        self.field(name, field, |value| format_number(value, form), hex);
    }

    pub fn ipv4(&mut self, name: &str, field: Field) {
        let text = |value: u128| Ipv4Addr::from(value as u32).to_string();
        self.field(name, field, text, text);
    }

    pub fn ipv6(&mut self, name: &str, field: Field) {
        let text = |value: u128| Ipv6Addr::from(value).to_string();
        self.field(name, field, text, text);
    }

    pub fn mac(&mut self, name: &str, field: Field) {
        let text = |value: u128| MacAddr::from_u64(value as u64).to_string();
        self.field(name, field, text, text);
    }

    /// The fragment type; only two bits are used.
    pub fn frag(&mut self) {
        let mask = self.mask.get(Field::NwFrag) as u8 & (FRAG_ANY | FRAG_LATER);
        if mask == 0 && !self.verbose {
            return;
        }
        let name = frag_name(self.key.nw_frag());
        let suffix =
            if mask == FRAG_ANY | FRAG_LATER { String::new() } else { format!("/{mask:#x}") };
        self.put(&format!("frag={name}{suffix}"));
    }

    /// The fields of `nd_ext(...)`.
    pub fn nd_extensions(&mut self) {
        self.number("nd_reserved", Field::NdReserved, Number::Hex);
        self.number("nd_options_type", Field::NdOptionsType, Number::Decimal);
    }

    fn field<A: Display, B: Display>(
        &mut self,
        name: &str,
        field: Field,
        value: impl Fn(u128) -> A,
        mask_text: impl Fn(u128) -> B,
    ) {
        let mask = self.mask.get(field);
        let text = value(self.key.get(field));
        if mask == field.all_ones() {
            self.put(&format!("{name}={text}"));
        } else if mask != 0 || self.verbose {
            self.put(&format!("{name}={text}/{}", mask_text(mask)));
        }
    }

    pub fn put(&mut self, text: &str) {
        if !self.out.is_empty() {
            self.out.push(',');
        }
        self.out.push_str(text);
    }
}

/// Like `%#x` in C: zero has no `0x`.
pub(super) fn hex(value: u128) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}

pub(super) fn format_number(value: u128, form: Number) -> String {
    match form {
        Number::Decimal => value.to_string(),
        Number::Hex => hex(value),
    }
}

pub(super) fn frag_name(frag: u8) -> &'static str {
    match (frag & FRAG_ANY != 0, frag & FRAG_LATER != 0) {
        (false, false) => "no",
        (true, false) => "first",
        (true, true) => "later",
        (false, true) => "<error>",
    }
}

/// Masked flags: `+new-est`; `0/0` for an empty mask.
pub(super) fn masked_flags(value: u128, mask: u128, names: &[(u128, &str)]) -> String {
    if mask == 0 {
        return "0/0".to_owned();
    }
    let mut out = String::new();
    for &(bit, name) in names {
        if mask & bit != 0 {
            let sign = if value & bit != 0 { '+' } else { '-' };
            let _ = write!(out, "{sign}{name}");
        }
    }
    out
}

/// Exact flags: `est|trk`, or `0`.
pub(super) fn all_flags(value: u128, names: &[(u128, &str)]) -> String {
    let set: Vec<&str> =
        names.iter().filter(|(bit, _)| value & bit != 0).map(|(_, name)| *name).collect();
    if set.is_empty() { "0".to_owned() } else { set.join("|") }
}

/// TCP flags with their names (ovs: `lib/packets.c`, `packet_tcp_flag_to_string`).
pub(super) const TCP_FLAGS: [(u128, &str); 12] = [
    (0x001, "fin"),
    (0x002, "syn"),
    (0x004, "rst"),
    (0x008, "psh"),
    (0x010, "ack"),
    (0x020, "urg"),
    (0x040, "ece"),
    (0x080, "cwr"),
    (0x100, "ns"),
    (0x200, "[200]"),
    (0x400, "[400]"),
    (0x800, "[800]"),
];

/// Connection states and their names.
pub(super) const CT_STATES: [(u128, &str); 8] = [
    (0x01, "new"),
    (0x02, "est"),
    (0x04, "rel"),
    (0x08, "rpl"),
    (0x10, "inv"),
    (0x20, "trk"),
    (0x40, "snat"),
    (0x80, "dnat"),
];
