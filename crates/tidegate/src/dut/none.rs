//! No device: a cable in memory between client and server.

use super::{Device, Place};
use crate::generate::error::LoadError;
use crate::generate::sides::Link;
use port::MemoryPort;
use serde_json::{Value, json};

/// Packets that a port in memory holds, as many as the published receive rings.
pub const DEPTH: usize = 4096;

/// A cable.
#[derive(Debug)]
pub struct Cable {
    /// What it is made of.
    pub ports: &'static str,
}

impl Device for Cable {
    fn describe(&self) -> Value {
        json!({ "kind": "none", "ports": self.ports })
    }

    fn table(&mut self) -> Result<Option<u64>, LoadError> {
        // A cable keeps nothing.
        Ok(Some(0))
    }
}

/// A cable in memory. It is deep enough for one thread to fill before it empties.
pub fn memory() -> Place {
    let (client, server) = MemoryPort::pair(16 * DEPTH);
    Place {
        device: Box::new(Cable { ports: "memory" }),
        client: Some(link(&client)),
        server: Some(link(&server)),
    }
}

/// Both queues of this end.
pub fn link(port: &MemoryPort) -> Link {
    Link { rx: Box::new(port.rx()), tx: Box::new(port.tx()) }
}
