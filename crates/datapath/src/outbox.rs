//! What a worker wants sent: packets by port, and its answers to the control side.

use base::PortNo;
use flow::FlowDump;
use packet::{Batch, Packet};

/// Filled by [`crate::Worker`], emptied by the loop that owns the ports. Keeps its room from batch
/// to batch, so that filling it allocates nothing.
#[derive(Debug, Default)]
pub struct Outbox {
    ports: Vec<Waiting>,
    /// Answers to [`flow::FlowCommand::Collect`].
    pub dumps: Vec<FlowDump>,
    /// The queue of misses was empty and is no longer: wake the control side.
    pub wake_control: bool,
}

/// What waits for one port, as its transmit queue will take it.
#[derive(Debug)]
struct Waiting {
    port: PortNo,
    /// Those from `filling` on are empty; those before it were full when they were left.
    batches: Vec<Batch>,
    filling: usize,
}

impl Outbox {
    /// An empty outbox.
    pub fn new() -> Self {
        Outbox::default()
    }

    /// Adds a packet for `port`, behind those that wait for it already.
    pub fn push(&mut self, port: PortNo, packet: Packet) {
        self.waiting(port).room().push(packet);
    }

    /// Takes packets out of their places for `port`, behind those that wait for it already.
    pub fn extend<'a>(&mut self, port: PortNo, packets: impl Iterator<Item = &'a mut Packet>) {
        let waiting = self.waiting(port);
        let mut batch = waiting.room();
        for packet in packets {
            if batch.is_full() {
                batch = waiting.room();
            }
            batch.push(packet.take());
        }
    }

    /// The packets that wait, by port and in batches of which none is empty; the taker empties
    /// them all.
    pub fn batches_mut(&mut self) -> impl Iterator<Item = (PortNo, &mut Batch)> {
        self.ports.iter_mut().flat_map(|waiting| {
            let used = (waiting.filling + 1).min(waiting.batches.len());
            waiting.filling = 0;
            let batches = waiting.batches[..used].iter_mut().filter(|batch| !batch.is_empty());
            batches.map(|batch| (waiting.port, batch))
        })
    }

    /// Forgets a port that is no more.
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
