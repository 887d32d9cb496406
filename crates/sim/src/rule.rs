//! OpenFlow rules, in the subset that the oracle supports.

use crate::header::Header;
use fastrand::Rng;
use std::fmt::{self, Display, Formatter};

/// The connection state of a packet that rules match.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Conn {
    /// `+new`.
    New,
    /// `+est-rpl`.
    Original,
    /// `+est+rpl`.
    Reply,
}

/// The match of a rule. A field that is `None` matches any value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Matching {
    /// OpenFlow port.
    pub in_port: Option<u8>,
    /// Last octet of the source address, and the number of leading bits that are compared.
    pub src: Option<(u8, u8)>,
    /// Last octet of the destination address.
    pub dst: Option<u8>,
    /// Source port and its mask.
    pub sport: Option<(u16, u16)>,
    /// Destination port.
    pub dport: Option<u16>,
    /// Type of service.
    pub tos: Option<u8>,
    /// Register 0.
    pub reg: Option<u32>,
    /// State of the connection.
    pub conn: Option<Conn>,
}

/// An action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// `output:PORT`.
    Output(u8),
    /// `mod_nw_tos:TOS`.
    Tos(u8),
    /// `load:VALUE->NXM_NX_REG0[]`.
    Reg(u32),
    /// `resubmit(,TABLE)`, always the last action.
    Resubmit(u8),
    /// `ct(zone=ZONE,table=TABLE)`, always the only action.
    Track {
        /// The zone.
        zone: u16,
        /// The table in which the tracked packet is looked up.
        table: u8,
        /// Whether the NAT of the packet's connection is applied: `nat`.
        nat: bool,
    },
    /// `ct(commit,zone=ZONE)`.
    Commit {
        /// The zone.
        zone: u16,
        /// Whether the connection gets the source address of [`Header::NAT_HOST`]: `nat(src=ADDRESS)`.
        nat: bool,
    },
}

/// A rule. Its slot is its priority, so that no two rules of a table have the same one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The table.
    pub table: u8,
    /// The priority.
    pub priority: u16,
    /// The match.
    pub matching: Matching,
    /// The actions; an empty list drops the packet.
    pub acts: Vec<Act>,
}

/// What rules do about connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tracks {
    /// No packet is tracked.
    Nothing,
    /// Packets are tracked.
    Connections,
    /// Packets are tracked, and the addresses and ports of some rewritten. Rules do not match these where packets
    /// are tracked, so that the oracle needs no knowledge of NAT.
    Nat,
}

/// The table in which tracked packets are looked up.
pub const TRACKED: u8 = 2;
/// The number of zones.
pub const ZONES: u16 = 2;

impl Matching {
    /// Returns whether a packet matches. `reg` is its register 0, `conn` its connection state.
    pub fn matches(&self, packet: &Header, reg: u32, conn: Option<Conn>) -> bool {
        let is = |want: Option<u8>, have: u8| want.is_none_or(|want| want == have);
        is(self.in_port, packet.port)
            && self.src.is_none_or(|(value, bits)| {
                let mask = !(0xff_u8.checked_shr(u32::from(bits)).unwrap_or(0));
                packet.src & mask == value & mask
            })
            && is(self.dst, packet.dst)
            && self.sport.is_none_or(|(value, mask)| packet.sport & mask == value & mask)
            && self.dport.is_none_or(|want| want == packet.dport)
            && is(self.tos, packet.tos)
            && self.reg.is_none_or(|want| want == reg)
            && self.conn.is_none_or(|want| conn == Some(want))
    }
}

impl Rule {
    /// Returns a random rule for a slot. The actions depend on the table.
    pub fn random(rng: &mut Rng, slot: usize, ports: u8, tracks: Tracks) -> Rule {
        let table = [0, 0, 0, 0, 1, 1, TRACKED, TRACKED][slot % 8];
        let mut matching = random_matching(rng, table, ports);
        if table == TRACKED && tracks == Tracks::Nat {
            matching = Matching { src: None, dst: None, sport: None, dport: None, ..matching };
        }
        let acts = random_acts(rng, table, ports, tracks, &matching);
        Rule { table, priority: slot as u16 + 1, matching, acts }
    }

    /// Returns the same rule with other actions.
    #[must_use]
    pub fn with_other_acts(&self, rng: &mut Rng, ports: u8, tracks: Tracks) -> Rule {
        let acts = random_acts(rng, self.table, ports, tracks, &self.matching);
        Rule { acts, ..self.clone() }
    }

    /// Returns whether the rule rewrites addresses and ports of packets.
    pub fn rewrites(&self) -> bool {
        self.acts
            .iter()
            .any(|act| matches!(act, Act::Track { nat: true, .. } | Act::Commit { nat: true, .. }))
    }

