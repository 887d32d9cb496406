//! Protocols whose frames go to state machines and not through flow tables.

/// The number of a port's state machines. Numbers are not reused in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MonitorId(pub u32);

/// A protocol with a state machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Protocol {
    /// Bidirectional Forwarding Detection.
    Bfd,
}

/// Where a frame goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ToProtocol {
    /// The port that the frame reached, which with patches and tunnels is not the datapath's.
    pub monitor: MonitorId,
    /// The protocol.
    pub protocol: Protocol,
}

impl Protocol {
    /// Returns the name as a reason of the slow path (ovs: `lib/odp-util.h`, `enum slow_path_reason`).
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Bfd => "bfd",
        }
    }

    /// Returns the sentence in which a trace tells of the reason.
    pub fn explanation(self) -> &'static str {
        match self {
            Protocol::Bfd => "Consists of BFD packets.",
        }
    }
}
