//! The state machines of a port.

use crate::bfd::{self, Bfd, Identity};
use crate::line::Line;
use base::{Instant, MacAddr};
use flow::Protocol;

/// What a port's machines are to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The port's name.
    pub name: String,
    /// The port's Ethernet address.
    pub mac: MacAddr,
    /// BFD, if it is enabled.
    pub bfd: Option<bfd::Config>,
}

/// A frame that a port sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// The frame.
    pub bytes: Vec<u8>,
    /// Whether a tunnel sets its OAM flag.
    pub oam: bool,
}

/// What changed at a port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Whether the port may be used, as its protocols say.
    pub is_alive: bool,
    /// `Interface.bfd_status`; empty without BFD.
    pub bfd: Vec<(&'static str, String)>,
}

/// The state machines of a port.
#[derive(Debug)]
pub struct Monitor {
    name: String,
    mac: MacAddr,
    bfd: Option<Bfd>,
    /// Whether a machine was removed since the last report.
    is_changed: bool,
}

impl Monitor {
    /// The machines for these settings, at first down.
    pub(crate) fn new(now: Instant, settings: Settings, identity: Identity) -> Monitor {
        let Settings { name, mac, bfd } = settings;
        let bfd = bfd.map(|config| Bfd::new(now, &name, identity, config));
        Monitor { name, mac, bfd, is_changed: true }
    }

    pub(crate) fn configure(&mut self, now: Instant, settings: Settings, identity: Identity) {
        self.mac = settings.mac;
        match (&mut self.bfd, settings.bfd) {
            (Some(bfd), Some(config)) => bfd.configure(now, config),
            (None, Some(config)) => self.bfd = Some(Bfd::new(now, &self.name, identity, config)),
            (bfd, None) => self.is_changed |= bfd.take().is_some(),
        }
    }

    /// The port's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The BFD session.
    pub fn bfd(&self) -> Option<&Bfd> {
        self.bfd.as_ref()
    }

    pub(crate) fn bfd_mut(&mut self) -> Option<&mut Bfd> {
        self.bfd.as_mut()
    }

    /// Whether the port may be used: some protocol says so, or there is none (ovs: `ofproto/ofproto-dpif.c`,
    /// `may_enable_port`).
    pub fn is_alive(&self) -> bool {
        self.bfd.as_ref().is_none_or(Bfd::is_forwarding)
    }

    pub(crate) fn receive(&mut self, now: Instant, protocol: Protocol, frame: &[u8]) {
        match protocol {
            Protocol::Bfd => {
                if let Some(bfd) = &mut self.bfd {
                    bfd.receive(now, frame);
                }
            }
        }
    }

    pub(crate) fn count(&mut self, now: Instant, received: u64) {
        if let Some(bfd) = &mut self.bfd {
            bfd.count(now, received);
        }
    }

    pub(crate) fn needs_count(&self) -> bool {
        self.bfd.as_ref().is_some_and(Bfd::needs_count)
    }

    /// Does what is due, and sends frames.
    pub(crate) fn run(&mut self, now: Instant, mut send: impl FnMut(Outgoing)) {
        if let Some(bfd) = &mut self.bfd {
            if let Some(bfd::Frame { bytes, oam }) = bfd.send(now, self.mac) {
                send(Outgoing { bytes, oam });
            }
            bfd.run(now);
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.bfd.as_ref().map(Bfd::next_timeout)
    }

    pub(crate) fn take_changed(&mut self) -> bool {
        let bfd = self.bfd.as_mut().is_some_and(Bfd::take_changed);
        std::mem::take(&mut self.is_changed) | bfd
    }

    pub(crate) fn report(&self) -> Report {
        let bfd = self.bfd.as_ref().map(|bfd| bfd.status().to_vec());
        Report { is_alive: self.is_alive(), bfd: bfd.unwrap_or_default() }
    }

    pub(crate) fn take_lines(&mut self) -> Vec<Line> {
        self.bfd.as_mut().map(Bfd::take_lines).unwrap_or_default()
    }
}
