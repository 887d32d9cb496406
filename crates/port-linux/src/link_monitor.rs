//! Notifications of devices that appear, change and disappear, from the kernel's announcements.

use crate::link::{LinkInfo, Links, NETLINK, split_message};
use crate::socket;
use coverage::Event;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use port::PortError;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};

/// Size of the receive buffer. If announcements are lost, all devices are read again.
const RECEIVE_BUFFER_BYTES: i32 = 1 << 20;

/// An event of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkEvent {
    /// It was created, was moved here from another namespace, or took this name.
    Appeared(LinkInfo),
    /// It lost this name. The event of its new name follows.
    Renamed {
        /// Its index.
        ifindex: u32,
        /// Its previous name.
        was: String,
    },
    /// Its address, MTU, administrative state or carrier changed.
    Changed(LinkInfo),
    /// It was removed or was moved to another namespace.
    Vanished {
        /// Its previous index.
        ifindex: u32,
        /// Its previous name.
        name: String,
    },
}

/// Monitors the devices of the network namespace in which it was opened.
#[derive(Debug)]
pub struct LinkMonitor {
    announcements: Socket,
    links: Links,
    known: BTreeMap<u32, String>,
}

/// The descriptor becomes readable when there are events.
impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.announcements.as_fd()
    }
}

impl LinkMonitor {
    /// Starts monitoring. The first [`LinkMonitor::events`] reports every existing device as appeared.
    pub fn open() -> Result<LinkMonitor, PortError> {
        let failed = |what| move |source| socket::system_error(NETLINK, what, source);
        let mut announcements =
            Socket::new(NETLINK_ROUTE).map_err(failed("open a netlink socket"))?;
        announcements
            .bind(&SocketAddr::new(0, libc::RTMGRP_LINK as u32))
            .map_err(failed("subscribe to device announcements"))?;
        announcements.set_non_blocking(true).map_err(failed("set up the netlink socket"))?;
        // With a smaller buffer, all devices are only read again more often.
        let _ = announcements.set_rx_buf_sz(RECEIVE_BUFFER_BYTES);
        Ok(LinkMonitor { announcements, links: Links::open()?, known: BTreeMap::new() })
    }

    /// Returns the events since the last call, oldest first, without waiting. On the first call, or if
    /// announcements were lost, every device is compared with the known state.
    pub fn events(&mut self) -> Result<Vec<LinkEvent>, PortError> {
        let mut events = Vec::new();
        if self.known.is_empty() {
            self.compare_all(&mut events)?;
        }
        loop {
            match self.announcements.recv_from_full() {
                Ok((bytes, _)) => {
                    coverage::count(Event::NetlinkReceived);
                    coverage::count(Event::LinksChanged);
                    if self.take_in(&bytes, &mut events).is_none() {
                        self.compare_all(&mut events)?;
                    }
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(events),
                    Some(libc::EINTR) => {}
                    Some(libc::ENOBUFS) => {
                        coverage::count(Event::NetlinkOverflow);
                        self.compare_all(&mut events)?;
                    }
                    _ => return Err(socket::system_error(NETLINK, "read announcements", e)),
                },
            }
        }
    }

    /// Processes one datagram of announcements. Returns `None` if one cannot be parsed.
    fn take_in(&mut self, bytes: &[u8], events: &mut Vec<LinkEvent>) -> Option<()> {
        let mut rest = bytes;
        while let Some((part, after)) = split_message(rest) {
            rest = after;
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(part).ok()?;
            let NetlinkPayload::InnerMessage(message) = message.payload else { continue };
            match message {
                RouteNetlinkMessage::NewLink(link) if is_about_device(&link) => {
                    self.see(LinkInfo::from_message(&link), events);
                }
                RouteNetlinkMessage::DelLink(link) if is_about_device(&link) => {
                    self.lose(link.header.index, events);
                }
                _ => {}
            }
        }
        Some(())
    }

    fn compare_all(&mut self, events: &mut Vec<LinkEvent>) -> Result<(), PortError> {
        let present = self.links.list()?;
        let there: BTreeSet<u32> = present.iter().map(|link| link.ifindex).collect();
        let gone: Vec<u32> =
            self.known.keys().copied().filter(|ifindex| !there.contains(ifindex)).collect();
        for ifindex in gone {
            self.lose(ifindex, events);
        }
        for link in present {
            self.see(link, events);
        }
        Ok(())
    }

    fn see(&mut self, link: LinkInfo, events: &mut Vec<LinkEvent>) {
        match self.known.get(&link.ifindex) {
            Some(name) if *name == link.name => events.push(LinkEvent::Changed(link)),
            was => {
                if let Some(was) = was.cloned() {
                    events.push(LinkEvent::Renamed { ifindex: link.ifindex, was });
                }
                self.known.insert(link.ifindex, link.name.clone());
                events.push(LinkEvent::Appeared(link));
            }
        }
    }

    fn lose(&mut self, ifindex: u32, events: &mut Vec<LinkEvent>) {
        if let Some(name) = self.known.remove(&ifindex) {
            events.push(LinkEvent::Vanished { ifindex, name });
        }
    }
}

/// Kernel bridges announce their ports in messages of the same types: a device that leaves a bridge must not
/// count as removed.
fn is_about_device(link: &LinkMessage) -> bool {
    link.header.interface_family == AddressFamily::Unspec
}
