//! Counters of a ring and of a port.

use std::sync::atomic::{AtomicU64, Ordering};

/// The upper limits of the classes of frame sizes, in bytes, FCS excluded; the last class has none (ovs:
/// `lib/netdev-dpdk.c`, `netdev_dpdk_vhost_get_stats`).
const SIZES: [usize; 6] = [64, 127, 255, 511, 1023, 1518];

/// The counters of one ring. Only the thread that holds the ring writes them.
#[derive(Debug, Default)]
pub struct RingCounters {
    packets: AtomicU64,
    bytes: AtomicU64,
    broadcast: AtomicU64,
    multicast: AtomicU64,
    /// Frames shorter than 64 bytes.
    undersize: AtomicU64,
    sizes: [AtomicU64; SIZES.len() + 1],
    notifications: AtomicU64,
    suppressed: AtomicU64,
}

/// A copy of [`RingCounters`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingCounts {
    /// Packets that passed.
    pub packets: u64,
    /// Their bytes, without headers of the ring.
    pub bytes: u64,
    /// Of these, packets to all stations.
    pub broadcast: u64,
    /// Packets to groups.
    pub multicast: u64,
    /// Packets that are shorter than 64 bytes.
    pub undersize: u64,
    /// Packets by size: 64, up to 127, 255, 511, 1023 and 1518 bytes, and longer ones.
    pub sizes: [u64; SIZES.len() + 1],
    /// Notifications of the guest.
    pub notifications: u64,
    /// Bursts of which the guest did not want to be notified.
    pub suppressed: u64,
}

/// Frames that are shorter belong to no class (DPDK: `lib/vhost/virtio_net.c`, `vhost_queue_stats_update`).
const LEAST: usize = SIZES[0];

fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// The sums of a burst.
#[derive(Clone, Copy, Debug, Default)]
pub struct Burst(RingCounts);

impl Burst {
    /// Counts a frame.
    #[inline]
    pub fn count(&mut self, frame: &[u8]) {
        let counts = &mut self.0;
        counts.packets += 1;
        counts.bytes += frame.len() as u64;
        if let Some(first) = frame.first()
            && first & 1 != 0
        {
            let is_broadcast = frame.get(..6) == Some(&[0xff; 6]);
            let which = if is_broadcast { &mut counts.broadcast } else { &mut counts.multicast };
            *which += 1;
        }
        counts.undersize += u64::from(frame.len() < LEAST);
        let class = SIZES.iter().take_while(|size| frame.len() > **size).count();
        counts.sizes[class] += u64::from(frame.len() >= LEAST);
    }

    /// Counts a notification that the guest wanted or not.
    #[inline]
    pub fn count_notification(&mut self, is_wanted: bool) {
        let counts = &mut self.0;
        *(if is_wanted { &mut counts.notifications } else { &mut counts.suppressed }) += 1;
    }

    /// Packets so far.
    pub fn packets(&self) -> u64 {
        self.0.packets
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }
}

impl RingCounters {
    /// Adds a burst.
    pub fn add(&self, burst: &Burst) {
        let counts = &burst.0;
        // A burst of invalid frames may end with a notification.
        if counts.packets + counts.notifications + counts.suppressed == 0 {
            return;
        }
        add(&self.packets, counts.packets);
        add(&self.bytes, counts.bytes);
        for (counter, more) in [
            (&self.broadcast, counts.broadcast),
            (&self.multicast, counts.multicast),
            (&self.undersize, counts.undersize),
            (&self.notifications, counts.notifications),
            (&self.suppressed, counts.suppressed),
        ] {
            if more > 0 {
                add(counter, more);
            }
        }
        for (counter, more) in self.sizes.iter().zip(counts.sizes) {
            if more > 0 {
                add(counter, more);
            }
        }
    }

    /// A copy.
    pub fn read(&self) -> RingCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RingCounts {
            packets: read(&self.packets),
            bytes: read(&self.bytes),
            broadcast: read(&self.broadcast),
            multicast: read(&self.multicast),
            undersize: read(&self.undersize),
            sizes: self.sizes.each_ref().map(read),
            notifications: read(&self.notifications),
            suppressed: read(&self.suppressed),
        }
    }
}

impl std::ops::AddAssign for RingCounts {
    fn add_assign(&mut self, more: RingCounts) {
        self.packets += more.packets;
        self.bytes += more.bytes;
        self.broadcast += more.broadcast;
        self.multicast += more.multicast;
        self.undersize += more.undersize;
        self.notifications += more.notifications;
        self.suppressed += more.suppressed;
        self.sizes.iter_mut().zip(more.sizes).for_each(|(count, more)| *count += more);
    }
}

/// Packets of a port that were lost, and retries.
#[derive(Debug, Default)]
pub struct Losses {
    /// Frames of the guest that are invalid.
    pub rx_errors: AtomicU64,
    /// Packets for which the guest has no room.
    pub tx_dropped: AtomicU64,
    /// Packets longer than the MTU.
    pub tx_mtu_exceeded: AtomicU64,
    /// Packets that cannot be segmented or do not fit into the guest's buffers.
    pub tx_errors: AtomicU64,
    /// Retries of sending.
    pub tx_retries: AtomicU64,
}

impl Losses {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, more: u64) {
        if more > 0 {
            counter.fetch_add(more, Ordering::Relaxed);
        }
    }
}