    /// Returns the arguments of a strict deletion of the rule.
    pub fn strict(&self) -> String {
        format!("table={},priority={}{}", self.table, self.priority, self.matching)
    }
}

fn random_matching(rng: &mut Rng, table: u8, ports: u8) -> Matching {
    let mut matching = Matching::default();
    for _ in 0..rng.u8(0..3) {
        match rng.u8(0..6) {
            0 => matching.in_port = Some(rng.u8(1..=ports)),
            1 => matching.src = Some((rng.u8(..Header::HOSTS), rng.u8(5..=8))),
            2 => matching.dst = Some(rng.u8(..Header::HOSTS)),
            3 => matching.sport = Some((Header::random_sport(rng), 0xffff << rng.u8(0..10))),
            4 => matching.dport = Some(Header::random_dport(rng)),
            _ => matching.tos = Some(Header::random_tos(rng)),
        }
    }
    if table == 1 && rng.bool() {
        matching.reg = Some(rng.u32(0..3));
    }
    if table == TRACKED {
        let conns = [None, Some(Conn::New), Some(Conn::Original), Some(Conn::Reply)];
        matching.conn = conns[rng.usize(0..4)];
    }
    matching
}

fn random_acts(
    rng: &mut Rng,
    table: u8,
    ports: u8,
    tracks: Tracks,
    matching: &Matching,
) -> Vec<Act> {
    let has_nat = tracks == Tracks::Nat;
    if table == 0 && tracks != Tracks::Nothing && rng.u8(0..3) == 0 {
        let zone = rng.u16(1..=ZONES);
        return vec![Act::Track { zone, table: TRACKED, nat: has_nat && rng.u8(0..4) > 0 }];
    }
    let mut acts = Vec::new();
    for _ in 0..rng.u8(0..4) {
        acts.push(match rng.u8(0..6) {
            0 => Act::Tos(Header::random_tos(rng)),
            1 => Act::Reg(rng.u32(0..3)),
            _ => Act::Output(rng.u8(1..=ports)),
        });
    }
    match table {
        0 if rng.u8(0..3) == 0 => acts.push(Act::Resubmit(1)),
        TRACKED if matching.conn == Some(Conn::New) && rng.u8(0..4) > 0 => {
            let zone = rng.u16(1..=ZONES);
            acts.insert(0, Act::Commit { zone, nat: has_nat && rng.bool() });
        }
        _ => {}
    }
    acts
}

impl Display for Matching {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ",udp")?;
        if let Some(port) = self.in_port {
            write!(f, ",in_port={port}")?;
        }
        if let Some((value, bits)) = self.src {
            let mask = !(0xff_u8.checked_shr(u32::from(bits)).unwrap_or(0));
            write!(f, ",nw_src=10.0.0.{}/{}", value & mask, 24 + bits)?;
        }
        if let Some(host) = self.dst {
            write!(f, ",nw_dst=10.0.0.{host}")?;
        }
        if let Some((value, mask)) = self.sport {
            write!(f, ",tp_src={:#x}/{mask:#x}", value & mask)?;
        }
        if let Some(port) = self.dport {
            write!(f, ",tp_dst={port}")?;
        }
        if let Some(tos) = self.tos {
            write!(f, ",nw_tos={tos}")?;
        }
        if let Some(reg) = self.reg {
            write!(f, ",reg0={reg}")?;
        }
        match self.conn {
            None => Ok(()),
            Some(Conn::New) => write!(f, ",ct_state=+trk+new"),
            Some(Conn::Original) => write!(f, ",ct_state=+trk+est-rpl"),
            Some(Conn::Reply) => write!(f, ",ct_state=+trk+est+rpl"),
        }
    }
}

impl Display for Act {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Act::Output(port) => write!(f, "output:{port}"),
            Act::Tos(tos) => write!(f, "mod_nw_tos:{tos}"),
            Act::Reg(value) => write!(f, "load:{value}->NXM_NX_REG0[]"),
            Act::Resubmit(table) => write!(f, "resubmit(,{table})"),
            Act::Track { zone, table, nat: false } => write!(f, "ct(zone={zone},table={table})"),
            Act::Track { zone, table, nat: true } => write!(f, "ct(zone={zone},table={table},nat)"),
            Act::Commit { zone, nat: false } => write!(f, "ct(commit,zone={zone})"),
            Act::Commit { zone, nat: true } => {
                write!(f, "ct(commit,zone={zone},nat(src=10.0.0.{}))", Header::NAT_HOST)
            }
        }
    }
}

/// Prints the rule in the syntax of `ovs-ofctl add-flow`.
impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{},actions=", self.strict())?;
        let acts: Vec<String> = self.acts.iter().map(Act::to_string).collect();
        f.write_str(if acts.is_empty() { "drop" } else { "" })?;
        f.write_str(&acts.join(","))
    }
}
