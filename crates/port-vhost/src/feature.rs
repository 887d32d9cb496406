//! The features of a guest's device and of the protocol that the switch offers.

/// A virtio feature or a protocol feature, as a bit.
const fn bit(number: u32) -> u64 {
    1 << number
}

// VIRTIO 1.2 section 5.1.3; the "host" of the names is the device's side.
pub const CSUM: u64 = bit(0);
pub const GUEST_CSUM: u64 = bit(1);
pub const MTU: u64 = bit(3);
pub const GUEST_TSO4: u64 = bit(7);
pub const GUEST_TSO6: u64 = bit(8);
pub const GUEST_ECN: u64 = bit(9);
pub const HOST_TSO4: u64 = bit(11);
pub const HOST_TSO6: u64 = bit(12);
pub const HOST_ECN: u64 = bit(13);
pub const MRG_RXBUF: u64 = bit(15);
pub const CTRL_VQ: u64 = bit(17);
pub const CTRL_RX: u64 = bit(18);
pub const GUEST_ANNOUNCE: u64 = bit(21);
pub const MQ: u64 = bit(22);
/// The back-end logs each page that it writes (vhost-user, "Migration").
pub const LOG_ALL: u64 = bit(26);
/// Of guests before VIRTIO 1.0: descriptors may divide header and frame in any way.
pub const ANY_LAYOUT: u64 = bit(27);
pub const INDIRECT_DESC: u64 = bit(28);
pub const EVENT_IDX: u64 = bit(29);
/// Not the guest's: the front-end may ask for protocol features.
pub const PROTOCOL_FEATURES: u64 = bit(30);
pub const VERSION_1: u64 = bit(32);
pub const RING_PACKED: u64 = bit(34);
pub const IN_ORDER: u64 = bit(35);
pub const GUEST_USO4: u64 = bit(54);
pub const GUEST_USO6: u64 = bit(55);
pub const HOST_USO: u64 = bit(56);

/// All that the switch offers. It does not offer a virtual IOMMU (`VIRTIO_F_ACCESS_PLATFORM`): its lookups would
/// be requests to the front-end, for which workers would wait.
pub const OFFERED: u64 = CSUM
    | GUEST_CSUM
    | MTU
    | GUEST_TSO4
    | GUEST_TSO6
    | GUEST_ECN
    | HOST_TSO4
    | HOST_TSO6
    | HOST_ECN
    | MRG_RXBUF
    | CTRL_VQ
    | CTRL_RX
    | GUEST_ANNOUNCE
    | MQ
    | LOG_ALL
    | ANY_LAYOUT
    | INDIRECT_DESC
    | EVENT_IDX
    | PROTOCOL_FEATURES
    | VERSION_1
    | RING_PACKED
    | IN_ORDER
    | GUEST_USO4
    | GUEST_USO6
    | HOST_USO;

/// Protocol features (vhost-user, "Protocol features").
pub mod protocol {
    use super::bit;

    pub const MQ: u64 = bit(0);
    pub const LOG_SHMFD: u64 = bit(1);
    pub const RARP: u64 = bit(2);
    pub const REPLY_ACK: u64 = bit(3);
    pub const NET_MTU: u64 = bit(4);
    pub const RESET_DEVICE: u64 = bit(13);
    pub const CONFIGURE_MEM_SLOTS: u64 = bit(15);
    pub const STATUS: u64 = bit(16);

    /// All that the switch offers. Postcopy migration is not offered: a worker would wait for pages of the
    /// other machine.
    pub const OFFERED: u64 =
        MQ | LOG_SHMFD | RARP | REPLY_ACK | NET_MTU | RESET_DEVICE | CONFIGURE_MEM_SLOTS | STATUS;
}
