//! Actions that choose among ports or links by a hash of the packet (ovs: `lib/bundle.c`,
//! `lib/multipath.c`).

use super::Subfield;
use base::OfPort;

/// The fields that are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashFields {
    /// Ethernet source.
    EthSrc,
    /// Ethernet and IP addresses, VLAN, protocol, ports of TCP and SCTP; the same both ways.
    SymmetricL4,
    /// IP addresses, protocol, ports of TCP and SCTP; the same both ways.
    SymmetricL3L4,
    /// The same, and ports of UDP.
    SymmetricL3L4Udp,
    /// IP source.
    NwSrc,
    /// IP destination.
    NwDst,
    /// IP addresses; the same both ways.
    SymmetricL3,
}

impl HashFields {
    /// By number, each with its name.
    const ALL: [(HashFields, &str); 7] = [
        (HashFields::EthSrc, "eth_src"),
        (HashFields::SymmetricL4, "symmetric_l4"),
        (HashFields::SymmetricL3L4, "symmetric_l3l4"),
        (HashFields::SymmetricL3L4Udp, "symmetric_l3l4+udp"),
        (HashFields::NwSrc, "nw_src"),
        (HashFields::NwDst, "nw_dst"),
        (HashFields::SymmetricL3, "symmetric_l3"),
    ];

    /// By its number on the wire.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).map(|(fields, _)| *fields)
    }

    /// Its number on the wire.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(fields, _)| *fields)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.get(self as usize).map_or("", |(_, name)| name)
    }
}

/// How `bundle` chooses a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BundleAlgorithm {
    /// The first one that is up.
    ActiveBackup,
    /// That of the highest random weight, of those that are up.
    HighestRandomWeight,
}

/// `bundle(...)` and `bundle_load(...)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bundle {
    /// How a member is chosen.
    pub algorithm: BundleAlgorithm,
    /// What is hashed.
    pub fields: HashFields,
    /// Where hashing begins.
    pub basis: u16,
    /// Where the member's number goes; `None` sends the packet there.
    pub target: Option<Subfield>,
    /// The ports to choose from.
    pub members: Vec<OfPort>,
}

impl BundleAlgorithm {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            BundleAlgorithm::ActiveBackup => "active_backup",
            BundleAlgorithm::HighestRandomWeight => "hrw",
        }
    }
}

/// How `multipath` chooses a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MultipathAlgorithm {
    /// The hash modulo the number of links.
    ModuloN,
    /// The link in whose range the hash lies.
    HashThreshold,
    /// That of the highest random weight.
    HighestRandomWeight,
    /// Hashes until one is a link's number.
    IterativeHash,
}

impl MultipathAlgorithm {
    /// By number, each with its name.
    const ALL: [(MultipathAlgorithm, &str); 4] = [
        (MultipathAlgorithm::ModuloN, "modulo_n"),
        (MultipathAlgorithm::HashThreshold, "hash_threshold"),
        (MultipathAlgorithm::HighestRandomWeight, "hrw"),
        (MultipathAlgorithm::IterativeHash, "iter_hash"),
    ];

    /// By its number on the wire.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).map(|(algorithm, _)| *algorithm)
    }

    /// Its number on the wire.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(algorithm, _)| *algorithm)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.get(self as usize).map_or("", |(_, name)| name)
    }
}

/// `multipath(...)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Multipath {
    /// What is hashed.
    pub fields: HashFields,
    /// Where hashing begins.
    pub basis: u16,
    /// How a link is chosen.
    pub algorithm: MultipathAlgorithm,
    /// The number of the last link; the first is 0.
    pub max_link: u16,
    /// The modulus of the iterative hash.
    pub arg: u32,
    /// Where the link's number goes.
    pub target: Subfield,
}
