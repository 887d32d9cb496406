//! A packet and the flow key that was extracted from it.

use crate::connection::ConnectionRef;
use crate::drop::DropReason;
use crate::extract;
use crate::field::Field;
use crate::headers::Headers;
use crate::key::FlowKey;
use crate::layers::Layers;
use crate::vlan_limit::VlanLimit;
use base::PortNo;
use packet::Packet;

/// A parsed packet: its bytes, the key that was extracted from them, and the offsets of the headers. Key and
/// bytes always agree: code that rewrites one also rewrites the other.
#[derive(Debug)]
pub struct Frame {
    /// The packet.
    pub packet: Packet,
    /// The flow key.
    pub key: FlowKey,
    /// The offsets of the headers.
    pub layers: Layers,
    /// The connection that connection tracking last found for the packet, if it is live.
    pub connection: Option<ConnectionRef>,
    /// A hash of the addresses and ports that the packet was received with, if actions may have rewritten them
    /// since. The datapath sets it, and clears it where a walk begins.
    pub received: Option<u64>,
}

/// Up to 32 frames that are processed together.
pub type FrameBatch = arrayvec::ArrayVec<Frame, { base::limits::BATCH_SIZE }>;

impl Frame {
    /// Returns a frame without a packet, to be filled by [`Frame::read`].
    pub fn empty() -> Frame {
        let layers = Layers { l3: 0, l4: None };
        let (packet, key) = (Packet::none(), FlowKey::new());
        Frame { packet, key, layers, connection: None, received: None }
    }

    /// Removes the packet together with its key.
    #[must_use]
    pub fn take(&mut self) -> Frame {
        let Frame { packet, key, layers, connection, received } = self;
        let (packet, key) = (packet.take(), key.clone());
        Frame { packet, key, layers: *layers, connection: *connection, received: *received }
    }

    /// Parses the headers of the packet that was put into the frame, as [`Frame::parse`] does, and those of
    /// an ordinary packet also into `headers`. The key of an ordinary packet is not written yet:
    /// [`Headers::write_key`] does that. Returns false if the packet is shorter than an Ethernet header; the
    /// packet stays.
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

    /// Parses the headers again after the packet became another one (for example by decapsulation), as a
    /// packet from `in_port` without other metadata. Returns false if it is shorter than an Ethernet header.
    #[must_use]
    pub fn read_again(&mut self, in_port: PortNo) -> bool {
        (self.connection, self.received) = (None, None);
        self.read_other(in_port)
    }

    fn read_other(&mut self, in_port: PortNo) -> bool {
        self.key.clear();
        let data = self.packet.data();
        let layers = extract::extract(data, VlanLimit::current(), &mut self.key);
        self.key.set_in_port_raw(in_port.0);
        layers.map(|layers| self.layers = layers).is_some()
    }

    /// Parses the headers of a packet from `in_port`. Fields of headers that are truncated or have wrong
    /// length fields stay zero, as in Open vSwitch (ovs: `lib/flow.c`, `miniflow_extract`); only a frame that
    /// is shorter than an Ethernet header is refused.
    pub fn parse(packet: Packet, in_port: PortNo) -> Result<Frame, (Packet, DropReason)> {
        Frame::parse_within(packet, in_port, VlanLimit::current())
    }

    /// [`Frame::parse`] with as many VLAN headers as this key has. After a push, a packet may have more tags
    /// than the limit would allow.
    pub fn parse_as(packet: Packet, key: &FlowKey) -> Result<Frame, (Packet, DropReason)> {
        Frame::parse_within(packet, key.in_port(), VlanLimit::of(key))
    }

    /// [`Frame::parse`] with a limit of VLAN headers other than the global one.
    pub fn parse_within(
        packet: Packet,
        in_port: PortNo,
        vlans: VlanLimit,
    ) -> Result<Frame, (Packet, DropReason)> {
        let mut key = FlowKey::new();
        match extract::extract(packet.data(), vlans, &mut key) {
            Some(layers) => {
                key.set_in_port_raw(in_port.0);
                Ok(Frame { packet, key, layers, connection: None, received: None })
            }
            None => Err((packet, DropReason::Malformed)),
        }
    }

    /// Parses the headers again after headers behind the Ethernet header or its tags were added or removed.
    /// The key's metadata (port, recirculation, connection, tunnel, packet type) is kept. Returns false if the
    /// packet is shorter than an Ethernet header; its key then has no headers.
    #[must_use]
    pub fn reread(&mut self) -> bool {
        let vlans = VlanLimit::of(&self.key).max(VlanLimit::current());
        let packet_type = self.key.get(Field::PacketType);
        self.key.clear_headers();
        let layers = extract::extract(self.packet.data(), vlans, &mut self.key);
        self.key.set(Field::PacketType, packet_type);
        layers.map(|layers| self.layers = layers).is_some()
    }

    /// Joins a packet and the key that was extracted from it earlier. The offsets of the headers are computed
    /// again, after as many VLAN headers as the key has: the limit may have changed, or tags may have been
    /// pushed. The key's metadata (port, recirculation, connection) is kept.
    pub fn resume(packet: Packet, key: &FlowKey) -> Result<Frame, (Packet, DropReason)> {
        match layers(packet.data(), VlanLimit::of(key)) {
            Some(layers) => {
                let key = key.clone();
                Ok(Frame { packet, key, layers, connection: None, received: None })
            }
            None => Err((packet, DropReason::Malformed)),
        }
    }

    /// Returns the packet's length in bytes. If its packet type has no Ethernet header, that header is not
    /// counted.
    #[inline]
    pub fn seen_len(&self) -> usize {
        self.packet.len().saturating_sub(self.key.unseen_bytes())
    }

    /// Clears the connection fields (`ct_clear`).
    pub fn clear_ct(&mut self) {
        self.key.clear_ct();
        self.connection = None;
    }

    /// Parses the ICMPv6 message again into the key, after its bytes were rewritten.
    pub fn reread_icmpv6(&mut self) {
        let mut key = self.key.clone();
        if let Some(l4) = self.l4() {
            extract::reread_icmpv6(l4, &mut key);
        }
        self.key = key;
    }

    /// Returns the bytes from the network header on.
    pub fn l3(&self) -> &[u8] {
        self.packet.data().get(usize::from(self.layers.l3)..).unwrap_or_default()
    }

    /// Returns the bytes from the network header on, mutably.
    pub fn l3_mut(&mut self) -> &mut [u8] {
        self.packet.data_mut().get_mut(usize::from(self.layers.l3)..).unwrap_or_default()
    }

    /// Returns the bytes from the transport header on, if there is one. They end where IP's length says;
    /// Ethernet padding is not included.
    pub fn l4(&self) -> Option<&[u8]> {
        let start = usize::from(self.layers.l4?);
        let data = self.packet.data();
        let end = extract::ip_end(data, usize::from(self.layers.l3), self.key.eth_type())?;
        data.get(start..end.min(data.len()))
    }
}

/// The offsets of a frame's headers after so many VLAN headers. An ordinary packet without one needs no key for
/// that, whose words would have to be cleared first.
fn layers(data: &[u8], vlans: VlanLimit) -> Option<Layers> {
    let mut headers = Headers::none();
    let ordinary = headers.read(data, PortNo(0));
    if ordinary.is_some() && vlans.headers() == 0 && headers.tag_type().is_none() {
        return ordinary;
    }
    extract::extract(data, vlans, &mut FlowKey::new())
}
