//! No device: a cable in memory between client and server.

use super::cores::Cores;
use super::patch::Patch;
use super::{Device, Place};
use crate::error::LoadError;
use crate::link::Link;
use packet::{Batch, Pool};
use port::{MemoryPort, PortError, RxQueue};
use serde_json::{Value, json};
use std::os::fd::RawFd;

/// Packets that a port in memory holds, as many as the published receive rings.
pub const DEPTH: usize = 4096;

/// A cable.
#[derive(Debug)]
pub struct Cable {
    /// The kind of its ports.
    pub ports: &'static str,
    /// The thread that forwards its packets, where the ports do not.
    pub _patch: Option<Patch>,
}

impl Device for Cable {
    fn describe(&self) -> Value {
        json!({ "kind": "none", "ports": self.ports })
    }

    fn table(&mut self) -> Result<Option<u64>, LoadError> {
        // A cable has no table.
        Ok(Some(0))
    }
}

/// Cables in memory, one for each worker of the generator. They are deep enough that a thread can fill one
/// before it empties it.
pub fn memory(generators: usize) -> Place {
    let cable = || {
        let (client, server) = MemoryPort::pair(16 * DEPTH);
        (link(&client), link(&server))
    };
    let (client, server) = cable();
    let device = Box::new(Cable { ports: "memory", _patch: None });
    let mut place = Place::of(device, Some(client), Some(server));
    place.more.extend((1..generators).map(|_| cable()));
    if generators > 1 {
        place.cores = Cores::new(0, generators);
    }
    place
}

/// Both queues of this end.
pub fn link(port: &MemoryPort) -> Link {
    Link { rx: Box::new(port.rx()), tx: Box::new(port.tx()) }
}

/// An empty receive queue, for a worker of the generator that only sends.
#[derive(Debug)]
pub struct Silent;

impl RxQueue for Silent {
    fn receive(&mut self, _: &mut Pool, _: &mut Batch) -> Result<(), PortError> {
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        None
    }
}
