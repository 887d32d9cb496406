//! Actions that select a port or link by a hash of the packet (ovs: `lib/bundle.c`, `lib/multipath.c`).

use super::Subfield;
use base::OfPort;

/// The fields that are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashFields {
    /// Ethernet source.
    EthSrc,
    /// Ethernet and IP addresses, VLAN, protocol, TCP and SCTP ports; the same in both directions.
    SymmetricL4,
    /// IP addresses, protocol, TCP and SCTP ports; the same in both directions.
    SymmetricL3L4,
    /// IP addresses, protocol, TCP, UDP and SCTP ports; the same in both directions.
    SymmetricL3L4Udp,
    /// IP source.
    NwSrc,
    /// IP destination.
    NwDst,
    /// IP addresses; the same in both directions.
    SymmetricL3,
}

impl HashFields {
    /// All values by number, with their names.
    const ALL: [(HashFields, &str); 7] = [
        (HashFields::EthSrc, "eth_src"),
        (HashFields::SymmetricL4, "symmetric_l4"),
        (HashFields::SymmetricL3L4, "symmetric_l3l4"),
        (HashFields::SymmetricL3L4Udp, "symmetric_l3l4+udp"),
        (HashFields::NwSrc, "nw_src"),
        (HashFields::NwDst, "nw_dst"),
        (HashFields::SymmetricL3, "symmetric_l3"),
    ];

    /// Returns the value for a number on the wire.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).map(|(fields, _)| *fields)
    }

    /// Returns its number on the wire.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// Returns the value for a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(fields, _)| *fields)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Self::ALL.get(self as usize).map_or("", |(_, name)| name)
    }
}

/// How `bundle` selects a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BundleAlgorithm {
    /// The first one that is up.
    ActiveBackup,
    /// The live member with the highest random weight.
    HighestRandomWeight,
}

/// `bundle(...)` and `bundle_load(...)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bundle {
    /// How a member is selected.
    pub algorithm: BundleAlgorithm,
    /// The fields that are hashed.
    pub fields: HashFields,
    /// The initial hash value.
    pub basis: u16,
    /// The field that receives the member's number; `None` outputs the packet.
    pub target: Option<Subfield>,
    /// The members.
    pub members: Vec<OfPort>,
}

impl BundleAlgorithm {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            BundleAlgorithm::ActiveBackup => "active_backup",
            BundleAlgorithm::HighestRandomWeight => "hrw",
        }
    }
}

/// How `multipath` selects a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MultipathAlgorithm {
    /// The hash modulo the number of links.
    ModuloN,
    /// The link whose range contains the hash.
    HashThreshold,
    /// The link with the highest random weight.
    HighestRandomWeight,
    /// Hashes repeatedly until the value is a link's number.
    IterativeHash,
}

impl MultipathAlgorithm {
    /// All values by number, with their names.
    const ALL: [(MultipathAlgorithm, &str); 4] = [
        (MultipathAlgorithm::ModuloN, "modulo_n"),
        (MultipathAlgorithm::HashThreshold, "hash_threshold"),
        (MultipathAlgorithm::HighestRandomWeight, "hrw"),
        (MultipathAlgorithm::IterativeHash, "iter_hash"),
    ];

    /// Returns the value for a number on the wire.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).map(|(algorithm, _)| *algorithm)
    }

    /// Returns its number on the wire.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// Returns the value for a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(algorithm, _)| *algorithm)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Self::ALL.get(self as usize).map_or("", |(_, name)| name)
    }
}

/// `multipath(...)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Multipath {
    /// The fields that are hashed.
    pub fields: HashFields,
    /// The initial hash value.
    pub basis: u16,
    /// How a link is selected.
    pub algorithm: MultipathAlgorithm,
    /// The number of the last link; the first is 0.
    pub max_link: u16,
    /// The modulus of the iterative hash.
    pub arg: u32,
    /// The field that receives the link's number.
    pub target: Subfield,
}
