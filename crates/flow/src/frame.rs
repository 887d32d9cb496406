//! A packet together with the key that was read from it.

use crate::connection::ConnectionRef;
use crate::drop::DropReason;
use crate::extract;
use crate::headers::Headers;
use crate::key::FlowKey;
use crate::vlan_limit::VlanLimit;
use base::PortNo;
use packet::Packet;

/// Where the headers of a frame begin, in bytes from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layers {
    /// The network header, behind all VLAN tags.
    pub l3: u16,
    /// The transport header, or `None` where there is none to be read: not IP, truncated, or a
    /// fragment other than the first.
    pub l4: Option<u16>,
}

/// A parsed packet: its bytes, the key read from them, and where the headers lie. The key and the
/// bytes always agree: code that rewrites one rewrites the other.
#[derive(Debug)]
pub struct Frame {
    /// The bytes.
    pub packet: Packet,
    /// What can be matched.
    pub key: FlowKey,
    /// Where the headers lie.
    pub layers: Layers,
    /// The connection that connection tracking last found it to belong to, if that lives.
    pub connection: Option<ConnectionRef>,
}

/// Up to 32 frames that travel together.
pub type FrameBatch = arrayvec::ArrayVec<Frame, { base::limits::BATCH_SIZE }>;

impl Frame {
    /// A place for a packet, with none in it: see [`Frame::read`].
    pub fn empty() -> Frame {
        let layers = Layers { l3: 0, l4: None };
        Frame { packet: Packet::none(), key: FlowKey::new(), layers, connection: None }
    }

    /// Takes the packet out together with its key.
    #[must_use]
    pub fn take(&mut self) -> Frame {
        let Frame { packet, key, layers, connection } = self;
        let (packet, key) = (packet.take(), key.clone());
        Frame { packet, key, layers: *layers, connection: *connection }
    }

    /// Reads the headers of the packet that was put into its place, as [`Frame::parse`] does, and
    /// besides those of an ordinary packet into `headers`. An ordinary packet's key is not written
    /// yet: [`Headers::write_key`] does that. False where not even an Ethernet header is there; the
    /// packet still is.
    #[inline]
    #[must_use]
    pub fn read(&mut self, in_port: PortNo, headers: &mut Headers) -> bool {
        self.connection = None;
        if let Some(layers) = headers.read(self.packet.data(), in_port) {
            self.layers = layers;
            return true;
        }
        self.read_other(in_port)
    }

    /// Reads the headers anew after the packet became another one, as of a packet from `in_port` of which
    /// nothing else is known. False where not even an Ethernet header is there.
    #[must_use]
    pub fn read_again(&mut self, in_port: PortNo) -> bool {
        self.connection = None;
        self.read_other(in_port)
    }

    fn read_other(&mut self, in_port: PortNo) -> bool {
        self.key.clear();
        let data = self.packet.data();
        let layers = extract::extract(data, VlanLimit::current(), &mut self.key);
        self.key.set_in_port_raw(in_port.0);
        layers.map(|layers| self.layers = layers).is_some()
    }

    /// Reads the headers of a packet from `in_port`. Headers that are cut short or lie about their
    /// length leave their fields zero, as in Open vSwitch (ovs: `lib/flow.c`, `miniflow_extract`);
    /// only a frame without a whole Ethernet header is refused.
    pub fn parse(packet: Packet, in_port: PortNo) -> Result<Frame, (Packet, DropReason)> {
        Frame::parse_within(packet, in_port, VlanLimit::current())
    }

    /// As [`Frame::parse`], with as many VLAN headers as this key has. A packet that was given tags may
    /// have more than would be parsed otherwise.
    pub fn parse_as(packet: Packet, key: &FlowKey) -> Result<Frame, (Packet, DropReason)> {
        Frame::parse_within(packet, key.in_port(), VlanLimit::of(key))
    }

    /// As [`Frame::parse`], with another limit than the one that is in force.
    pub fn parse_within(
        packet: Packet,
        in_port: PortNo,
        vlans: VlanLimit,
    ) -> Result<Frame, (Packet, DropReason)> {
        let mut key = FlowKey::new();
        match extract::extract(packet.data(), vlans, &mut key) {
            Some(layers) => {
                key.set_in_port_raw(in_port.0);
                Ok(Frame { packet, key, layers, connection: None })
            }
            None => Err((packet, DropReason::Malformed)),
        }
    }

    /// Puts a packet and a key that was read from it earlier together again, reading the headers'
    /// places anew, behind as many VLAN headers as the key has: the limit may have changed meanwhile,
    /// or the packet was given tags. The key's metadata (port, recirculation, connection) is kept.
    pub fn resume(packet: Packet, key: FlowKey) -> Result<Frame, (Packet, DropReason)> {
        let mut scratch = FlowKey::new();
        match extract::extract(packet.data(), VlanLimit::of(&key), &mut scratch) {
            Some(layers) => Ok(Frame { packet, key, layers, connection: None }),
            None => Err((packet, DropReason::Malformed)),
        }
    }

    /// Forgets all that connection tracking said of the packet (`ct_clear`).
    pub fn clear_ct(&mut self) {
        self.key.clear_ct();
        self.connection = None;
    }

    /// Reads the ICMPv6 message anew into the key, after its bytes were changed.
    pub fn reread_icmpv6(&mut self) {
        let mut key = self.key.clone();
        if let Some(l4) = self.l4() {
            extract::reread_icmpv6(l4, &mut key);
        }
        self.key = key;
    }

    /// The bytes from the network header on.
    pub fn l3(&self) -> &[u8] {
        self.packet.data().get(usize::from(self.layers.l3)..).unwrap_or_default()
    }

    /// The bytes from the network header on, to be changed in place.
    pub fn l3_mut(&mut self) -> &mut [u8] {
        self.packet.data_mut().get_mut(usize::from(self.layers.l3)..).unwrap_or_default()
    }

    /// The bytes from the transport header on, where there is one. IP's own length says where they
    /// end; Ethernet padding is not part of them.
    pub fn l4(&self) -> Option<&[u8]> {
        let start = usize::from(self.layers.l4?);
        let data = self.packet.data();
        let end = extract::ip_end(data, usize::from(self.layers.l3), self.key.eth_type())?;
        data.get(start..end.min(data.len()))
    }
}
