//! Tunnels in the format of datapath dumps (ovs: `lib/odp-util.c`, `format_odp_tun_attr`,
//! `format_odp_tnl_push_header`).

use super::PortNames;
use super::field::{Fields, Number, all_flags, hex, masked_flags};
use flow::{
    Field, FlowKey, Mask, SetTunnel, TUN_CSUM, TUN_DONT_FRAGMENT, TUN_KEY, TUN_OAM, TunnelKind,
    TunnelPush, Wide,
};
use wire::geneve::{OPTION_HEADER_LEN, read_options};
use wire::{Erspan, Ethernet, Geneve, Gre, Ipv6, Srv6, gre, udp};

/// Flags and their names (ovs: `lib/packets.c`, `flow_tun_flag_to_string`).
pub(super) const TUNNEL_FLAGS: [(u128, &str); 4] = [
    (TUN_OAM as u128, "oam"),
    (TUN_DONT_FRAGMENT as u128, "df"),
    (TUN_CSUM as u128, "csum"),
    (TUN_KEY as u128, "key"),
];

impl Fields<'_> {
    /// The fields of `tunnel(...)`. Zero header fields have no attribute and are not printed.
    pub(super) fn tunnel(&mut self) {
        self.tunnel_ends();
        let options = geneve_options(self.key, Some((self.mask, self.verbose)));
        if !options.is_empty() {
            self.put(&format!("geneve({options})"));
        }
        self.tunnel_extensions();
        // The key flag is matched if the tunnel id is.
        let key = if self.mask.has(Field::TunId) && self.has_tunnel_key() { TUN_KEY } else { 0 };
        let mask = (self.mask.get(Field::TunFlags) & !u128::from(TUN_KEY)) | u128::from(key);
        let value = self.key.get(Field::TunFlags);
        let all = TUNNEL_FLAGS.iter().fold(0, |all, (bit, _)| all | bit);
        let flags = match mask == all {
            true => all_flags(value, &TUNNEL_FLAGS),
            false => masked_flags(value, mask, &TUNNEL_FLAGS),
        };
        self.put(&format!("flags({})", if mask == 0 { "" } else { &flags }));
    }

    /// Whether the tunnel has a key: an id of zero may be a key or none.
    fn has_tunnel_key(&self) -> bool {
        let has_flag = self.key.get(Field::TunFlags) as u16 & TUN_KEY != 0;
        has_flag || self.key.get(Field::TunId) != 0
    }

    /// The tunnel's addresses, and the fields of the outer IP header.
    fn tunnel_ends(&mut self) {
        let id = self.mask.get(Field::TunId);
        if id != 0 && self.has_tunnel_key() {
            let exact = self.mask.is_exact(Field::TunId);
            let mask = if exact { String::new() } else { format!("/0x{id:x}") };
            self.put(&format!("tun_id=0x{:x}{mask}", self.key.get(Field::TunId)));
        }
        let ends = self.key.get(Field::TunIpv6Src) | self.key.get(Field::TunIpv6Dst);
        if u32::try_from(ends).is_ok() {
            self.ipv4("src", Field::TunSrc);
            self.ipv4("dst", Field::TunDst);
        } else {
            self.ipv6("ipv6_src", Field::TunIpv6Src);
            self.ipv6("ipv6_dst", Field::TunIpv6Dst);
        }
        for (name, field, form) in
            [("tos", Field::TunTos, Number::Hex), ("ttl", Field::TunTtl, Number::Decimal)]
        {
            if self.key.get(field) != 0 {
                self.number(name, field, form);
            }
        }
    }

    fn tunnel_extensions(&mut self) {
        let part = |header: &str, fields: &[(&str, Field, Number)]| {
            let mut inside = Fields::new(self.key, self.mask, false);
            for (name, field, form) in fields {
                inside.number(name, *field, *form);
            }
            let is_there = fields.iter().any(|(_, field, _)| self.key.get(*field) != 0);
            (is_there && !inside.out.is_empty()).then(|| format!("{header}({})", inside.out))
        };
        let policy =
            [("id", Field::TunGbpId, Number::Decimal), ("flags", Field::TunGbpFlags, Number::Hex)];
        let erspan = [
            ("ver", Field::TunErspanVer, Number::Decimal),
            ("idx", Field::TunErspanIdx, Number::Hex),
            ("dir", Field::TunErspanDir, Number::Decimal),
            ("hwid", Field::TunErspanHwid, Number::Hex),
        ];
        let gtpu = [
            ("flags", Field::TunGtpuFlags, Number::Hex),
            ("msgtype", Field::TunGtpuMsgtype, Number::Decimal),
        ];
        let parts = [
            part("gbp", &policy).map(|inside| format!("vxlan({inside})")),
            part("erspan", &erspan),
            part("gtpu", &gtpu),
        ];
        parts.into_iter().flatten().for_each(|part| self.put(&part));
    }
}

