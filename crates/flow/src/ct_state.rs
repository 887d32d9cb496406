//! The state that connection tracking assigns to a packet.

use bitflags::bitflags;
use std::fmt;

bitflags! {
    /// The `ct_state` bits, in OpenFlow's numbering (ovs: `lib/ovs-fields.7.xml`).
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
    pub struct CtState: u8 {
        /// The first packet of a new connection.
        const NEW = 0x01;
        /// A packet of an existing connection.
        const EST = 0x02;
        /// Related to an existing connection, such as an ICMP error.
        const REL = 0x04;
        /// In the reply direction.
        const RPL = 0x08;
        /// Invalid: the packet could not be tracked. The other bits but TRK have no meaning.
        const INV = 0x10;
        /// The packet went through connection tracking.
        const TRK = 0x20;
        /// The source address or port was rewritten.
        const SNAT = 0x40;
        /// The destination address or port was rewritten.
        const DNAT = 0x80;
    }
}

impl CtState {
    /// The bits and their names, in the order of Open vSwitch's tools.
    pub const NAMES: [(CtState, &'static str); 8] = [
        (CtState::NEW, "new"),
        (CtState::EST, "est"),
        (CtState::REL, "rel"),
        (CtState::RPL, "rpl"),
        (CtState::INV, "inv"),
        (CtState::TRK, "trk"),
        (CtState::SNAT, "snat"),
        (CtState::DNAT, "dnat"),
    ];
}

impl fmt::Display for CtState {
    /// `est|rpl|trk`, or `0` for none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (bit, name) in CtState::NAMES {
            if self.contains(bit) {
                write!(f, "{separator}{name}")?;
                separator = "|";
            }
        }
        if separator.is_empty() { f.write_str("0") } else { Ok(()) }
    }
}
