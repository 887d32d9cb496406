//! All fields with an OpenFlow number: names, numbers, width and prerequisites (ovs:
//! `include/openvswitch/meta-flow.h`).

use flow::{Field, OptionMapping};
use std::collections::HashMap;
use std::sync::LazyLock;

use super::prerequisite::{Prerequisite, Proto};
use Prerequisite as P;
use wire::protocol;

/// A class and field number, and the experimenter of class 0xffff.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Code {
    pub class: u16,
    pub number: u8,
    pub experimenter: u32,
}

impl Code {
    /// `NXM_NX_COOKIE`, which is not a packet field. `NXM_NX_MPLS_TTL` has the same number and another length.
    pub const COOKIE: Code = Code { class: 1, number: 30, experimenter: 0 };
    /// The class of Ericsson's fields, which have neither Nicira nor OpenFlow numbers.
    const ERICSSON: u16 = 0x1000;
    /// The class of experimenter fields; those in the table are Nicira's.
    const EXPERIMENTER: u16 = 0xffff;
    /// Represents the class of experimenter fields with NSH's experimenter in the table.
    const NSH: u16 = 0xfffe;
    /// The experimenter of the fields of NSH.
    const NSH_EXPERIMENTER: u32 = 0x005a_d650;
}

/// An OpenFlow field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spec {
    pub field: Field,
    /// Open vSwitch's name.
    pub name: &'static str,
    /// The name in actions such as `load` and `move`.
    pub nxm_name: String,
    /// An alternative name in those actions.
    pub oxm_name: String,
    /// The number in OpenFlow 1.0 and in Nicira's actions.
    pub first: Code,
    /// The number from OpenFlow 1.2 on.
    pub oxm: Code,
    /// The number from OpenFlow 1.5 on.
    pub oxm15: Code,
    /// Bytes of a value.
    pub bytes: usize,
    /// Significant bits.
    pub bits: u32,
    pub maskable: bool,
    pub writable: bool,
    pub prerequisite: Prerequisite,
}

impl Spec {
    /// Returns the number for an OpenFlow wire version, or 0 for NXM.
    pub fn code(&self, version: u8) -> Code {
        match version {
            6.. => self.oxm15,
            // OpenFlow 1.1 has no OXM, and 1.2 lacks two of the fields.
            3 if matches!(self.field, Field::TunId | Field::TcpFlags) => self.first,
            3..=5 => self.oxm,
            _ => self.first,
        }
    }

    /// Returns the index of the tunnel option that the field stands for, if it does.
    pub fn option(&self) -> Option<u8> {
        self.field.tun_metadata_index()
    }

    /// Returns the field that represents bits of this one: `OXM_OF_VLAN_VID[]` is 12 bits wide, though the
    /// field also contains the bit for the presence of a tag; and `OXM_OF_IN_PORT[]` has bits that
    /// `NXM_OF_IN_PORT[]` lacks.
    pub fn bits_field(&self) -> Field {
        match self.field {
            Field::VlanVidPresent => Field::VlanVid,
            Field::InPort if self.bytes == 4 => Field::InPortOxm,
            field => field,
        }
    }
}

