//! Matches as lists of entries (ovs: `lib/nx-match.c`).

use super::entry::{describe, known, put_code, put_entry, take_raw_entry};
use super::headers::is_of_nsh;
use super::packet_type;
use super::prerequisite::Proto;
use super::table::{Code, Spec, by_name};
use super::tunnel::{add_option, tunnel_address};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use base::OfPort;
use flow::{Field, Match};
use wire::{ethertype, protocol};

/// A cookie and mask that select flows, which Nicira's messages contain in the match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cookie {
    pub value: u64,
    /// 0 selects all.
    pub mask: u64,
}

/// OFPMT_OXM
const OXM_MATCH: u16 = 1;

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

/// Reads entries up to the end of `input`.
pub(crate) fn take_raw(
    mut input: Input<'_>,
    mut cookie: Option<&mut Cookie>,
) -> Result<Match, OfError> {
    let mut matching = Match::any();
    while !input.is_empty() {
        let entry = take_raw_entry(&mut input)?;
        if entry.header.code == Code::COOKIE && known(entry.header).is_err() {
            let cookie = cookie.as_deref_mut();
            take_cookie(entry.header.len, entry.value, entry.mask, cookie)?;
            continue;
        }
        // A field is identified by its number and length (ovs: `lib/nx-match.c`, `mf_from_oxm_header`).
        let spec = known(entry.header)
            .map_err(|error| OfError { code: ErrorCode::MatchBadField, ..error })?;
        match entry.option {
            Some(option) => add_option(&mut matching, spec, option)?,
            None => add(&mut matching, spec, entry.value, entry.mask)?,
        }
    }
    packet_type::leave_out_default(&mut matching);
    Ok(matching)
}

fn take_cookie(
    len: usize,
    value: u128,
    mask: Option<u128>,
    into: Option<&mut Cookie>,
) -> Result<(), OfError> {
    let Some(cookie) = into else {
        return Err(bad(ErrorCode::MatchBadField, "a cookie is not matched by here"));
    };
    if len != if mask.is_some() { 16 } else { 8 } {
        return Err(bad(ErrorCode::MatchBadLen, format!("a cookie of {len} bytes")));
    }
    if cookie.mask != 0 {
        return Err(bad(ErrorCode::MatchDuplicateField, "the cookie is given twice"));
    }
    let mask = mask.map_or(u64::MAX, |mask| mask as u64);
    *cookie = Cookie { value: value as u64 & mask, mask };
    Ok(())
}

/// Adds one entry to `matching`, after checking its prerequisites.
fn add(matching: &mut Match, spec: &Spec, value: u128, mask: Option<u128>) -> Result<(), OfError> {
    if !spec.prerequisite.met_by(matching) {
        let reason = format!("{} needs a match on {:?} before it", spec.name, spec.prerequisite);
        return Err(bad(ErrorCode::MatchBadPrereq, reason));
    }
    let whole = u128::MAX >> (128 - spec.bytes * 8);
    let mask = mask.unwrap_or(whole);
    if !spec.maskable && mask != whole && mask != 0 {
        return Err(bad(ErrorCode::MatchBadMask, format!("{} can't be masked", spec.name)));
    }
    let Some((field, value, mask)) = to_key(spec, value & mask, mask) else {
        let reason = format!("{value:#x} is no {}", describe(spec.first));
        return Err(bad(ErrorCode::MatchBadValue, reason));
    };
    if matching.mask().has(spec.field) {
        return Err(bad(ErrorCode::MatchDuplicateField, format!("{} is given twice", spec.name)));
    }
    if mask != 0 {
        matching.set_masked(field, value, mask);
    }
    Ok(())
}

/// Converts a value on the wire to the key's field, value and mask. Returns `None` for an invalid value.
pub(crate) fn to_key(spec: &Spec, value: u128, mask: u128) -> Option<(Field, u128, u128)> {
    let ones = spec.field.all_ones();
    let fits = value & !ones == 0;
    Some(match spec.field {
        Field::InPort | Field::ActsetOutput if mask == 0 => (spec.field, 0, 0),
        Field::InPort | Field::ActsetOutput if spec.bytes == 4 => {
            let port = OfPort::from_wire32(value as u32)?;
            (spec.field, port.0.into(), ones)
        }
        Field::InPort => (Field::InPort, value, ones),
        // The mask may contain undefined bits, as an exact match's does.
        Field::CtState if value & !0xff == 0 => (Field::CtState, value, mask & 0xff),
        Field::CtState => return None,
        Field::NwTos if value & !0xfc == 0 => (Field::IpDscp, value >> 2, mask >> 2),
        Field::NwTos => return None,
        Field::NwFrag if value & !3 == 0 => (Field::NwFrag, value, mask & 3),
        Field::NwFrag => return None,
        Field::TunFlags if value & !1 == 0 => (Field::TunFlags, value, mask & 1),
        Field::TunFlags => return None,
        Field::TunSrc | Field::TunDst => tunnel_address(spec.field, value, mask),
        Field::VlanPcp if fits => {
            // Matching a priority requires a tag.
            let present = if mask == 0 { 0 } else { 0x1000 };
            (Field::VlanTci, value << 13 | present, (mask & 7) << 13 | present)
        }
        // The key stores ICMP types as ports, 16 bits wide.
        Field::IcmpType => (Field::TpSrc, value, if mask == 0 { 0 } else { 0xffff }),
        Field::IcmpCode => (Field::TpDst, value, if mask == 0 { 0 } else { 0xffff }),
        Field::ArpOp if value > 0xff => return None,
        field if mask != 0 && !is_of_nsh(field, value) => return None,
        Field::PacketType => {
            let packet_type = packet_type::to_key(value as u32)?;
            (spec.field, packet_type.into(), if mask == 0 { 0 } else { ones })
        }
        field if fits => (field, value, mask & ones),
        _ => return None,
    })
}

