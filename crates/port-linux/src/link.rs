//! Network devices of the system: state and settings, over routing netlink (rtnetlink(7)).
//!
//! Works in the network namespace of the thread that opened it, and does not need `/sys`.

use crate::ethtool::{self, Driver, Duplex};
use crate::socket;
use base::MacAddr;
use coverage::Event;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage, Stats64};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use port::PortError;
use std::io;

/// The device name in errors that concern no particular device.
pub(crate) const NETLINK: &str = "routing netlink";

/// The state of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkInfo {
    /// The device's index.
    pub ifindex: u32,
    /// The device's name.
    pub name: String,
    /// Whether its frames are Ethernet frames (not those of the loopback device).
    pub is_ethernet: bool,
    /// Its Ethernet address; zero for devices without one.
    pub mac: MacAddr,
    /// Its MTU, in bytes of IP packet.
    pub mtu: u32,
    /// Whether it is administratively up.
    pub admin_up: bool,
    /// Whether it has a carrier: a cable, or a peer that is up.
    pub carrier: bool,
    /// The index of the device that it is linked to: for veth the other end, in that end's namespace.
    pub leads_to: Option<u32>,
    /// Its counters.
    pub statistics: LinkStatistics,
}

impl LinkInfo {
    /// Returns the driver's name and versions, if it reports them.
    pub fn driver(&self) -> Option<Driver> {
        ethtool::driver(&self.name)
    }

    /// Returns speed in Mbit/s and duplex, if known.
    pub fn speed_and_duplex(&self) -> (Option<u32>, Option<Duplex>) {
        ethtool::speed_and_duplex(&self.name)
    }

    pub(crate) fn from_message(message: &LinkMessage) -> LinkInfo {
        let flags = message.header.flags;
        let mut info = LinkInfo {
            ifindex: message.header.index,
            is_ethernet: message.header.link_layer_type == LinkLayerType::Ether,
            admin_up: flags.contains(LinkFlags::Up),
            carrier: flags.contains(LinkFlags::LowerUp),
            ..LinkInfo::default()
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => info.name.clone_from(name),
                LinkAttribute::Mtu(mtu) => info.mtu = *mtu,
                LinkAttribute::Link(ifindex) => info.leads_to = Some(*ifindex),
                LinkAttribute::Address(bytes) => {
                    info.mac =
                        <[u8; 6]>::try_from(bytes.as_slice()).map(MacAddr).unwrap_or_default();
                }
                LinkAttribute::Carrier(carrier) => info.carrier = *carrier != 0,
                LinkAttribute::Stats64(stats) => info.statistics = stats.into(),
                _ => {}
            }
        }
        info
    }
}

/// Counters of a device since its creation, from the device's point of view: frames that a TAP device
/// received were sent by the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the Interface table's statistics column")]
pub struct LinkStatistics {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_crc_err: u64,
    pub rx_frame_err: u64,
    pub rx_over_err: u64,
    pub rx_missed_errors: u64,
    pub collisions: u64,
    pub multicast: u64,
}

impl From<&Stats64> for LinkStatistics {
    fn from(s: &Stats64) -> Self {
        LinkStatistics {
            rx_packets: s.rx_packets,
            tx_packets: s.tx_packets,
            rx_bytes: s.rx_bytes,
            tx_bytes: s.tx_bytes,
            rx_dropped: s.rx_dropped,
            tx_dropped: s.tx_dropped,
            rx_errors: s.rx_errors,
            tx_errors: s.tx_errors,
            rx_crc_err: s.rx_crc_errors,
            rx_frame_err: s.rx_frame_errors,
            rx_over_err: s.rx_over_errors,
            rx_missed_errors: s.rx_missed_errors,
            collisions: s.collisions,
            multicast: s.multicast,
        }
    }
}

