//! Hands frames to the worker of the generator that owns their connections, whichever queue the device chose.

use crate::link::Link;
use generator::{Role, Shares};
use packet::{Batch, Pool};
use port::memory::{MemoryPort, MemoryRx, MemoryTx};
use port::{PortError, RxQueue, TxQueue};
use std::os::fd::RawFd;

/// Frames that may wait for a worker.
const DEPTH: usize = 8192;

/// A worker's receive queue: its own frames from its port queue, and those that other workers hand over.
struct Steered {
    rx: Box<dyn RxQueue>,
    shares: Shares,
    side: Role,
    worker: usize,
    handed: MemoryRx,
    /// One queue per worker; the worker's own is never used.
    to: Vec<MemoryTx>,
    arrived: Batch,
    away: Vec<Batch>,
}

/// The links of all workers on one side, with their frames steered to the owning worker.
pub fn steer(links: Vec<Link>, shares: Shares, side: Role) -> Vec<Link> {
    if links.len() < 2 {
        return links;
    }
    let handovers: Vec<(MemoryPort, MemoryPort)> =
        links.iter().map(|_| MemoryPort::pair(DEPTH)).collect();
    let steered = |(worker, link): (usize, Link)| Link {
        rx: Box::new(Steered {
            rx: link.rx,
            shares,
            side,
            worker,
            handed: handovers[worker].0.rx(),
            to: handovers.iter().map(|(_, far)| far.tx()).collect(),
            arrived: Batch::new(),
            away: handovers.iter().map(|_| Batch::new()).collect(),
        }),
        tx: link.tx,
    };
    links.into_iter().enumerate().map(steered).collect()
}

impl RxQueue for Steered {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        self.handed.receive(pool, batch)?;
        if !batch.is_empty() {
            return Ok(());
        }
        self.rx.receive(pool, &mut self.arrived)?;
        for packet in self.arrived.drain(..) {
            // A frame without an owner is processed by the worker that received it.
            let owner = self.shares.owner(packet.data(), self.side).unwrap_or(self.worker);
            match self.away.get_mut(owner) {
                Some(away) if owner != self.worker => away.push(packet),
                _ => batch.push(packet),
            }
        }
        for (tx, away) in self.to.iter_mut().zip(&mut self.away) {
            if !away.is_empty() {
                // Frames that do not fit are lost, as in a full ring of the port.
                let _ = tx.send(pool, away);
            }
        }
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dut::link;
    use generator::Profile;

    /// An IPv4 frame to this address.
    fn frame(pool: &mut Pool, to: [u8; 4]) -> packet::Packet {
        let mut bytes = [0; 60];
        bytes[12] = 0x08;
        bytes[30..34].copy_from_slice(&to);
        let mut packet = pool.take();
        packet.receive_area()[..60].copy_from_slice(&bytes);
        packet.set_received(60, packet::Offload::default());
        packet
    }

    #[test]
    fn frames_reach_the_worker_whose_they_are() {
        let profile =
            Profile { clients: "16.0.0.0-16.0.0.3".parse().unwrap(), ..Profile::default() };
        let shares = Shares::new(&profile, 2, None);
        let cables = [MemoryPort::pair(64), MemoryPort::pair(64)];
        let links = cables.iter().map(|(near, _)| link(near)).collect();
        let mut links = steer(links, shares, Role::Client);
        let mut pool = Pool::new(64);
        // Six frames at worker 0: four of its own, one of worker 1, and one without an owner.
        for last in [0, 1, 3, 0, 1, 200] {
            cables[0].1.push(frame(&mut pool, [16, 0, 0, last])).unwrap();
        }
        let mut seen = |worker: usize| {
            let mut batch = Batch::new();
            links[worker].rx.receive(&mut pool, &mut batch).unwrap();
            batch.drain(..).map(|packet| packet.data()[33]).collect::<Vec<_>>()
        };
        assert_eq!(seen(1), [0u8; 0]);
        assert_eq!(seen(0), [0, 1, 0, 1, 200]);
        assert_eq!(seen(1), [3]);
        assert_eq!(seen(0), [0u8; 0]);
    }
}