/// A row of the table in short form: NXM class (0, 1, Ericsson's or experimenter) and number, OXM number.
struct Row {
    field: Field,
    name: &'static str,
    nxm: Option<(u16, u8, &'static str)>,
    oxm: Option<(u8, &'static str)>,
    bytes: usize,
    /// `m` maskable, `w` writable.
    flags: &'static str,
    prerequisite: Prerequisite,
}

#[rustfmt::skip]
const ROWS: &[Row] = {
    use Field as F;
    const fn row(field: Field, name: &'static str, nxm: Option<(u16, u8, &'static str)>,
                 oxm: Option<(u8, &'static str)>, bytes: usize, flags: &'static str,
                 prerequisite: Prerequisite) -> Row {
        Row { field, name, nxm, oxm, bytes, flags, prerequisite }
    }
    &[
        row(F::PacketType, "packet_type", None, Some((44, "PACKET_TYPE")), 4, "", P::None),
        row(F::DpHash, "dp_hash", Some((1, 35, "DP_HASH")), None, 4, "m", P::None),
        row(F::RecircId, "recirc_id", Some((1, 36, "RECIRC_ID")), None, 4, "", P::None),
        row(F::ConjId, "conj_id", Some((1, 37, "CONJ_ID")), None, 4, "", P::None),
        row(F::TunId, "tun_id", Some((1, 16, "TUN_ID")), Some((38, "TUNNEL_ID")), 8, "mw", P::None),
        row(F::TunSrc, "tun_src", Some((1, 31, "TUN_IPV4_SRC")), None, 4, "mw", P::None),
        row(F::TunDst, "tun_dst", Some((1, 32, "TUN_IPV4_DST")), None, 4, "mw", P::None),
        row(F::TunIpv6Src, "tun_ipv6_src", Some((1, 109, "TUN_IPV6_SRC")), None, 16, "mw", P::None),
        row(F::TunIpv6Dst, "tun_ipv6_dst", Some((1, 110, "TUN_IPV6_DST")), None, 16, "mw", P::None),
        row(F::TunFlags, "tun_flags", Some((1, 104, "TUN_FLAGS")), None, 2, "mw", P::None),
        row(F::TunGbpId, "tun_gbp_id", Some((1, 38, "TUN_GBP_ID")), None, 2, "mw", P::None),
        row(F::TunGbpFlags, "tun_gbp_flags", Some((1, 39, "TUN_GBP_FLAGS")), None, 1, "mw", P::None),
        row(F::TunErspanIdx, "tun_erspan_idx", Some((Code::EXPERIMENTER, 11, "ERSPAN_IDX")), None, 4, "mw", P::None),
        row(F::TunErspanVer, "tun_erspan_ver", Some((Code::EXPERIMENTER, 12, "ERSPAN_VER")), None, 1, "mw", P::None),
        row(F::TunErspanDir, "tun_erspan_dir", Some((Code::EXPERIMENTER, 13, "ERSPAN_DIR")), None, 1, "mw", P::None),
        row(F::TunErspanHwid, "tun_erspan_hwid", Some((Code::EXPERIMENTER, 14, "ERSPAN_HWID")), None, 1, "mw", P::None),
        row(F::TunGtpuFlags, "tun_gtpu_flags", Some((Code::EXPERIMENTER, 15, "GTPU_FLAGS")), None, 1, "m", P::None),
        row(F::TunGtpuMsgtype, "tun_gtpu_msgtype", Some((Code::EXPERIMENTER, 16, "GTPU_MSGTYPE")), None, 1, "m", P::None),
        row(F::Metadata, "metadata", None, Some((2, "METADATA")), 8, "mw", P::None),
        row(F::InPort, "in_port", Some((0, 0, "IN_PORT")), None, 2, "w", P::None),
        row(F::InPort, "in_port_oxm", None, Some((0, "IN_PORT")), 4, "w", P::None),
        row(F::ActsetOutput, "actset_output", None, Some((43, "ACTSET_OUTPUT")), 4, "", P::None),
        row(F::PktMark, "pkt_mark", Some((1, 33, "PKT_MARK")), None, 4, "mw", P::None),
        row(F::CtState, "ct_state", Some((1, 105, "CT_STATE")), None, 4, "m", P::None),
        row(F::CtZone, "ct_zone", Some((1, 106, "CT_ZONE")), None, 2, "", P::None),
        row(F::CtMark, "ct_mark", Some((1, 107, "CT_MARK")), None, 4, "mw", P::None),
        row(F::CtLabel, "ct_label", Some((1, 108, "CT_LABEL")), None, 16, "mw", P::None),
        row(F::CtNwProto, "ct_nw_proto", Some((1, 119, "CT_NW_PROTO")), None, 1, "", P::Ct),
        row(F::CtNwSrc, "ct_nw_src", Some((1, 120, "CT_NW_SRC")), None, 4, "m", P::Ct),
        row(F::CtNwDst, "ct_nw_dst", Some((1, 121, "CT_NW_DST")), None, 4, "m", P::Ct),
        row(F::CtIpv6Src, "ct_ipv6_src", Some((1, 122, "CT_IPV6_SRC")), None, 16, "m", P::Ct),
        row(F::CtIpv6Dst, "ct_ipv6_dst", Some((1, 123, "CT_IPV6_DST")), None, 16, "m", P::Ct),
        row(F::CtTpSrc, "ct_tp_src", Some((1, 124, "CT_TP_SRC")), None, 2, "m", P::Ct),
        row(F::CtTpDst, "ct_tp_dst", Some((1, 125, "CT_TP_DST")), None, 2, "m", P::Ct),
        row(F::EthSrc, "eth_src", Some((0, 2, "ETH_SRC")), Some((4, "ETH_SRC")), 6, "mw", P::Ethernet),
        row(F::EthDst, "eth_dst", Some((0, 1, "ETH_DST")), Some((3, "ETH_DST")), 6, "mw", P::Ethernet),
        row(F::EthType, "eth_type", Some((0, 3, "ETH_TYPE")), Some((5, "ETH_TYPE")), 2, "", P::Ethernet),
        row(F::VlanTci, "vlan_tci", Some((0, 4, "VLAN_TCI")), None, 2, "mw", P::Ethernet),
        row(F::VlanVidPresent, "vlan_vid", None, Some((6, "VLAN_VID")), 2, "mw", P::Ethernet),
        row(F::VlanPcp, "vlan_pcp", None, Some((7, "VLAN_PCP")), 1, "w", P::Vlan),
        row(F::MplsLabel, "mpls_label", None, Some((34, "MPLS_LABEL")), 4, "w", P::Mpls),
        row(F::MplsTc, "mpls_tc", None, Some((35, "MPLS_TC")), 1, "w", P::Mpls),
        row(F::MplsBos, "mpls_bos", None, Some((36, "MPLS_BOS")), 1, "", P::Mpls),
        row(F::MplsTtl, "mpls_ttl", Some((1, 30, "MPLS_TTL")), None, 1, "w", P::Mpls),
        row(F::Ipv4Src, "ip_src", Some((0, 7, "IP_SRC")), Some((11, "IPV4_SRC")), 4, "mw", P::Ipv4),
        row(F::Ipv4Dst, "ip_dst", Some((0, 8, "IP_DST")), Some((12, "IPV4_DST")), 4, "mw", P::Ipv4),
        row(F::Ipv6Src, "ipv6_src", Some((1, 19, "IPV6_SRC")), Some((26, "IPV6_SRC")), 16, "mw", P::Ipv6),
        row(F::Ipv6Dst, "ipv6_dst", Some((1, 20, "IPV6_DST")), Some((27, "IPV6_DST")), 16, "mw", P::Ipv6),
        row(F::Ipv6Label, "ipv6_label", Some((1, 27, "IPV6_LABEL")), Some((28, "IPV6_FLABEL")), 4, "mw", P::Ipv6),
        row(F::NwProto, "nw_proto", Some((0, 6, "IP_PROTO")), Some((10, "IP_PROTO")), 1, "", P::Ip),
        row(F::NwTos, "nw_tos", Some((0, 5, "IP_TOS")), None, 1, "w", P::Ip),
        row(F::IpDscp, "ip_dscp", None, Some((8, "IP_DSCP")), 1, "w", P::Ip),
        row(F::IpEcn, "nw_ecn", Some((1, 28, "IP_ECN")), Some((9, "IP_ECN")), 1, "w", P::Ip),
        row(F::NwTtl, "nw_ttl", Some((1, 29, "IP_TTL")), None, 1, "w", P::Ip),
        row(F::NwFrag, "ip_frag", Some((1, 26, "IP_FRAG")), None, 1, "m", P::Ip),
        row(F::ArpOp, "arp_op", Some((0, 15, "ARP_OP")), Some((21, "ARP_OP")), 2, "w", P::Arp),
        row(F::ArpSpa, "arp_spa", Some((0, 16, "ARP_SPA")), Some((22, "ARP_SPA")), 4, "mw", P::Arp),
        row(F::ArpTpa, "arp_tpa", Some((0, 17, "ARP_TPA")), Some((23, "ARP_TPA")), 4, "mw", P::Arp),
        row(F::ArpSha, "arp_sha", Some((1, 17, "ARP_SHA")), Some((24, "ARP_SHA")), 6, "mw", P::Arp),
        row(F::ArpTha, "arp_tha", Some((1, 18, "ARP_THA")), Some((25, "ARP_THA")), 6, "mw", P::Arp),
        row(F::TpSrc, "tcp_src", Some((0, 9, "TCP_SRC")), Some((13, "TCP_SRC")), 2, "mw", P::Tcp),
        row(F::TpDst, "tcp_dst", Some((0, 10, "TCP_DST")), Some((14, "TCP_DST")), 2, "mw", P::Tcp),
        row(F::TcpFlags, "tcp_flags", Some((1, 34, "TCP_FLAGS")), Some((42, "TCP_FLAGS")), 2, "m", P::Tcp),
        row(F::TpSrc, "udp_src", Some((0, 11, "UDP_SRC")), Some((15, "UDP_SRC")), 2, "mw", P::Udp),
        row(F::TpDst, "udp_dst", Some((0, 12, "UDP_DST")), Some((16, "UDP_DST")), 2, "mw", P::Udp),
        row(F::TpSrc, "sctp_src", None, Some((17, "SCTP_SRC")), 2, "mw", P::Sctp),
        row(F::TpDst, "sctp_dst", None, Some((18, "SCTP_DST")), 2, "mw", P::Sctp),
        row(F::IcmpType, "icmp_type", Some((0, 13, "ICMP_TYPE")), Some((19, "ICMPV4_TYPE")), 1, "w", P::Icmp4),
        row(F::IcmpCode, "icmp_code", Some((0, 14, "ICMP_CODE")), Some((20, "ICMPV4_CODE")), 1, "w", P::Icmp4),
        row(F::IcmpType, "icmpv6_type", Some((1, 21, "ICMPV6_TYPE")), Some((29, "ICMPV6_TYPE")), 1, "w", P::Icmp6),
        row(F::IcmpCode, "icmpv6_code", Some((1, 22, "ICMPV6_CODE")), Some((30, "ICMPV6_CODE")), 1, "w", P::Icmp6),
        row(F::NdTarget, "nd_target", Some((1, 23, "ND_TARGET")), Some((31, "IPV6_ND_TARGET")), 16, "mw", P::Nd),
        row(F::NdSll, "nd_sll", Some((1, 24, "ND_SLL")), Some((32, "IPV6_ND_SLL")), 6, "mw", P::NdSolicit),
        row(F::NdTll, "nd_tll", Some((1, 25, "ND_TLL")), Some((33, "IPV6_ND_TLL")), 6, "mw", P::NdAdvert),
        row(F::NdReserved, "nd_reserved", Some((Code::ERICSSON, 1, "ICMPV6_ND_RESERVED")), None, 4, "w", P::Nd),
        row(F::NdOptionsType, "nd_options_type", Some((Code::ERICSSON, 2, "ICMPV6_ND_OPTIONS_TYPE")), None, 1, "w", P::Nd),
        row(F::NshFlags, "nsh_flags", Some((Code::NSH, 1, "FLAGS")), None, 1, "mw", P::Nsh),
        row(F::NshMdtype, "nsh_mdtype", Some((Code::NSH, 2, "MDTYPE")), None, 1, "", P::Nsh),
        row(F::NshNp, "nsh_np", Some((Code::NSH, 3, "NP")), None, 1, "", P::Nsh),
        row(F::NshSpi, "nsh_spi", Some((Code::NSH, 4, "SPI")), None, 4, "w", P::Nsh),
        row(F::NshSi, "nsh_si", Some((Code::NSH, 5, "SI")), None, 1, "w", P::Nsh),
        row(F::NshC1, "nsh_c1", Some((Code::NSH, 6, "C1")), None, 4, "mw", P::Nsh),
        row(F::NshC2, "nsh_c2", Some((Code::NSH, 7, "C2")), None, 4, "mw", P::Nsh),
        row(F::NshC3, "nsh_c3", Some((Code::NSH, 8, "C3")), None, 4, "mw", P::Nsh),
        row(F::NshC4, "nsh_c4", Some((Code::NSH, 9, "C4")), None, 4, "mw", P::Nsh),
        row(F::NshTtl, "nsh_ttl", Some((Code::NSH, 10, "TTL")), None, 1, "w", P::Nsh),
    ]
};

struct Table {
    specs: Vec<Spec>,
    by_code: HashMap<Code, usize>,
    by_name: HashMap<String, usize>,
    by_field: HashMap<Field, Vec<usize>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(build);

/// Returns all fields.
pub(crate) fn specs() -> &'static [Spec] {
    &TABLE.specs
}

/// Returns the field with this number.
pub(crate) fn by_code(code: Code) -> Option<&'static Spec> {
    TABLE.specs.get(*TABLE.by_code.get(&code)?)
}

/// Returns the field with this name: Open vSwitch's (`eth_src`, `dl_src`) or OpenFlow's (`NXM_OF_ETH_SRC`).
pub(crate) fn by_name(name: &str) -> Option<&'static Spec> {
    TABLE.specs.get(*TABLE.by_name.get(name)?)
}

