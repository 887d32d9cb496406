//! All queues of a port as one: the one measuring thread serves all of them, and both directions of a flow
//! use the same queue, as with a symmetric hash of a network card.

use load::link::Link;
use packet::{Batch, Pool};
use port::{PortError, RxQueue, TxCounters, TxQueue};

use std::ops::Range;
use std::os::fd::RawFd;

/// Bytes of an Ethernet header, and of a VLAN tag in it.
const ETHERNET: usize = 14;
const TAG: usize = 4;

/// Joins the queues of a port; `None` if there is none.
pub fn joined(mut links: Vec<Link>) -> Option<Link> {
    if links.len() < 2 {
        return links.pop();
    }
    let (rx, tx): (Vec<_>, Vec<_>) = links.into_iter().map(|link| (link.rx, link.tx)).unzip();
    let apart = tx.iter().map(|_| Batch::new()).collect();
    Some(Link { rx: Box::new(Rx { all: rx, next: 0 }), tx: Box::new(Tx { all: tx, apart }) })
}

struct Rx {
    all: Vec<Box<dyn RxQueue>>,
    /// The next queue to receive from, so that none starves.
    next: usize,
}

impl RxQueue for Rx {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        for _ in 0..self.all.len() {
            let at = self.next;
            self.next = (at + 1) % self.all.len();
            self.all[at].receive(pool, batch)?;
            if !batch.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        // Several queues cannot be waited for together, but no thread sleeps on them here.
        None
    }
}

struct Tx {
    all: Vec<Box<dyn TxQueue>>,
    apart: Vec<Batch>,
}

impl TxQueue for Tx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        for packet in batch.drain(..) {
            let queue = flow_hash(packet.data()) as usize % self.apart.len();
            self.apart[queue].push(packet);
        }
        let mut all = TxCounters::default();
        for (tx, batch) in self.all.iter_mut().zip(&mut self.apart) {
            if !batch.is_empty() {
                all += tx.send(pool, batch);
            }
        }
        all
    }
}

/// A symmetric hash of the flow; 0 for anything but TCP or UDP without options.
fn flow_hash(frame: &[u8]) -> u32 {
    let tagged = frame.get(12..14) == Some(&[0x81, 0x00]);
    let start = ETHERNET + if tagged { TAG } else { 0 };
    let addresses = match frame.get(start - 2..start) {
        Some([0x08, 0x00]) => start + 12..start + 20,
        Some([0x86, 0xdd]) => start + 8..start + 40,
        _ => return 0,
    };
    let ports = addresses.end..addresses.end + 4;
    let words = |range: Range<usize>| frame.get(range).unwrap_or_default().chunks_exact(2);
    // A sum is symmetric.
    let word = |pair: &[u8]| pair.iter().fold(0u32, |all, &byte| all << 8 | u32::from(byte));
    let sum: u32 = words(addresses).chain(words(ports)).map(word).sum();
    // The upper bits of the product depend on all bits of the sum.
    sum.wrapping_mul(0x9e37_79b1) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::dut::link;
    use port::MemoryPort;

    /// A frame of this flow, with only the hashed fields set.
    fn frame(is_v6: bool, vlan: bool, ends: (u8, u16), others: (u8, u16)) -> Vec<u8> {
        let mut frame = vec![2; 12];
        if vlan {
            frame.extend([0x81, 0x00, 0, 7]);
        }
        frame.extend(if is_v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        frame.resize(frame.len() + if is_v6 { 8 } else { 12 }, 0x45);
        for (address, _) in [ends, others] {
            frame.resize(frame.len() + if is_v6 { 16 } else { 4 }, address);
        }
        for (_, port) in [ends, others] {
            frame.extend(port.to_be_bytes());
        }
        frame.resize(80, 0);
        frame
    }

    #[test]
    fn flows_keep_to_a_queue_in_both_directions_and_use_all() {
        for (is_v6, vlan) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut used = [0; 3];
            for port in 0..600u16 {
                let (one, other) = ((18, 10_000 + port), (19, 1 + port % 7));
                let hash = flow_hash(&frame(is_v6, vlan, one, other));
                assert_eq!(hash, flow_hash(&frame(is_v6, vlan, other, one)));
                used[hash as usize % 3] += 1;
            }
            assert!(used.iter().all(|&count| count > 120), "{used:?}");
        }
        for short in [&[][..], &[0; 13], &[8; 20]] {
            assert_eq!(flow_hash(short), 0);
        }
    }

    #[test]
    fn what_is_sent_arrives_from_whichever_queue() {
        let cables: Vec<_> = (0..3).map(|_| MemoryPort::pair(256)).collect();
        let mut near = joined(cables.iter().map(|(near, _)| link(near)).collect()).unwrap();
        let mut far = joined(cables.iter().map(|(_, far)| link(far)).collect()).unwrap();
        let (mut pool, mut batch) = (Pool::new(256), Batch::new());
        let mut left = 100;
        while left > 0 {
            left -= 1;
            let mut packet = pool.take();
            let frame = frame(false, false, (1, left), (2, 80));
            packet.receive_area()[..frame.len()].copy_from_slice(&frame);
            packet.set_received(frame.len(), packet::Offload::default());
            batch.push(packet);
            if batch.remaining_capacity() == 0 || left == 0 {
                let sent = near.tx.send(&mut pool, &mut batch);
                assert_eq!((sent.dropped, sent.errors), (0, 0));
            }
        }
        let mut arrived = 0;
        for _ in 0..20 {
            far.rx.receive(&mut pool, &mut batch).unwrap();
            arrived += batch.drain(..).map(|packet| pool.give(packet)).count();
        }
        assert_eq!(arrived, 100);
        assert!(joined(Vec::new()).is_none());
    }
}
