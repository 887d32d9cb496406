//! What a guest or its front-end did wrong. A fault ends the connection, and only that.

/// A violation of the protocol, of virtio's rules for rings, or missing memory.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The front-end sent an invalid message.
    #[error("its guest broke the protocol of vhost-user: {0}")]
    Protocol(String),
    /// A file is shorter than its region.
    #[error("its guest's memory is shorter than it says; {0}")]
    Memory(String),
    /// A ring is invalid.
    #[error("its guest broke ring {ring}: {fault}")]
    Ring {
        /// The ring's number.
        ring: u16,
        /// Its fault.
        fault: RingFault,
    },
}

/// What is wrong with a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RingFault {
    /// More descriptors are available than the ring has.
    #[error("its available index goes from {from} to {to}, but it has {size} entries")]
    Index {
        /// The last index that was processed.
        from: u16,
        /// The index in the ring.
        to: u16,
        /// The ring's size.
        size: u16,
    },
    /// A descriptor's number is not less than the table's size.
    #[error("descriptor {0} is outside of its table")]
    Descriptor(u16),
    /// A chain has more descriptors than any driver needs, or a cycle.
    #[error("a chain of descriptors is longer than any driver needs, or has no end")]
    Long,
    /// A descriptor's address is not in the guest's memory.
    #[error("a descriptor's address {0:#x} is outside of the guest's memory")]
    Address(u64),
    /// The device writes to a descriptor to be read, or the reverse.
    #[error("a descriptor has the wrong direction")]
    Direction,
    /// An indirect table is invalid or was not negotiated.
    #[error("an indirect table is invalid")]
    Indirect,
    /// The ring itself is not in the guest's memory.
    #[error("it is outside of the guest's memory")]
    Place,
    /// The memory's file became shorter.
    #[error("the file of its memory became shorter")]
    Torn,
}

impl Fault {
    /// A violation of the protocol.
    pub fn protocol(words: impl Into<String>) -> Fault {
        Fault::Protocol(words.into())
    }

    /// A fault of a ring.
    pub fn of_ring(ring: u16, fault: RingFault) -> Fault {
        match fault {
            RingFault::Torn => {
                Fault::Memory("its file became shorter while it was used".to_owned())
            }
            fault => Fault::Ring { ring, fault },
        }
    }
}
