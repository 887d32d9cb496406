//! The queue of upcalls between the workers and those who answer: bounded and fair.
//!
//! Upcalls wait by class and port, each list bounded, and are served in turn (deficit round robin
//! with a quantum of one, since an upcall costs about the same whatever its size). A storm from one
//! port, or of ARP, fills its own list and takes its own share of the turns. Where the whole queue is
//! full, the longest list loses its newest upcall to one that arrives for a shorter list, so that no
//! number of storms keeps others out.

use base::PortNo;
use base::limits::{UPCALLS, UPCALLS_PER_PORT};
use flow::{FlowKey, Upcall, UpcallKind};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What kind of upcall: each kind gets its own turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    /// LACP, CFM, spanning tree and their like, and BFD.
    Control,
    /// ARP and IPv6 neighbor discovery.
    Neighbor,
    /// The first packet of a TCP connection.
    TcpSyn,
    /// Other IP packets for one host.
    Ip,
    /// What goes to many.
    Multicast,
    Other,
    /// What a flow sends to a controller.
    Controller,
}

impl Class {
    fn of(kind: &UpcallKind, key: &FlowKey) -> Class {
        /// SYN without ACK.
        const SYN: u16 = 0x02;
        const SYN_ACK: u16 = 0x12;
        if matches!(kind, UpcallKind::Controller(_)) {
            return Class::Controller;
        }
        let (destination, protocol) = (key.eth_dst(), key.nw_proto());
        match key.eth_type() {
            _ if destination.is_reserved() => Class::Control,
            0x8809 | 0x8902 => Class::Control,
            0x0806 | 0x8035 => Class::Neighbor,
            0x86dd if protocol == 58 && (133..=137).contains(&key.tp_src()) => Class::Neighbor,
            0x0800 | 0x86dd => match (protocol, key.tp_dst()) {
                (17, 3784 | 3785 | 4784) => Class::Control,
                _ if destination.is_multicast() => Class::Multicast,
                (6, _) if key.tcp_flags() & SYN_ACK == SYN => Class::TcpSyn,
                _ => Class::Ip,
            },
            _ if destination.is_multicast() => Class::Multicast,
            _ => Class::Other,
        }
    }
}

/// The upcalls of one class from one port.
#[derive(Debug)]
struct PortQueue {
    class: Class,
    port: PortNo,
    waiting: VecDeque<Upcall>,
    dropped: u64,
}

#[derive(Debug, Default)]
struct PortQueues {
    queues: Vec<PortQueue>,
    /// The number of upcalls that wait or have their room reserved, per queue.
    lengths: Vec<usize>,
    turn: usize,
    /// How many wait in all, and with those whose room is reserved.
    waiting: usize,
    total: usize,
}

/// Shared by all workers, who push, and by those who answer, who pop.
#[derive(Debug, Default)]
pub struct UpcallQueue {
    queues: Mutex<PortQueues>,
}

/// The queue was full; the upcall was dropped and counted against its port.
#[derive(Debug, PartialEq, Eq)]
pub struct QueueFull;

/// Room for an upcall, which must be used.
#[derive(Debug)]
#[must_use]
pub struct Reserved {
    class: Class,
    port: PortNo,
    /// The upcall that lost its place, if one did.
    pub evicted: Option<Upcall>,
}

impl UpcallQueue {
    /// An empty queue.
    pub fn new() -> Self {
        UpcallQueue::default()
    }

    /// Finds out whether there is room for an upcall about a packet with this key, before anything is
    /// copied for it.
    pub fn reserve(&self, kind: &UpcallKind, key: &FlowKey) -> Result<Reserved, QueueFull> {
        let (class, port) = (Class::of(kind, key), key.in_port());
        let mut queues = self.lock();
        let queue = queues.queue(class, port);
        let length = queues.lengths[queue];
        let longest = match queues.total >= UPCALLS {
            true => queues.longest().filter(|longest| queues.lengths[*longest] > length + 1),
            false => None,
        };
        if length >= UPCALLS_PER_PORT || (queues.total >= UPCALLS && longest.is_none()) {
            queues.queues[queue].dropped += 1;
            return Err(QueueFull);
        }
        let evicted = longest.and_then(|longest| queues.drop_newest(longest));
        queues.lengths[queue] += 1;
        queues.total += 1;
        Ok(Reserved { class, port, evicted })
    }

    /// Adds an upcall whose room was reserved. Says whether the queue was empty, so that those who pop
    /// must be woken.
    pub fn push(&self, reserved: &Reserved, upcall: Upcall) -> bool {
        let mut queues = self.lock();
        let known = queues.find(reserved.class, reserved.port);
        // The port went meanwhile, and the room with it.
        let Some(queue) =
            known.filter(|&queue| queues.lengths[queue] > queues.queues[queue].waiting.len())
        else {
            return false;
        };
        queues.queues[queue].waiting.push_back(upcall);
        queues.waiting += 1;
        queues.waiting == 1
    }