/// The tunnel of a `set` action: zero fields are left out.
pub(super) fn told_tunnel(to: &SetTunnel) -> String {
    let key = &to.key;
    let mut mask = Mask::new();
    let has = |field: Field| key.get(field) != 0;
    let flags = key.get(Field::TunFlags) as u16;
    if has(Field::TunId) || flags & TUN_KEY != 0 {
        mask.add(Field::TunId);
    }
    let ends = [Field::TunIpv6Src, Field::TunIpv6Dst].into_iter().filter(|&field| has(field));
    ends.for_each(|field| mask.add(field));
    let rest = [
        Field::TunTos,
        Field::TunTtl,
        Field::TunGbpId,
        Field::TunGbpFlags,
        Field::TunErspanVer,
        Field::TunGtpuFlags,
        Field::TunGtpuMsgtype,
    ];
    rest.into_iter().for_each(|field| mask.add(field));
    match key.get(Field::TunErspanVer) {
        1 => mask.add(Field::TunErspanIdx),
        2 => [Field::TunErspanDir, Field::TunErspanHwid].into_iter().for_each(|it| mask.add(it)),
        _ => {}
    }
    let mut fields = Fields::new(key, &mask, false);
    fields.tunnel_ends();
    if to.udp_port != 0 {
        fields.put(&format!("tp_dst={}", to.udp_port));
    }
    let options = geneve_options(key, None);
    if !options.is_empty() {
        fields.put(&format!("geneve({options})"));
    }
    fields.tunnel_extensions();
    fields.put(&format!("flags({})", all_flags(flags.into(), &TUNNEL_FLAGS)));
    fields.out
}

/// The options of a packet in the format of dumps: `{class=0xffff,type=0,len=4,0x1/0xf}`. If a mask is given,
/// values without mask bits are left out unless verbose (ovs: `lib/odp-util.c`, `format_geneve_opts`).
fn geneve_options(key: &FlowKey, mask: Option<(&Mask, bool)>) -> String {
    let (bytes, mut at, mut out) = (key.raw_options(), 0, String::new());
    let bits = mask.map_or(vec![0xff; bytes.len()], |(mask, _)| mask.raw_options(bytes.len()));
    for option in read_options(&bytes) {
        let len = option.value.len();
        let bits = &bits[at + OPTION_HEADER_LEN..][..len];
        at += OPTION_HEADER_LEN + len;
        let (class, kind) = (hex(option.class.into()), hex(option.kind.into()));
        out += &format!("{{class={class},type={kind},len={len}");
        let is_told = bits.iter().any(|it| *it != 0) || mask.is_some_and(|(_, verbose)| verbose);
        if is_told && len > 0 {
            out += &format!(",{}", wide_hex(Wide::from_bytes(option.value)));
            if bits.iter().any(|it| *it != 0xff) {
                out += &format!("/{}", wide_hex(Wide::from_bytes(bits)));
            }
        }
        out.push('}');
    }
    out
}

fn wide_hex(value: Wide) -> String {
    if value.is_zero() { "0".to_owned() } else { format!("{value:#x}") }
}

/// `tnl_push(tnl_port(4),header(size=50,type=4,eth(...),ipv4(...),udp(...),vxlan(...)),out_port(100))`
pub(super) fn format_push(push: &TunnelPush, names: PortNames<'_>) -> String {
    let (port, out_port) = (names.device(push.port), names.device(push.out_port));
    let is_v6 = push.header.get(12..14) == Some(&wire::ethertype::IPV6.to_be_bytes()[..]);
    let kind = match push.kind {
        TunnelKind::Gre if is_v6 => TunnelKind::Ip6Gre,
        TunnelKind::Erspan if is_v6 => TunnelKind::Ip6Erspan,
        kind => kind,
    };
    let (size, kind) = (push.header.len(), kind.number());
    let headers = headers(push.kind, &push.header).unwrap_or_default();
    format!(
        "tnl_push(tnl_port({port}),header(size={size},type={kind},{headers}),\
         out_port({out_port}))"
    )
}

fn headers(kind: TunnelKind, header: &[u8]) -> Option<String> {
    let ethernet = Ethernet::new_checked(header).ok()?;
    let (dst, src, eth_type) = (ethernet.destination(), ethernet.source(), ethernet.ethertype());
    let outer = header.get(14..)?;
    let (network, transport) = match eth_type {
        wire::ethertype::IPV4 => (ipv4(outer)?, outer.get(20..)?),
        _ => (ipv6(outer)?, outer.get(40..)?),
    };
    let inner = match kind {
        TunnelKind::Gre | TunnelKind::Ip6Gre => gre_header(transport)?,
        TunnelKind::Erspan | TunnelKind::Ip6Erspan => erspan(transport.get(8..)?)?,
        TunnelKind::Srv6 => srv6_header(transport)?,
        _ => format!(
            "{}{}",
            udp_header(transport)?,
            over_udp(kind, transport.get(udp::HEADER_LEN..)?)?
        ),
    };
    Some(format!("eth(dst={dst},src={src},dl_type=0x{eth_type:04x}),{network},{inner}"))
}