/// Reads `len` bytes of entries, padded to 8 bytes.
pub(crate) fn take_nxm_match(
    input: &mut Input<'_>,
    len: usize,
    cookie: Option<&mut Cookie>,
) -> Result<Match, OfError> {
    let mut padded = input.part(len.next_multiple_of(8))?;
    take_raw(Input::new(padded.take(len)?, ErrorCode::MatchBadLen, "the match"), cookie)
}

/// Reads a match with OpenFlow 1.2's header, padded to 8 bytes.
pub(crate) fn take_oxm_match(input: &mut Input<'_>) -> Result<Match, OfError> {
    let (kind, len) = (input.u16()?, usize::from(input.u16()?));
    if kind != OXM_MATCH {
        return Err(bad(ErrorCode::MatchBadType, format!("match type {kind} is not OXM (1)")));
    }
    let Some(body) = len.checked_sub(4) else {
        return Err(bad(ErrorCode::MatchBadLen, format!("a match of {len} bytes")));
    };
    let mut padded = input
        .part(len.next_multiple_of(8) - 4)
        .map_err(|error| OfError { code: ErrorCode::MatchBadLen, ..error })?;
    take_raw(Input::new(padded.take(body)?, ErrorCode::MatchBadLen, "the match"), None)
}

/// The format of a match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MatchForm {
    /// Nicira's, for OpenFlow 1.0 and Nicira's messages.
    Nxm,
    /// OpenFlow's, for this wire version.
    Oxm(u8),
}

impl MatchForm {
    fn version(self) -> u8 {
        match self {
            MatchForm::Nxm => 0,
            MatchForm::Oxm(version) => version,
        }
    }
}

/// Writes entries in Open vSwitch's order, which puts prerequisites first.
pub(crate) fn put_raw(out: &mut Vec<u8>, matching: &Match, form: MatchForm) {
    let mut entries = Writer { out, matching, version: form.version(), proto: Proto::of(matching) };
    entries.write();
}

/// Writes entries, then zero bytes to a multiple of 8. Returns the length of the entries.
pub(crate) fn put_nxm_match(
    out: &mut Vec<u8>,
    matching: &Match,
    form: MatchForm,
    cookie: Cookie,
) -> usize {
    let start = out.len();
    put_raw(out, matching, form);
    if cookie.mask != 0 {
        let exact = cookie.mask == u64::MAX;
        put_code(out, Code::COOKIE, !exact, 8);
        out.put_u64(cookie.value & cookie.mask);
        if !exact {
            out.put_u64(cookie.mask);
        }
    }
    let len = out.len() - start;
    out.pad8(start);
    len
}

/// Writes a match with OpenFlow 1.2's header and padding. Returns its length without the padding.
pub(crate) fn put_oxm_match(out: &mut Vec<u8>, matching: &Match, version: u8) -> usize {
    let start = out.len();
    out.put_u16(OXM_MATCH);
    out.put_u16(0);
    put_raw(out, matching, MatchForm::Oxm(version));
    let len = out.len() - start;
    out.set_u16(start + 2, len);
    out.pad8(start);
    len
}

pub(super) struct Writer<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) matching: &'a Match,
    pub(super) version: u8,
    pub(super) proto: Proto,
}

