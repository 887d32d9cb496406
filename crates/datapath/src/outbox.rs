//! What a worker wants sent: packets by port, and its answers to the control side.

use base::PortNo;
use flow::FlowDump;
use packet::Packet;

/// Filled by [`crate::Worker`], emptied by the loop that owns the ports. Keeps its room from batch
/// to batch, so that filling it allocates nothing.
#[derive(Debug, Default)]
pub struct Outbox {
    ports: Vec<(PortNo, Vec<Packet>)>,
    /// Answers to [`flow::FlowCommand::Collect`].
    pub dumps: Vec<FlowDump>,
    /// The queue of misses was empty and is no longer: wake the control side.
    pub wake_control: bool,
}

impl Outbox {
    /// An empty outbox.
    pub fn new() -> Self {
        Outbox::default()
    }

    /// Adds a packet for `port`, behind those that wait for it already.
    pub fn push(&mut self, port: PortNo, packet: Packet) {
        self.list(port).push(packet);
    }

    /// Adds packets for `port`, behind those that wait for it already.
    pub fn extend(&mut self, port: PortNo, packets: impl Iterator<Item = Packet>) {
        self.list(port).extend(packets);
    }

    fn list(&mut self, port: PortNo) -> &mut Vec<Packet> {
        let slot = match self.ports.iter().position(|(known, _)| *known == port) {
            Some(slot) => slot,
            None => {
                self.ports.push((port, Vec::with_capacity(base::limits::BATCH_SIZE)));
                self.ports.len() - 1
            }
        };
        &mut self.ports[slot].1
    }

    /// The ports with the packets that wait for each; the taker empties the lists.
    pub fn ports_mut(&mut self) -> impl Iterator<Item = (PortNo, &mut Vec<Packet>)> {
        self.ports.iter_mut().filter(|(_, list)| !list.is_empty()).map(|(port, list)| (*port, list))
    }

    /// Forgets a port that is no more.
    pub fn remove_port(&mut self, port: PortNo) {
        self.ports.retain(|(known, _)| *known != port);
    }
}
