//! The output of a worker: packets by port, and messages to the control side.

use base::PortNo;
use flow::FlowDump;
use packet::{Batch, Packet};

/// Filled by [`crate::Worker`], emptied by the loop that owns the ports. It keeps its capacity between
/// batches, so filling it allocates nothing.
#[derive(Debug, Default)]
pub struct Outbox {
    ports: Vec<Waiting>,
    packets: usize,
    /// Replies to [`flow::FlowCommand::Collect`].
    pub dumps: Vec<FlowDump>,
    /// The upcall queue became non-empty: wake the control side.
    pub wake_control: bool,
}

/// Packets for one port, in batches for its transmit queue.
#[derive(Debug)]
struct Waiting {
    port: PortNo,
    /// Batches from index `filling + 1` on are empty; those before `filling` were full when filled.
    batches: Vec<Batch>,
    filling: usize,
}

impl Outbox {
    /// An empty outbox.
    pub fn new() -> Self {
        Outbox::default()
    }

    /// Appends a packet for `port`.
    pub fn push(&mut self, port: PortNo, packet: Packet) {
        self.packets += 1;
        self.waiting(port).room().push(packet);
    }

    /// Takes packets out of their places and appends them for `port`.
    pub fn extend<'a>(&mut self, port: PortNo, packets: impl Iterator<Item = &'a mut Packet>) {
        let waiting = self.waiting(port);
        let mut batch = waiting.room();
        let mut added = 0;
        for packet in packets {
            if batch.is_full() {
                batch = waiting.room();
            }
            batch.push(packet.take());
            added += 1;
        }
        self.packets += added;
    }

    /// Returns the number of packets for all ports since the last [`Outbox::batches_mut`].
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// The waiting packets, by port and in non-empty batches; the caller empties them all.
    pub fn batches_mut(&mut self) -> impl Iterator<Item = (PortNo, &mut Batch)> {
        self.packets = 0;
        self.ports.iter_mut().flat_map(|waiting| {
            let used = (waiting.filling + 1).min(waiting.batches.len());
            waiting.filling = 0;
            let batches = waiting.batches[..used].iter_mut().filter(|batch| !batch.is_empty());
            batches.map(|batch| (waiting.port, batch))
        })
    }

    /// Removes the state of a removed port.
    pub fn remove_port(&mut self, port: PortNo) {
        self.ports.retain(|waiting| waiting.port != port);
    }

    fn waiting(&mut self, port: PortNo) -> &mut Waiting {
        let slot = match self.ports.iter().position(|waiting| waiting.port == port) {
            Some(slot) => slot,
            None => {
                self.ports.push(Waiting { port, batches: vec![Batch::new()], filling: 0 });
                self.ports.len() - 1
            }
        };
        &mut self.ports[slot]
    }
}

impl Waiting {
    /// A batch that is not full.
    fn room(&mut self) -> &mut Batch {
        if self.batches[self.filling].is_full() {
            self.filling += 1;
            if self.filling == self.batches.len() {
                self.batches.push(Batch::new());
            }
        }
        &mut self.batches[self.filling]
    }
}