impl Writer<'_> {
    fn write(&mut self) {
        // First, because other fields may depend on it.
        if self.matching.mask().has(Field::PacketType)
            && let Some(spec) = by_name("packet_type")
        {
            let value = packet_type::to_wire(self.matching.key().get(Field::PacketType) as u16);
            put_entry(self.out, spec, self.version, value.into(), None);
        }
        for name in ["dp_hash", "recirc_id", "conj_id"] {
            self.field(name);
        }
        self.ports();
        for name in ["eth_src", "eth_dst", "eth_type"] {
            self.field(name);
        }
        self.vlan();
        self.labels();
        if self.proto.is_ip() {
            self.ip();
        } else if self.proto.is_arp() {
            for name in ["arp_op", "arp_spa", "arp_tpa", "arp_sha", "arp_tha"] {
                self.field(name);
            }
        }
        self.tunnel();
        self.service_chain();
        self.registers();
        for name in ["pkt_mark", "ct_state", "ct_zone", "ct_mark", "ct_label"] {
            self.field(name);
        }
        self.ct_tuple();
        self.field("metadata");
    }

    /// Writes a field if the match contains it.
    pub(super) fn field(&mut self, name: &str) {
        let Some(spec) = by_name(name) else { return };
        let value = self.matching.key().get(spec.field);
        self.put(name, value, self.matching.mask().get(spec.field));
    }

    pub(super) fn put(&mut self, name: &str, value: u128, mask: u128) {
        let Some(spec) = by_name(name) else { return };
        if mask != 0 {
            let exact = mask == spec.field.all_ones() && spec.field != Field::CtState;
            put_entry(self.out, spec, self.version, value, (!exact).then_some(mask));
        }
    }

    /// Writes a field of few bits completely if any of them is matched.
    pub(super) fn exact(&mut self, name: &str, field: Field) {
        let Some(spec) = by_name(name) else { return };
        if self.matching.mask().has(field) {
            put_entry(self.out, spec, self.version, self.matching.key().get(field), None);
        }
    }

    fn ports(&mut self) {
        let key = self.matching.key();
        for (field, narrow, wide) in [
            (Field::InPort, "in_port", "in_port_oxm"),
            (Field::ActsetOutput, "actset_output", "actset_output"),
        ] {
            if !self.matching.mask().has(field) {
                continue;
            }
            let port = OfPort(key.get(field) as u16);
            let name = if self.version == 0 { narrow } else { wide };
            let Some(spec) = by_name(name) else { continue };
            let wire = if spec.bytes == 4 { port.to_wire32() } else { port.0.into() };
            put_entry(self.out, spec, self.version, wire.into(), None);
        }
    }

    fn vlan(&mut self) {
        if self.version == 0 {
            return self.field("vlan_tci");
        }
        let (key, mask) = (self.matching.key(), self.matching.mask());
        let (value, bits) = (key.get(Field::VlanVidPresent), mask.get(Field::VlanVidPresent));
        self.put("vlan_vid", value, bits);
        if value != 0 {
            self.exact("vlan_pcp", Field::VlanPcp);
        }
    }

    fn ip(&mut self) {
        let names = if self.proto.eth_type == ethertype::IPV4 {
            ["ip_src", "ip_dst"]
        } else {
            ["ipv6_src", "ipv6_dst"]
        };
        for name in names {
            self.field(name);
        }
        let (key, mask) = (self.matching.key(), self.matching.mask());
        let (frag, bits) = (key.get(Field::NwFrag) & 3, mask.get(Field::NwFrag) & 3);
        if bits == 3 {
            self.exact("ip_frag", Field::NwFrag);
        } else if bits != 0 {
            self.put("ip_frag", frag, bits);
        }
        if mask.has(Field::IpDscp) {
            let dscp = key.get(Field::IpDscp);
            let (name, value) =
                if self.version == 0 { ("nw_tos", dscp << 2) } else { ("ip_dscp", dscp) };
            let Some(spec) = by_name(name) else { return };
            put_entry(self.out, spec, self.version, value, None);
        }
        self.exact("nw_ecn", Field::IpEcn);
        self.exact("nw_ttl", Field::NwTtl);
        self.field("ipv6_label");
        self.exact("nw_proto", Field::NwProto);
        self.transport();
    }

    fn transport(&mut self) {
        match self.proto.nw_proto {
            protocol::TCP => {
                for name in ["tcp_src", "tcp_dst", "tcp_flags"] {
                    self.field(name);
                }
            }
            protocol::UDP => {
                self.field("udp_src");
                self.field("udp_dst");
            }
            protocol::SCTP => {
                self.field("sctp_src");
                self.field("sctp_dst");
            }
            _ if self.proto.is_icmp4() => {
                self.exact("icmp_type", Field::IcmpType);
                self.exact("icmp_code", Field::IcmpCode);
            }
            _ if self.proto.is_icmp6() => {
                self.exact("icmpv6_type", Field::IcmpType);
                self.exact("icmpv6_code", Field::IcmpCode);
                self.neighbour_discovery();
            }
            _ => {}
        }
    }

    fn registers(&mut self) {
        let prefix = if self.version >= 6 { "xreg" } else { "reg" };
        for spec in super::specs().iter().filter(|spec| spec.name.starts_with(prefix)) {
            self.field(spec.name);
        }
    }

    /// The original direction's addresses. IPv4 ones are stored in the bits of the IPv6 ones, and the match's
    /// Ethernet type distinguishes them.
    fn ct_tuple(&mut self) {
        let names = if self.proto.eth_type == ethertype::IPV6 {
            ["ct_ipv6_src", "ct_ipv6_dst"]
        } else {
            ["ct_nw_src", "ct_nw_dst"]
        };
        for name in names.into_iter().chain(["ct_nw_proto", "ct_tp_src", "ct_tp_dst"]) {
            self.field(name);
        }
    }
}