impl LinkStatistics {
    /// Returns the counters from the switch's point of view, for its own TAP devices: receive and transmit
    /// are swapped, and errors on the wire are zero.
    #[must_use]
    pub fn seen_from_switch(self) -> LinkStatistics {
        LinkStatistics {
            rx_packets: self.tx_packets,
            tx_packets: self.rx_packets,
            rx_bytes: self.tx_bytes,
            tx_bytes: self.rx_bytes,
            rx_dropped: self.tx_dropped,
            tx_dropped: self.rx_dropped,
            rx_errors: self.tx_errors,
            tx_errors: self.rx_errors,
            collisions: self.collisions,
            multicast: self.multicast,
            ..LinkStatistics::default()
        }
    }
}

/// The device group of devices that are being removed.
const GROUP: u32 = 0x7464_6700;

/// Queries and changes devices over one netlink socket.
#[derive(Debug)]
pub struct Links {
    socket: Socket,
    sequence: u32,
}

impl Links {
    /// Opens the socket, in the network namespace of the calling thread.
    pub fn open() -> Result<Links, PortError> {
        let failed = |what| move |source| socket::system_error(NETLINK, what, source);
        let mut socket = Socket::new(NETLINK_ROUTE).map_err(failed("open a netlink socket"))?;
        socket.bind_auto().map_err(failed("bind the netlink socket"))?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(failed("reach the kernel"))?;
        Ok(Links { socket, sequence: 0 })
    }

    /// Returns the state of one device.
    pub fn by_name(&mut self, device: &str) -> Result<LinkInfo, PortError> {
        self.one(device, named(device)?)
    }

    /// Returns the state of the device with this index, which errors call by a name.
    pub fn by_index(&mut self, device: &str, ifindex: u32) -> Result<LinkInfo, PortError> {
        let mut message = LinkMessage::default();
        message.header.index = ifindex;
        self.one(device, message)
    }

    fn one(&mut self, device: &str, message: LinkMessage) -> Result<LinkInfo, PortError> {
        let mut found = None;
        self.ask_links(device, "look at the device", message, 0, |info| found = Some(info))?;
        // A missing device is an error of the request (ENODEV), so an answer without a device is an error.
        found.ok_or_else(|| PortError::System {
            device: device.to_owned(),
            what: "look at the device",
            source: io::Error::new(io::ErrorKind::InvalidData, "the answer is not understood"),
        })
    }

    /// Returns the state of all devices.
    pub fn list(&mut self) -> Result<Vec<LinkInfo>, PortError> {
        let mut all = Vec::new();
        let question = LinkMessage::default();
        self.ask_links(NETLINK, "list the devices", question, NLM_F_DUMP, |info| all.push(info))?;
        Ok(all)
    }

    /// Brings a device up or down.
    pub fn set_up(&mut self, device: &str, up: bool) -> Result<(), PortError> {
        let mut message = named(device)?;
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        message.header.change_mask = LinkFlags::Up;
        self.order(device, if up { "bring up" } else { "bring down" }, message)
    }

    /// Sets a device's MTU, in bytes of IP packet.
    pub fn set_mtu(&mut self, device: &str, mtu: u32) -> Result<(), PortError> {
        let mut message = named(device)?;
        message.attributes.push(LinkAttribute::Mtu(mtu));
        self.order(device, "set the MTU", message)
    }

    /// Sets a device's Ethernet address.
    pub fn set_mac(&mut self, device: &str, mac: MacAddr) -> Result<(), PortError> {
        let mut message = named(device)?;
        message.attributes.push(LinkAttribute::Address(mac.0.to_vec()));
        self.order(device, "set the Ethernet address", message)
    }

    /// Removes several devices together. The kernel then waits once until all of them are unused, and not
    /// once per device (Linux: `net/core/rtnetlink.c`, `rtnl_group_dellink`).
    pub fn remove_all(&mut self, devices: &[&str]) -> Result<(), PortError> {
        // A group that only this process uses.
        let group = LinkAttribute::Group(GROUP ^ std::process::id());
        for device in devices {
            let mut message = named(device)?;
            message.attributes.push(group.clone());
            self.order(device, "mark for removal", message)?;
        }
        let mut message = LinkMessage::default();
        message.attributes.push(group);
        let request = RouteNetlinkMessage::DelLink(message);
        self.ask(NETLINK, "remove the devices", request, 0, |_| {})
    }

