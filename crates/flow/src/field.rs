//! The fields of a flow key: their names, widths and positions.

use std::ops::Range;

/// The position of a field in the key: its first word, the number of its lowest bit there, and its width. A
/// field of more than 64 bits fills the low bits of two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub word: usize,
    pub shift: u32,
    pub bits: u32,
}

macro_rules! fields {
    (
        basic { $($(#[$doc:meta])* $name:ident = $text:literal @ $word:literal, $shift:literal, $bits:literal;)* }
        views { $($(#[$vdoc:meta])* $vname:ident = $vtext:literal @ $vword:literal, $vshift:literal, $vbits:literal;)* }
    ) => {
        /// A field that can be matched or set, with its name in Open vSwitch (`ovs-fields(7)`).
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Field {
            $(
                #[doc = concat!("`", $text, "`")]
                $(#[$doc])* $name,
            )*
            $(
                #[doc = concat!("`", $vtext, "`")]
                $(#[$vdoc])* $vname,
            )*
        }

        impl Field {
            /// The fields that together cover the whole key.
            pub const BASIC: &[Field] = &[$(Field::$name,)*];
            /// All fields, including those that are views of parts or unions of others.
            pub const ALL: &[Field] = &[$(Field::$name,)* $(Field::$vname,)*];

            /// The field's first name in Open vSwitch.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Field::$name => $text,)*
                    $(Field::$vname => $vtext,)*
                }
            }

            /// Looks up a table, since the optimizer folds a constant index into it but does not inline a
            /// `match` with this many arms.
            #[inline(always)]
            pub(crate) const fn place(self) -> Place {
                const PLACES: &[Place] = &[
                    $(Place { word: $word, shift: $shift, bits: $bits },)*
                    $(Place { word: $vword, shift: $vshift, bits: $vbits },)*
                ];
                PLACES[self as usize]
            }
        }
    };
}

fields! {
    basic {
        /// The port that the packet came in on.
        InPort = "in_port" @ 0, 32, 32;
        /// The recirculation id, which tells passes through the datapath apart; 0 in the first pass.
        RecircId = "recirc_id" @ 0, 0, 32;
        /// The connection's mark.
        CtMark = "ct_mark" @ 1, 32, 32;
        /// The connection state, with the bits of [`CtState`](crate::CtState).
        CtState = "ct_state" @ 1, 16, 16;
        /// The zone that the packet was tracked in.
        CtZone = "ct_zone" @ 1, 0, 16;
        /// The connection's label.
        CtLabel = "ct_label" @ 2, 0, 128;
        /// Source port of the connection's original direction.
        CtTpSrc = "ct_tp_src" @ 4, 48, 16;
        /// Destination port of the connection's original direction.
        CtTpDst = "ct_tp_dst" @ 4, 32, 16;
        /// Protocol of the connection's original direction.
        CtNwProto = "ct_nw_proto" @ 4, 24, 8;
        /// IPv6 source of the connection's original direction.
        CtIpv6Src = "ct_ipv6_src" @ 5, 0, 128;
        /// IPv6 destination of the connection's original direction.
        CtIpv6Dst = "ct_ipv6_dst" @ 7, 0, 128;
        /// IPv4 source of the connection's original direction.
        CtNwSrc = "ct_nw_src" @ 6, 0, 32;
        /// IPv4 destination of the connection's original direction.
        CtNwDst = "ct_nw_dst" @ 8, 0, 32;
        /// Ethernet destination.
        EthDst = "eth_dst" @ 9, 16, 48;
        /// Ethernet type behind VLAN tags.
        EthType = "eth_type" @ 9, 0, 16;
        /// Ethernet source.
        EthSrc = "eth_src" @ 10, 16, 48;
        /// The Ethernet type of a packet without an Ethernet header; 0 for frames. In the datapath such a
        /// packet has an Ethernet header with zero addresses.
        PacketType = "packet_type" @ 10, 0, 16;
        /// Ethernet type of the outer VLAN tag.
        VlanTpid = "vlan_tpid" @ 11, 48, 16;
        /// The outer VLAN tag; bit 12 tells whether there is one.
        VlanTci = "vlan_tci" @ 11, 32, 16;
        /// Ethernet type of the second VLAN tag.
        VlanTpid1 = "vlan_tpid1" @ 11, 16, 16;
        /// The second VLAN tag; bit 12 tells whether there is one.
        VlanTci1 = "vlan_tci1" @ 11, 0, 16;
        /// IPv6 source.
        Ipv6Src = "ipv6_src" @ 12, 0, 128;
        /// IPv6 destination.
        Ipv6Dst = "ipv6_dst" @ 14, 0, 128;
        /// IPv4 source.
        Ipv4Src = "ip_src" @ 13, 0, 32;
        /// IPv4 destination.
        Ipv4Dst = "ip_dst" @ 15, 0, 32;
        /// IP protocol.
        NwProto = "nw_proto" @ 16, 56, 8;
        /// IPv4 TOS or IPv6 traffic class.
        NwTos = "nw_tos" @ 16, 48, 8;
        /// IPv4 TTL or IPv6 hop limit.
        NwTtl = "nw_ttl" @ 16, 40, 8;
        /// Fragment bits: [`FRAG_ANY`](crate::FRAG_ANY) and [`FRAG_LATER`](crate::FRAG_LATER).
        NwFrag = "ip_frag" @ 16, 32, 8;
        /// IPv6 flow label.
        Ipv6Label = "ipv6_label" @ 16, 0, 20;
        /// TCP flags.
        TcpFlags = "tcp_flags" @ 16, 20, 12;
        /// TCP, UDP, SCTP source port or ICMP type.
        TpSrc = "tp_src" @ 17, 48, 16;
        /// TCP, UDP, SCTP destination port or ICMP code.
        TpDst = "tp_dst" @ 17, 32, 16;
        /// The reserved word of a neighbour discovery message, with an advertisement's flags.
        NdReserved = "nd_reserved" @ 17, 0, 32;
        /// ARP sender's Ethernet address, or ND source link-layer address.
        ArpSha = "arp_sha" @ 18, 0, 48;
        /// ARP target's Ethernet address, or ND target link-layer address.
        ArpTha = "arp_tha" @ 19, 0, 48;
        /// Type of the first link-layer address option of a neighbour discovery message.
        NdOptionsType = "nd_options_type" @ 19, 48, 8;
        /// ND target.
        NdTarget = "nd_target" @ 20, 0, 128;
        // MPLS, the outermost entry first, and NSH: such packets have no fields of IP and ARP.
        MplsLse0 = "mpls_lse0" @ 20, 32, 32; MplsLse1 = "mpls_lse1" @ 20, 0, 32;
        MplsLse2 = "mpls_lse2" @ 21, 32, 32;
        NshFlags = "nsh_flags" @ 18, 48, 8; NshTtl = "nsh_ttl" @ 19, 40, 8;
        NshMdtype = "nsh_mdtype" @ 18, 56, 8; NshNp = "nsh_np" @ 19, 32, 8;
        NshSpi = "nsh_spi" @ 19, 8, 24; NshSi = "nsh_si" @ 19, 0, 8;
        NshC1 = "nsh_c1" @ 20, 32, 32; NshC2 = "nsh_c2" @ 20, 0, 32;
        NshC3 = "nsh_c3" @ 21, 32, 32; NshC4 = "nsh_c4" @ 21, 0, 32;
        /// OpenFlow metadata.
        Metadata = "metadata" @ 22, 0, 64;
        /// Register 0.
        Reg0 = "reg0" @ 23, 32, 32;
        /// Register 1.
        Reg1 = "reg1" @ 23, 0, 32;
        /// Register 2.
        Reg2 = "reg2" @ 24, 32, 32;
        /// Register 3.
        Reg3 = "reg3" @ 24, 0, 32;
        /// Register 4.
        Reg4 = "reg4" @ 25, 32, 32;
        /// Register 5.
        Reg5 = "reg5" @ 25, 0, 32;
        /// Register 6.
        Reg6 = "reg6" @ 26, 32, 32;
        /// Register 7.
        Reg7 = "reg7" @ 26, 0, 32;
        /// Register 8.
        Reg8 = "reg8" @ 27, 32, 32;
        /// Register 9.
        Reg9 = "reg9" @ 27, 0, 32;
        /// Register 10.
        Reg10 = "reg10" @ 28, 32, 32;
        /// Register 11.
        Reg11 = "reg11" @ 28, 0, 32;
        /// Register 12.
        Reg12 = "reg12" @ 29, 32, 32;
        /// Register 13.
        Reg13 = "reg13" @ 29, 0, 32;
        /// Register 14.
        Reg14 = "reg14" @ 30, 32, 32;
        /// Register 15.
        Reg15 = "reg15" @ 30, 0, 32;
        /// Packet mark.
        PktMark = "pkt_mark" @ 31, 32, 32;
        /// Datapath's hash of the packet.
        DpHash = "dp_hash" @ 31, 0, 32;
        /// Identifier of a conjunctive match.
        ConjId = "conj_id" @ 32, 32, 32;
        /// The port that the action set outputs to.
        ActsetOutput = "actset_output" @ 32, 0, 32;
        /// Tunnel key.
        TunId = "tun_id" @ 33, 0, 64;
        /// IPv6 source of the outer header.
        TunIpv6Src = "tun_ipv6_src" @ 34, 0, 128;
        /// IPv6 destination of the outer header.
        TunIpv6Dst = "tun_ipv6_dst" @ 36, 0, 128;
        /// IPv4 source of the outer header.
        TunSrc = "tun_src" @ 35, 0, 32;
        /// IPv4 destination of the outer header.
        TunDst = "tun_dst" @ 37, 0, 32;
        /// Flags of the tunnel: [`TUN_OAM`](crate::TUN_OAM) and those after it.
        TunFlags = "tun_flags" @ 38, 48, 16;
        /// TOS of the outer header.
        TunTos = "tun_tos" @ 38, 40, 8;
        /// TTL of the outer header.
        TunTtl = "tun_ttl" @ 38, 32, 8;
        /// Group policy identifier of VXLAN.
        TunGbpId = "tun_gbp_id" @ 38, 16, 16;
        /// Group policy flags of VXLAN.
        TunGbpFlags = "tun_gbp_flags" @ 38, 8, 8;
        /// Index of ERSPAN version 1.
        TunErspanIdx = "tun_erspan_idx" @ 39, 0, 20;
        /// Version of ERSPAN.
        TunErspanVer = "tun_erspan_ver" @ 39, 20, 4;
        /// Hardware identifier of ERSPAN version 2.
        TunErspanHwid = "tun_erspan_hwid" @ 39, 24, 6;
        /// Direction of ERSPAN version 2.
        TunErspanDir = "tun_erspan_dir" @ 39, 30, 1;
        /// Flags of GTP-U.
        TunGtpuFlags = "tun_gtpu_flags" @ 39, 32, 8;
        /// Message type of GTP-U.
        TunGtpuMsgtype = "tun_gtpu_msgtype" @ 39, 40, 8;
        /// Bit `n` is set if the packet carries the option of `tun_metadata<n>`.
        TunMetadataPresent = "tun_metadata_present" @ 40, 0, 64;
        // 64 slots of four bytes, which a TLV table assigns to tunnel options.
        TunSlots0 = "tun_slots0" @ 41, 0, 64; TunSlots1 = "tun_slots1" @ 42, 0, 64;
        TunSlots2 = "tun_slots2" @ 43, 0, 64; TunSlots3 = "tun_slots3" @ 44, 0, 64;
        TunSlots4 = "tun_slots4" @ 45, 0, 64; TunSlots5 = "tun_slots5" @ 46, 0, 64;
        TunSlots6 = "tun_slots6" @ 47, 0, 64; TunSlots7 = "tun_slots7" @ 48, 0, 64;
        TunSlots8 = "tun_slots8" @ 49, 0, 64; TunSlots9 = "tun_slots9" @ 50, 0, 64;
        TunSlots10 = "tun_slots10" @ 51, 0, 64; TunSlots11 = "tun_slots11" @ 52, 0, 64;
        TunSlots12 = "tun_slots12" @ 53, 0, 64; TunSlots13 = "tun_slots13" @ 54, 0, 64;
        TunSlots14 = "tun_slots14" @ 55, 0, 64; TunSlots15 = "tun_slots15" @ 56, 0, 64;
        TunSlots16 = "tun_slots16" @ 57, 0, 64; TunSlots17 = "tun_slots17" @ 58, 0, 64;
        TunSlots18 = "tun_slots18" @ 59, 0, 64; TunSlots19 = "tun_slots19" @ 60, 0, 64;
        TunSlots20 = "tun_slots20" @ 61, 0, 64; TunSlots21 = "tun_slots21" @ 62, 0, 64;
        TunSlots22 = "tun_slots22" @ 63, 0, 64; TunSlots23 = "tun_slots23" @ 64, 0, 64;
        TunSlots24 = "tun_slots24" @ 65, 0, 64; TunSlots25 = "tun_slots25" @ 66, 0, 64;
        TunSlots26 = "tun_slots26" @ 67, 0, 64; TunSlots27 = "tun_slots27" @ 68, 0, 64;
        TunSlots28 = "tun_slots28" @ 69, 0, 64; TunSlots29 = "tun_slots29" @ 70, 0, 64;
        TunSlots30 = "tun_slots30" @ 71, 0, 64; TunSlots31 = "tun_slots31" @ 72, 0, 64;
    }
    views {
        /// The port that the packet came in on, numbered in 32 bits as in OpenFlow 1.1 and later. It has the
        /// same bits as `in_port`; the code that reads or writes the field converts the number.
        InPortOxm = "in_port_oxm" @ 0, 32, 32;
        /// The VLAN id of the outer tag.
        VlanVid = "vlan_vid" @ 11, 32, 12;
        /// The VLAN id with the bit that tells whether there is a tag, as in OXM.
        VlanVidPresent = "vlan_vid_present" @ 11, 32, 13;
        /// The VLAN priority of the outer tag.
        VlanPcp = "vlan_pcp" @ 11, 45, 3;
        /// The upper six bits of the TOS.
        IpDscp = "ip_dscp" @ 16, 50, 6;
        /// The lower two bits of the TOS.
        IpEcn = "nw_ecn" @ 16, 48, 2;
        /// ARP operation: its low byte, as in Open vSwitch.
        ArpOp = "arp_op" @ 16, 56, 8;
        /// ARP sender's IPv4 address.
        ArpSpa = "arp_spa" @ 13, 0, 32;
        /// ARP target's IPv4 address.
        ArpTpa = "arp_tpa" @ 15, 0, 32;
        /// ICMP or ICMPv6 type (the low byte of `tp_src`).
        IcmpType = "icmp_type" @ 17, 48, 8;
        /// ICMP or ICMPv6 code (the low byte of `tp_dst`).
        IcmpCode = "icmp_code" @ 17, 32, 8;
        /// ND source link-layer address.
        NdSll = "nd_sll" @ 18, 0, 48;
        /// ND target link-layer address.
        NdTll = "nd_tll" @ 19, 0, 48;
        // Parts of the outermost label stack entry.
        MplsLabel = "mpls_label" @ 20, 44, 20; MplsTc = "mpls_tc" @ 20, 41, 3;
        MplsBos = "mpls_bos" @ 20, 40, 1; MplsTtl = "mpls_ttl" @ 20, 32, 8;
        /// Registers 0 and 1.
        Xreg0 = "xreg0" @ 23, 0, 64;
        /// Registers 2 and 3.
        Xreg1 = "xreg1" @ 24, 0, 64;
        /// Registers 4 and 5.
        Xreg2 = "xreg2" @ 25, 0, 64;
        /// Registers 6 and 7.
        Xreg3 = "xreg3" @ 26, 0, 64;
        /// Registers 8 and 9.
        Xreg4 = "xreg4" @ 27, 0, 64;
        /// Registers 10 and 11.
        Xreg5 = "xreg5" @ 28, 0, 64;
        /// Registers 12 and 13.
        Xreg6 = "xreg6" @ 29, 0, 64;
        /// Registers 14 and 15.
        Xreg7 = "xreg7" @ 30, 0, 64;
        /// Registers 0 to 3.
        Xxreg0 = "xxreg0" @ 23, 0, 128;
        /// Registers 4 to 7.
        Xxreg1 = "xxreg1" @ 25, 0, 128;
        /// Registers 8 to 11.
        Xxreg2 = "xxreg2" @ 27, 0, 128;
        /// Registers 12 to 15.
        Xxreg3 = "xxreg3" @ 29, 0, 128;
        // Whether the packet carries the option. A TLV table names the slots that contain its value.
        TunMetadata0 = "tun_metadata0" @ 40, 0, 1; TunMetadata1 = "tun_metadata1" @ 40, 1, 1;
        TunMetadata2 = "tun_metadata2" @ 40, 2, 1; TunMetadata3 = "tun_metadata3" @ 40, 3, 1;
        TunMetadata4 = "tun_metadata4" @ 40, 4, 1; TunMetadata5 = "tun_metadata5" @ 40, 5, 1;
        TunMetadata6 = "tun_metadata6" @ 40, 6, 1; TunMetadata7 = "tun_metadata7" @ 40, 7, 1;
        TunMetadata8 = "tun_metadata8" @ 40, 8, 1; TunMetadata9 = "tun_metadata9" @ 40, 9, 1;
        TunMetadata10 = "tun_metadata10" @ 40, 10, 1; TunMetadata11 = "tun_metadata11" @ 40, 11, 1;
        TunMetadata12 = "tun_metadata12" @ 40, 12, 1; TunMetadata13 = "tun_metadata13" @ 40, 13, 1;
        TunMetadata14 = "tun_metadata14" @ 40, 14, 1; TunMetadata15 = "tun_metadata15" @ 40, 15, 1;
        TunMetadata16 = "tun_metadata16" @ 40, 16, 1; TunMetadata17 = "tun_metadata17" @ 40, 17, 1;
        TunMetadata18 = "tun_metadata18" @ 40, 18, 1; TunMetadata19 = "tun_metadata19" @ 40, 19, 1;
        TunMetadata20 = "tun_metadata20" @ 40, 20, 1; TunMetadata21 = "tun_metadata21" @ 40, 21, 1;
        TunMetadata22 = "tun_metadata22" @ 40, 22, 1; TunMetadata23 = "tun_metadata23" @ 40, 23, 1;
        TunMetadata24 = "tun_metadata24" @ 40, 24, 1; TunMetadata25 = "tun_metadata25" @ 40, 25, 1;
        TunMetadata26 = "tun_metadata26" @ 40, 26, 1; TunMetadata27 = "tun_metadata27" @ 40, 27, 1;
        TunMetadata28 = "tun_metadata28" @ 40, 28, 1; TunMetadata29 = "tun_metadata29" @ 40, 29, 1;
        TunMetadata30 = "tun_metadata30" @ 40, 30, 1; TunMetadata31 = "tun_metadata31" @ 40, 31, 1;
        TunMetadata32 = "tun_metadata32" @ 40, 32, 1; TunMetadata33 = "tun_metadata33" @ 40, 33, 1;
        TunMetadata34 = "tun_metadata34" @ 40, 34, 1; TunMetadata35 = "tun_metadata35" @ 40, 35, 1;
        TunMetadata36 = "tun_metadata36" @ 40, 36, 1; TunMetadata37 = "tun_metadata37" @ 40, 37, 1;
        TunMetadata38 = "tun_metadata38" @ 40, 38, 1; TunMetadata39 = "tun_metadata39" @ 40, 39, 1;
        TunMetadata40 = "tun_metadata40" @ 40, 40, 1; TunMetadata41 = "tun_metadata41" @ 40, 41, 1;
        TunMetadata42 = "tun_metadata42" @ 40, 42, 1; TunMetadata43 = "tun_metadata43" @ 40, 43, 1;
        TunMetadata44 = "tun_metadata44" @ 40, 44, 1; TunMetadata45 = "tun_metadata45" @ 40, 45, 1;
        TunMetadata46 = "tun_metadata46" @ 40, 46, 1; TunMetadata47 = "tun_metadata47" @ 40, 47, 1;
        TunMetadata48 = "tun_metadata48" @ 40, 48, 1; TunMetadata49 = "tun_metadata49" @ 40, 49, 1;
        TunMetadata50 = "tun_metadata50" @ 40, 50, 1; TunMetadata51 = "tun_metadata51" @ 40, 51, 1;
        TunMetadata52 = "tun_metadata52" @ 40, 52, 1; TunMetadata53 = "tun_metadata53" @ 40, 53, 1;
        TunMetadata54 = "tun_metadata54" @ 40, 54, 1; TunMetadata55 = "tun_metadata55" @ 40, 55, 1;
        TunMetadata56 = "tun_metadata56" @ 40, 56, 1; TunMetadata57 = "tun_metadata57" @ 40, 57, 1;
        TunMetadata58 = "tun_metadata58" @ 40, 58, 1; TunMetadata59 = "tun_metadata59" @ 40, 59, 1;
        TunMetadata60 = "tun_metadata60" @ 40, 60, 1; TunMetadata61 = "tun_metadata61" @ 40, 61, 1;
        TunMetadata62 = "tun_metadata62" @ 40, 62, 1; TunMetadata63 = "tun_metadata63" @ 40, 63, 1;
    }
}

/// The number of words in a key.
pub const WORDS: usize = TUNNEL_WORDS.end;
/// The words of the connection fields, which connection tracking writes.
pub(crate) const CT_WORDS: Range<usize> = Field::CtMark.word()..Field::CtIpv6Dst.word() + 2;
/// The words of the metadata and the registers.
pub(crate) const PIPELINE_WORDS: Range<usize> = Field::Metadata.word()..Field::Reg14.word() + 1;
/// The words of the fields of a packet's own headers.
pub(crate) const HEADER_FIELDS: Range<usize> = Field::EthDst.word()..Field::NdTarget.word() + 2;
/// The words of the tunnel fields, which are zero in a packet without a tunnel. They are the last words.
pub(crate) const TUNNEL_WORDS: Range<usize> = Field::TunId.word()..Field::TunSlots31.word() + 1;

impl Field {
    /// Returns the index of the field's first word.
    pub(crate) const fn word(self) -> usize {
        self.place().word
    }

    /// Returns the width in bits, 1 to 128.
    pub const fn bits(self) -> u32 {
        self.place().bits
    }

    /// Returns a value with all bits of the field's width set.
    pub const fn all_ones(self) -> u128 {
        u128::MAX >> (128 - self.place().bits)
    }

    /// Returns register `n`, 0 to 15, or `None` for a larger number.
    pub fn reg(n: u8) -> Option<Field> {
        let first = Field::BASIC.iter().position(|&field| field == Field::Reg0)?;
        (n < 16).then(|| Field::BASIC[first + usize::from(n)])
    }

    /// Returns whether this is a connection field, which `ct` writes and `ct_clear` clears.
    pub fn is_ct(self) -> bool {
        CT_WORDS.contains(&self.place().word)
    }

    /// Returns whether this is a register or the metadata, which are state of the OpenFlow pipeline and not
    /// part of the packet.
    pub fn is_pipeline(self) -> bool {
        PIPELINE_WORDS.contains(&self.place().word)
    }

    /// Returns whether this is a tunnel field: of the tunnel through which the packet was received or is
    /// sent.
    pub fn is_tunnel(self) -> bool {
        TUNNEL_WORDS.contains(&self.place().word)
    }

    /// Returns whether this field holds tunnel options.
    pub fn is_tunnel_option(self) -> bool {
        let words = Field::TunMetadataPresent.word()..=Field::TunSlots31.word();
        words.contains(&self.place().word)
    }
}

const _: () = {
    let mut i = 0;
    while i < Field::ALL.len() {
        let place = Field::ALL[i].place();
        let words = if place.bits > 64 { 2 } else { 1 };
        assert!(place.word + words <= WORDS);
        assert!(place.bits > 64 || place.shift + place.bits <= 64);
        i += 1;
    }
};
