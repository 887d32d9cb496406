//! Word of devices that appear, change and vanish, from the kernel's own announcements.

use crate::link::{LinkInfo, Links, NETLINK, split_message};
use crate::socket;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use port::PortError;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};

/// Announcements that may wait; when more do, everything is read anew.
const RECEIVE_BUFFER_BYTES: i32 = 1 << 20;

/// What happened to a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkEvent {
    /// It was made, came from another namespace, or took this name.
    Appeared(LinkInfo),
    /// Something of it changed: address, MTU, up or down, carrier.
    Changed(LinkInfo),
    /// It was removed, went to another namespace, or gave up this name.
    Vanished {
        /// The index it had.
        ifindex: u32,
        /// The name it had.
        name: String,
    },
}

/// Watches the devices of the network namespace in which it was opened.
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
    /// Starts watching. The first [`LinkMonitor::events`] reports every device that is there as
    /// appeared.
    pub fn open() -> Result<LinkMonitor, PortError> {
        let failed = |what| move |source| socket::system_error(NETLINK, what, source);
        let mut announcements =
            Socket::new(NETLINK_ROUTE).map_err(failed("open a netlink socket"))?;
        announcements
            .bind(&SocketAddr::new(0, libc::RTMGRP_LINK as u32))
            .map_err(failed("subscribe to device announcements"))?;
        announcements.set_non_blocking(true).map_err(failed("set up the netlink socket"))?;
        // A small buffer costs no more than reading everything anew.
        let _ = announcements.set_rx_buf_sz(RECEIVE_BUFFER_BYTES);
        Ok(LinkMonitor { announcements, links: Links::open()?, known: BTreeMap::new() })
    }

    /// What happened since the last call, oldest first; does not wait. Where announcements were
    /// lost, or on the first call, every device is compared with what was known.
    pub fn events(&mut self) -> Result<Vec<LinkEvent>, PortError> {
        let mut events = Vec::new();
        if self.known.is_empty() {
            self.compare_all(&mut events)?;
        }
        loop {
            match self.announcements.recv_from_full() {
                Ok((bytes, _)) => {
                    if self.take_in(&bytes, &mut events).is_none() {
                        self.compare_all(&mut events)?;
                    }
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(events),
                    Some(libc::EINTR) => {}
                    Some(libc::ENOBUFS) => self.compare_all(&mut events)?,
                    _ => return Err(socket::system_error(NETLINK, "read announcements", e)),
                },
            }
        }
    }

    /// Takes in one datagram of announcements; `None` where one is not understood.
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
                if was.is_some() {
                    self.lose(link.ifindex, events);
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

/// Bridges of the kernel announce their ports in messages of the same types: a device that leaves
/// a bridge must not look removed.
fn is_about_device(link: &LinkMessage) -> bool {
    link.header.interface_family == AddressFamily::Unspec
}