    fn order(
        &mut self,
        device: &str,
        what: &'static str,
        message: LinkMessage,
    ) -> Result<(), PortError> {
        self.ask(device, what, RouteNetlinkMessage::SetLink(message), 0, |_| {})
    }

    fn ask_links(
        &mut self,
        device: &str,
        what: &'static str,
        question: LinkMessage,
        flags: u16,
        mut each: impl FnMut(LinkInfo),
    ) -> Result<(), PortError> {
        self.ask(device, what, RouteNetlinkMessage::GetLink(question), flags, |answer| {
            if let RouteNetlinkMessage::NewLink(link) = answer {
                each(LinkInfo::from_message(&link));
            }
        })
    }

    /// Sends one request and passes every message of the answer to `each`.
    pub(crate) fn ask(
        &mut self,
        device: &str,
        what: &'static str,
        request: RouteNetlinkMessage,
        flags: u16,
        mut each: impl FnMut(RouteNetlinkMessage),
    ) -> Result<(), PortError> {
        self.sequence = self.sequence.wrapping_add(1);
        let failed = |source| socket::system_error(device, what, source);
        let mut header = NetlinkHeader::default();
        // A dump ends by itself; other answers end with an acknowledgement.
        header.flags = NLM_F_REQUEST | if flags == NLM_F_DUMP { flags } else { NLM_F_ACK };
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map_err(failed)?;
        coverage::count(Event::NetlinkSent);
        loop {
            let (answer, _) = self.socket.recv_from_full().map_err(failed)?;
            coverage::count(Event::NetlinkReceived);
            let mut rest = answer.as_slice();
            while let Some((part, after)) = split_message(rest) {
                rest = after;
                let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(part) else {
                    log::warn!("{device}: could not {what}: the answer is not understood");
                    continue;
                };
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(e) if e.code.is_none() => return Ok(()),
                    NetlinkPayload::Error(e) => {
                        return Err(failed(io::Error::from_raw_os_error(e.raw_code().abs())));
                    }
                    NetlinkPayload::InnerMessage(message) => each(message),
                    _ => {}
                }
            }
        }
    }
}

/// Returns the first of several netlink messages, and the rest.
pub(crate) fn split_message(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    // A header has 16 bytes; a shorter length would loop forever.
    if length < 16 {
        return None;
    }
    let part = bytes.get(..length)?;
    Some((part, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Returns a message about the device with this name.
fn named(device: &str) -> Result<LinkMessage, PortError> {
    // Rejects an invalid name, which netlink would take for "no name".
    socket::device_request(device)?;
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(device.to_owned()));
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_is_there_and_others_are_not() {
        let mut links = Links::open().unwrap();
        let lo = links.by_name("lo").unwrap();
        assert_eq!((lo.ifindex, lo.name.as_str(), lo.is_ethernet), (1, "lo", false));
        assert!(lo.mtu >= 65536);
        assert!(links.list().unwrap().iter().any(|l| l.name == "lo"));
        let gone = links.by_name("tport-missing");
        assert!(matches!(gone, Err(PortError::Gone { .. })), "{gone:?}");
        assert!(matches!(links.set_mtu("", 1500), Err(PortError::Invalid { .. })));
    }

    #[test]
    fn messages_that_lie_about_their_length_end_the_walk() {
        let one = [&20u32.to_ne_bytes()[..], &[0; 16]].concat();
        assert_eq!(split_message(&one).unwrap().1, &[] as &[u8]);
        assert!(split_message(&one[..19]).is_none());
        assert!(split_message(&[0; 20]).is_none());
        assert!(split_message(&[]).is_none());
    }
}