    /// Takes up to `budget` upcalls, one from each list in turn.
    pub fn pop(&self, budget: usize, out: &mut Vec<Upcall>) {
        let mut queues = self.lock();
        let mut left = budget.min(queues.waiting);
        while left > 0 {
            let turn = queues.turn % queues.queues.len();
            queues.turn = turn + 1;
            if let Some(upcall) = queues.queues[turn].waiting.pop_front() {
                out.push(upcall);
                queues.lengths[turn] -= 1;
                queues.waiting -= 1;
                queues.total -= 1;
                left -= 1;
            }
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lock().waiting == 0
    }

    /// Upcalls dropped because there was no room, by port.
    pub fn dropped(&self) -> Vec<(PortNo, u64)> {
        let queues = self.lock();
        let mut by_port: Vec<(PortNo, u64)> = Vec::new();
        for queue in queues.queues.iter().filter(|queue| queue.dropped > 0) {
            match by_port.iter_mut().find(|(port, _)| *port == queue.port) {
                Some((_, count)) => *count += queue.dropped,
                None => by_port.push((queue.port, queue.dropped)),
            }
        }
        by_port
    }

    /// Forgets a port that is no more, with what waits for it.
    pub fn remove_port(&self, port: PortNo) {
        self.lock().retain(|queue| queue.port != port);
    }

    /// A thread that panicked while it held the lock left plain data behind, which is still good.
    fn lock(&self) -> MutexGuard<'_, PortQueues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PortQueues {
    fn find(&self, class: Class, port: PortNo) -> Option<usize> {
        self.queues.iter().position(|queue| queue.class == class && queue.port == port)
    }

    fn queue(&mut self, class: Class, port: PortNo) -> usize {
        self.find(class, port).unwrap_or_else(|| {
            self.queues.push(PortQueue { class, port, waiting: VecDeque::new(), dropped: 0 });
            self.lengths.push(0);
            self.queues.len() - 1
        })
    }

    /// The longest list in which something waits.
    fn longest(&self) -> Option<usize> {
        let lengths = self.lengths.iter().enumerate();
        let longest = lengths.max_by_key(|(_, length)| **length).map(|(queue, _)| queue)?;
        (!self.queues[longest].waiting.is_empty()).then_some(longest)
    }

    fn drop_newest(&mut self, queue: usize) -> Option<Upcall> {
        let upcall = self.queues[queue].waiting.pop_back()?;
        self.queues[queue].dropped += 1;
        self.lengths[queue] -= 1;
        self.waiting -= 1;
        self.total -= 1;
        Some(upcall)
    }

    fn retain(&mut self, keep: impl Fn(&PortQueue) -> bool) {
        let lengths = self.lengths.iter().zip(&self.queues);
        self.lengths =
            lengths.filter(|(_, queue)| keep(queue)).map(|(length, _)| *length).collect();
        self.queues.retain(keep);
        self.waiting = self.queues.iter().map(|queue| queue.waiting.len()).sum();
        self.total = self.lengths.iter().sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Instant, MacAddr, WorkerId};
    use flow::Field;
    use packet::Packet;

    fn key(port: u32, eth_type: u16) -> FlowKey {
        let mut key = FlowKey::new();
        key.set_in_port_raw(port);
        key.set_eth_type(eth_type);
        key
    }

    /// Puts an upcall into the queue; gives whether to wake those who answer, and which port's upcall had
    /// to go.
    fn push(
        queue: &UpcallQueue,
        port: u32,
        eth_type: u16,
    ) -> Result<(bool, Option<u32>), QueueFull> {
        let key = key(port, eth_type);
        let reserved = queue.reserve(&UpcallKind::Miss, &key)?;
        let upcall = Upcall {
            worker: WorkerId(0),
            kind: UpcallKind::Miss,
            packet: Packet::from_bytes(&[0; 14]),
            key,
            received: Instant::ZERO,
            queued: Instant::ZERO,
            trace: None,
        };
        let wake = queue.push(&reserved, upcall);
        Ok((wake, reserved.evicted.map(|upcall| upcall.key.in_port().0)))
    }

    fn ports(queue: &UpcallQueue, budget: usize) -> Vec<(u32, u16)> {
        let mut out = Vec::new();
        queue.pop(budget, &mut out);
        out.iter().map(|u| (u.key.in_port().0, u.key.eth_type())).collect()
    }

    #[test]
    fn a_storm_takes_only_its_own_share() {
        let queue = UpcallQueue::new();
        for _ in 0..2 * UPCALLS_PER_PORT {
            let _ = push(&queue, 1, 0x806);
        }
        assert_eq!(queue.dropped(), [(PortNo(1), UPCALLS_PER_PORT as u64)]);
        assert_eq!(push(&queue, 1, 0x800), Ok((false, None)));
        assert_eq!(push(&queue, 2, 0x800), Ok((false, None)));
        let first = ports(&queue, 3);
        assert!(first.contains(&(1, 0x800)) && first.contains(&(2, 0x800)), "{first:?}");
    }

    #[test]
    fn sixteen_storms_do_not_keep_another_port_out() {
        let queue = UpcallQueue::new();
        let storms = (UPCALLS / UPCALLS_PER_PORT) as u32;
        for port in 1..=storms {
            for _ in 0..UPCALLS_PER_PORT {
                assert!(push(&queue, port, 0x800).is_ok());
            }
        }
        let Ok((false, Some(loser))) = push(&queue, 99, 0x800) else { panic!("there is no room") };
        assert_eq!(queue.dropped(), [(PortNo(loser), 1)]);
        // The port has its share as soon as it has as many as any other.
        let got = (0..UPCALLS).filter(|_| push(&queue, 99, 0x800).is_ok()).count() + 1;
        let share = UPCALLS / (storms as usize + 1);
        assert!((share - 1..=share + 1).contains(&got), "{got} of {share}");
        // No storm gets that back from it.
        (1..=storms).for_each(|port| drop(push(&queue, port, 0x800)));
        let all = ports(&queue, UPCALLS);
        assert_eq!((all.len(), all.iter().filter(|(port, _)| *port == 99).count()), (UPCALLS, got));
    }

    #[test]
    fn room_that_is_reserved_counts_and_goes_with_its_port() {
        let queue = UpcallQueue::new();
        let first = key(1, 0x800);
        let reserved: Vec<Reserved> = (0..UPCALLS_PER_PORT)
            .map(|_| queue.reserve(&UpcallKind::Miss, &first).unwrap())
            .collect();
        assert!(queue.is_empty());
        assert_eq!(push(&queue, 1, 0x800), Err(QueueFull));
        queue.remove_port(PortNo(1));
        assert_eq!(push(&queue, 1, 0x800), Ok((true, None)));
        drop(reserved);
    }

    #[test]
    fn classes_have_turns_of_their_own() {
        let with = |eth_type, fields: &[(Field, u128)]| {
            let mut key = key(1, eth_type);
            key.set(Field::EthDst, MacAddr([2, 0, 0, 0, 0, 1]).to_u64().into());
            fields.iter().for_each(|(field, value)| key.set(*field, *value));
            Class::of(&UpcallKind::Miss, &key)
        };
        use Field::{EthDst, NwProto, TcpFlags, TpDst, TpSrc};
        let cases = [
            (with(0x8809, &[]), Class::Control),
            (with(0x88cc, &[(EthDst, 0x0180_c200_000e)]), Class::Control),
            (with(0x0800, &[(NwProto, 17), (TpDst, 3784)]), Class::Control),
            (with(0x0806, &[(EthDst, 0xffff_ffff_ffff)]), Class::Neighbor),
            (with(0x86dd, &[(NwProto, 58), (TpSrc, 135)]), Class::Neighbor),
            (with(0x86dd, &[(NwProto, 58), (TpSrc, 128)]), Class::Ip),
            (with(0x0800, &[(NwProto, 6), (TcpFlags, 0x02)]), Class::TcpSyn),
            (with(0x0800, &[(NwProto, 6), (TcpFlags, 0x12)]), Class::Ip),
            (with(0x0800, &[(EthDst, 0x0100_5e00_0001)]), Class::Multicast),
            (with(0x88b5, &[(EthDst, 0xffff_ffff_ffff)]), Class::Multicast),
            (with(0x88b5, &[]), Class::Other),
        ];
        for (index, (got, expect)) in cases.into_iter().enumerate() {
            assert_eq!(got, expect, "case {index}");
        }
    }

    #[test]
    fn says_when_to_wake_and_forgets_ports() {
        let queue = UpcallQueue::new();
        assert_eq!(push(&queue, 1, 0x800), Ok((true, None)));
        assert_eq!(push(&queue, 2, 0x800), Ok((false, None)));
        queue.remove_port(PortNo(1));
        assert_eq!(ports(&queue, 9), [(2, 0x800)]);
        assert!(queue.is_empty());
        assert_eq!(push(&queue, 2, 0x800), Ok((true, None)));
    }
}