/// Returns the numbered field for `field` in packets of `proto`: numbers of ports and ICMP types depend on
/// the protocol, and that of `in_port` on its width. Returns `None` if OpenFlow has no number for the field.
pub(crate) fn for_field(field: Field, proto: Proto) -> Option<&'static Spec> {
    let (field, is_wide) = match field {
        Field::VlanVid => (Field::VlanVidPresent, false),
        Field::InPortOxm => (Field::InPort, true),
        field => (field, false),
    };
    let places = TABLE.by_field.get(&field)?;
    let pick = match field {
        Field::TpSrc | Field::TpDst => match proto.nw_proto {
            protocol::UDP => 1,
            protocol::SCTP => 2,
            _ => 0,
        },
        Field::IcmpType | Field::IcmpCode => usize::from(proto.nw_proto == protocol::ICMPV6),
        Field::InPort => usize::from(is_wide),
        _ => 0,
    };
    TABLE.specs.get(*places.get(pick)?)
}

fn spec(row: &Row) -> Spec {
    let nxm = row.nxm.map(|(class, number, _)| {
        let (class, experimenter) = match class {
            Code::EXPERIMENTER => (class, crate::vendor::NICIRA),
            Code::NSH => (Code::EXPERIMENTER, Code::NSH_EXPERIMENTER),
            _ => (class, 0),
        };
        Code { class, number, experimenter }
    });
    let oxm = row.oxm.map(|(number, _)| Code { class: 0x8000, number, experimenter: 0 });
    // Fields that the ONF's extensions added to OpenFlow 1.3 before 1.5 numbered them.
    let onf = oxm.filter(|code| matches!(code.number, 42 | 43));
    let onf = onf.map(|code| Code { class: 0xffff, experimenter: crate::vendor::ONF, ..code });
    let first = nxm.or(onf).or(oxm).unwrap_or(Code::COOKIE);
    let oxm_name = row.oxm.map_or(String::new(), |(_, name)| format!("OXM_OF_{name}"));
    let nxm_name = match row.nxm {
        Some((0, _, name)) => format!("NXM_OF_{name}"),
        Some((Code::ERICSSON, _, name)) => format!("ERICOXM_OF_{name}"),
        Some((Code::EXPERIMENTER, _, name)) => format!("NXOXM_ET_{name}"),
        Some((Code::NSH, _, name)) => format!("NXOXM_NSH_{name}"),
        Some((_, _, name)) => format!("NXM_NX_{name}"),
        None if onf.is_some() => format!("ONFOXM_ET_{}", row.oxm.map_or("", |(_, name)| name)),
        None => oxm_name.clone(),
    };
    let bits = match row.field {
        Field::VlanVidPresent => 12,
        Field::NwFrag => 2,
        // Only the flag of control packets is visible to flows.
        Field::TunFlags => 1,
        // The key stores these in fewer bits than they have on the wire.
        Field::CtState | Field::ArpOp | Field::PacketType => row.bytes as u32 * 8,
        Field::InPort => row.bytes as u32 * 8,
        field => field.bits(),
    };
    Spec {
        field: row.field,
        name: row.name,
        nxm_name,
        oxm_name,
        first,
        oxm: onf.or(oxm).unwrap_or(first),
        oxm15: oxm.unwrap_or(first),
        bytes: row.bytes,
        bits,
        maskable: row.flags.contains('m'),
        writable: row.flags.contains('w'),
        prerequisite: row.prerequisite,
    }
}