/// The template has zero lengths, which a checked view refuses.
fn ipv4(outer: &[u8]) -> Option<String> {
    let octets = |at: usize| Some(<[u8; 4]>::try_from(outer.get(at..at + 4)?).ok()?.into());
    let (src, dst): (std::net::Ipv4Addr, std::net::Ipv4Addr) = (octets(12)?, octets(16)?);
    let byte = |at: usize| outer.get(at).copied();
    let (tos, ttl, proto) = (hex(byte(1)?.into()), byte(8)?, byte(9)?);
    let fragment = u16::from_be_bytes([byte(6)?, byte(7)?]);
    Some(format!("ipv4(src={src},dst={dst},proto={proto},tos={tos},ttl={ttl},frag=0x{fragment:x})"))
}

fn ipv6(outer: &[u8]) -> Option<String> {
    let ip = Ipv6::new_quoted(outer).ok()?;
    Some(format!(
        "ipv6(src={},dst={},label={},proto={},tclass=0x{:x},hlimit={})",
        ip.source(),
        ip.destination(),
        ip.flow_label(),
        ip.next_header(),
        ip.traffic_class(),
        ip.hop_limit()
    ))
}

fn udp_header(transport: &[u8]) -> Option<String> {
    let word = |at: usize| Some(u16::from_be_bytes(transport.get(at..at + 2)?.try_into().ok()?));
    Some(format!("udp(src={},dst={},csum=0x{:x})", word(0)?, word(2)?, word(6)?))
}

fn over_udp(kind: TunnelKind, body: &[u8]) -> Option<String> {
    let word = |at: usize| Some(u32::from_be_bytes(body.get(at..at + 4)?.try_into().ok()?));
    Some(match kind {
        TunnelKind::Geneve => {
            let header = Geneve::new_checked(body).ok()?;
            let flag = |flag: u8, name| if header.flags() & flag == 0 { "" } else { name };
            let oam = flag(wire::geneve::FLAG_OAM, "oam,");
            let critical = flag(wire::geneve::FLAG_CRITICAL, "crit,");
            let options: Vec<String> = wire::geneve::read_options(header.options())
                .map(|option| {
                    let (class, kind, len) = (option.class, option.kind, option.value.len());
                    let value = match len {
                        0 => String::new(),
                        _ => format!(",{}", wide_hex(Wide::from_bytes(option.value))),
                    };
                    let (class, kind) = (hex(class.into()), hex(kind.into()));
                    format!("{{class={class},type={kind},len={len}{value}}}")
                })
                .collect();
            let options = match options.is_empty() {
                true => String::new(),
                false => format!(",options({})", options.concat()),
            };
            format!(",geneve({oam}{critical}vni=0x{:x}{options})", header.vni())
        }
        TunnelKind::Gtpu => {
            let (flags, kind) = (body.first()?, body.get(1)?);
            format!(",gtpu(flags=0x{flags:x},msgtype={kind},teid=0x{:x})", word(4)?)
        }
        TunnelKind::Bareudp => String::new(),
        _ => format!(",vxlan(flags=0x{:x},vni=0x{:x})", word(0)?, word(4)? >> 8),
    })
}

fn gre_header(transport: &[u8]) -> Option<String> {
    let header = Gre::new_checked(transport).ok()?;
    let mut text = format!("gre((flags=0x{:x},proto=0x{:x})", header.flags(), header.protocol());
    if header.flags() & gre::FLAG_CHECKSUM != 0 {
        text += ",csum=0x0";
    }
    if let Some(key) = header.key() {
        text += &format!(",key=0x{key:x}");
    }
    if header.flags() & gre::FLAG_SEQUENCE != 0 {
        text += ",seq=0x0";
    }
    Some(text + ")")
}

fn srv6_header(transport: &[u8]) -> Option<String> {
    let header = Srv6::find(wire::protocol::ROUTING, transport).ok()?;
    let segments: Vec<String> = header.segments().map(|it| it.to_string()).collect();
    Some(format!("srv6(segments_left={},segs({}))", header.segments_left(), segments.join(",")))
}

fn erspan(body: &[u8]) -> Option<String> {
    let header = Erspan::new_checked(body).ok()?;
    let session = header.session();
    Some(match header.version() {
        1 => format!("erspan(ver=1,sid=0x{session:x},idx=0x{:x})", header.index()),
        _ => format!(
            "erspan(ver=2,sid=0x{session:x},dir={},hwid=0x{:x})",
            header.direction(),
            header.hardware()
        ),
    })
}