/// Registers by class and first number: 32, 64 and 128 bits.
fn registers() -> Vec<Spec> {
    let count = |prefix: &str| Field::ALL.iter().filter(|f| f.name().starts_with(prefix)).count();
    debug_assert_eq!((count("reg"), count("xreg"), count("xxreg")), (16, 8, 4));
    let mut out = Vec::new();
    for (prefix, class, first, bytes, text) in [
        ("reg", 1, 0, 4, "NXM_NX_REG"),
        ("xreg", 0x8001, 0, 8, "OXM_OF_PKT_REG"),
        ("xxreg", 1, 111, 16, "NXM_NX_XXREG"),
    ] {
        let fields = Field::ALL.iter().filter(|field| field.name().starts_with(prefix));
        for (n, &field) in fields.enumerate() {
            let code = Code { class, number: first + n as u8, experimenter: 0 };
            out.push(Spec {
                field,
                name: field.name(),
                nxm_name: format!("{text}{n}"),
                oxm_name: String::new(),
                first: code,
                oxm: code,
                oxm15: code,
                bytes,
                bits: field.bits(),
                maskable: true,
                writable: true,
                prerequisite: P::None,
            });
        }
    }
    out
}

/// The fields of tunnel options with their maximum lengths; a TLV table sets the actual ones.
fn tunnel_options() -> Vec<Spec> {
    let fields = Field::ALL.iter().filter_map(|&it| Some((it, it.tun_metadata_index()?)));
    let spec = |(field, n): (Field, u8)| {
        let code = Code { class: 1, number: 40 + n, experimenter: 0 };
        Spec {
            field,
            name: field.name(),
            nxm_name: format!("NXM_NX_TUN_METADATA{n}"),
            oxm_name: String::new(),
            first: code,
            oxm: code,
            oxm15: code,
            bytes: OptionMapping::LEN_MAX.into(),
            bits: u32::from(OptionMapping::LEN_MAX) * 8,
            maskable: true,
            writable: true,
            prerequisite: P::None,
        }
    };
    fields.map(spec).collect()
}

/// Alternative names (ovs: `lib/ovs-fields.7.xml`).
const ALIASES: &[(&str, &str)] = &[
    ("tunnel_id", "tun_id"),
    // The printed names, as in Open vSwitch.
    ("gtpu_flags", "tun_gtpu_flags"),
    ("gtpu_msgtype", "tun_gtpu_msgtype"),
    ("dl_src", "eth_src"),
    ("dl_dst", "eth_dst"),
    ("dl_type", "eth_type"),
    ("nw_src", "ip_src"),
    ("nw_dst", "ip_dst"),
    ("ip_proto", "nw_proto"),
    ("ip_ecn", "nw_ecn"),
    ("ip_ttl", "nw_ttl"),
    ("nw_frag", "ip_frag"),
    ("nsp", "nsh_spi"),
    ("nsi", "nsh_si"),
    ("nshc1", "nsh_c1"),
    ("nshc2", "nsh_c2"),
    ("nshc3", "nsh_c3"),
    ("nshc4", "nsh_c4"),
    ("tp_src", "tcp_src"),
    ("tp_dst", "tcp_dst"),
];

fn build() -> Table {
    let mut specs: Vec<Spec> = ROWS.iter().map(spec).collect();
    specs.extend(registers());
    specs.extend(tunnel_options());
    let mut table =
        Table { by_code: HashMap::new(), by_name: HashMap::new(), by_field: HashMap::new(), specs };
    for (i, spec) in table.specs.iter().enumerate() {
        for code in [spec.first, spec.oxm, spec.oxm15] {
            table.by_code.insert(code, i);
        }
        for name in [spec.name, &spec.nxm_name, &spec.oxm_name] {
            if !name.is_empty() {
                table.by_name.insert(name.to_owned(), i);
            }
        }
        table.by_field.entry(spec.field).or_default().push(i);
    }
    for (alias, name) in ALIASES {
        if let Some(&i) = table.by_name.get(*name) {
            table.by_name.insert((*alias).to_owned(), i);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_lead_back_to_their_field() {
        for spec in specs() {
            for code in [spec.first, spec.oxm, spec.oxm15] {
                assert_eq!(by_code(code), Some(spec), "{}", spec.name);
            }
            assert_eq!(by_name(spec.name), Some(spec));
            assert_eq!(by_name(&spec.nxm_name), Some(spec));
            assert!(spec.bits as usize <= spec.bytes * 8, "{}", spec.name);
        }
    }
}
