//! Counters of conntrack's events: why packets were invalid and connections refused.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A counted event.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Event {
            $($(#[$doc])* $name,)*
        }

        impl Event {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Event] = &[$(Event::$name,)*];

            /// The counter's name: Open vSwitch's where it counts the same.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Event::$name => $text,)*
                }
            }
        }
    };
}

events! {
    /// Invalid: neither IPv4 nor IPv6.
    NotIp = "conntrack_not_ip",
    /// Invalid: a header is cut short or a length in it lies.
    Truncated = "conntrack_truncated",
    /// Invalid: a fragment that was not reassembled.
    Fragment = "conntrack_fragment_invalid",
    /// Invalid: wrong IPv4 header checksum.
    L3Checksum = "conntrack_l3csum_err",
    /// Invalid: wrong TCP, UDP, ICMP or ICMPv6 checksum, or SCTP CRC.
    L4Checksum = "conntrack_l4csum_err",
    /// Invalid: TCP, UDP or SCTP port 0.
    PortZero = "conntrack_port_zero",
    /// Invalid: an ICMP or ICMPv6 message that is neither query nor error, as neighbour discovery
    /// is not.
    IcmpType = "conntrack_icmp_type",
    /// Invalid: the packet that an ICMP error quotes cannot be one that its receiver sent.
    IcmpQuote = "conntrack_icmp_quote",
    /// Invalid: an ICMP error about a connection that is not known.
    RelatedUnknown = "conntrack_related_unknown",
    /// Invalid: an ICMP error quotes a TCP sequence number or an SCTP verification tag that its
    /// receiver cannot have sent.
    IcmpForged = "conntrack_icmp_forged",
    /// Invalid: TCP flags that do not go together.
    TcpFlags = "conntrack_invalid_tcp_flags",
    /// Invalid: a SYN with ACK of a connection that is not known.
    TcpNewSynAck = "conntrack_tcp_new_synack",
    /// Invalid: SCTP chunks that are broken or do not go together.
    SctpChunks = "conntrack_sctp_chunks",
    /// Invalid: an SCTP verification tag that is not the association's.
    SctpTag = "conntrack_sctp_tag",
    /// Invalid: an SCTP packet of an association that is not known and can't be picked up by it.
    SctpNew = "conntrack_sctp_new",
    /// Invalid: an ICMP reply to a query that is not known.
    IcmpNewReply = "conntrack_icmp_new_reply",
    /// Invalid: TCP sequence or acknowledgement number outside the window.
    TcpWindow = "conntrack_tcp_seq_chk_failed",
    /// Valid only because TCP sequence numbers are not checked.
    TcpWindowBypassed = "conntrack_tcp_seq_chk_bypass",
    /// A connection was not created: the maximum is reached, or only the reserve for small zones is
    /// left, and no connection may be dropped for it.
    Full = "conntrack_full",
    /// A connection was not created: the zone is at its limit, and has none that may be dropped.
    ZoneFull = "conntrack_zone_full",
    /// A connection was not created: too many records of ended connections wait for reuse, since a
    /// thread is delayed inside a guard.
    RecordsWait = "conntrack_records_wait",
    /// The system refused membarrier(2), without which no record is reused.
    FenceRefused = "conntrack_fence_refused",
    /// A connection was not created: NAT has no free tuple.
    NatExhausted = "conntrack_nat_exhausted",
    /// A connection was not created: another connection has the tuple of its replies.
    TupleTaken = "conntrack_tuple_taken",
    /// A packet after NAT has no connection.
    NattedMiss = "conntrack_lookup_natted_miss",
    /// Invalid: a control connection announces a data connection in an unknown form, or with an
    /// endpoint of another host.
    HelperRefused = "conntrack_helper_refused",
    /// A connection with a helper carries another protocol, or encrypted text, as after FTP's AUTH
    /// TLS. The ALG ignores it from there on.
    HelperOff = "conntrack_helper_off",
    /// A connection was made.
    Created = "conntrack_created",
    /// A connection expired.
    Expired = "conntrack_expired",
    /// A connection was replaced by a new one with its tuple: a SYN after its end, or `force`.
    Replaced = "conntrack_replaced",
    /// Early drop of a closed TCP connection.
    EvictedClosed = "conntrack_evicted_closed",
    /// Early drop of a connection that was never answered, half-open or of one side only.
    EvictedUnanswered = "conntrack_evicted_unanswered",
    /// Early drop of a connection that was answered without a handshake (UDP, ICMP and all others
    /// but TCP and SCTP).
    EvictedAnswered = "conntrack_evicted_answered",
    /// A connection was flushed.
    Flushed = "conntrack_flushed",
}

/// A count for each event.
#[derive(Clone, Debug)]
pub struct Counters {
    counts: [u64; Event::ALL.len()],
    /// A bit for each counter that is not zero.
    counted: u64,
}

const _: () = assert!(Event::ALL.len() <= 64);

impl PartialEq for Counters {
    fn eq(&self, other: &Self) -> bool {
        self.counts == other.counts
    }
}

impl Eq for Counters {}

impl Counters {
    /// All at zero.
    pub const fn new() -> Self {
        Counters { counts: [0; Event::ALL.len()], counted: 0 }
    }

    /// The count of `event`.
    pub fn get(&self, event: Event) -> u64 {
        self.counts[event as usize]
    }

    /// Each event with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Event, u64)> + '_ {
        Event::ALL.iter().map(|&event| (event, self.get(event)))
    }

    #[inline]
    pub(crate) fn count(&mut self, event: Event) {
        self.count_many(event, 1);
    }

    #[inline]
    pub(crate) fn count_many(&mut self, event: Event, times: u64) {
        self.counts[event as usize] += times;
        self.counted |= 1 << event as usize;
    }

    /// Takes back one [`Counters::count`] of the same batch.
    pub(crate) fn uncount(&mut self, event: Event) {
        let count = &mut self.counts[event as usize];
        *count = count.saturating_sub(1);
    }

    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: &Counters) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.counted |= other.counted;
    }

    #[inline]
    pub(crate) fn is_zero(&self) -> bool {
        self.counted == 0
    }
}

/// Counters that one thread adds to and others read.
#[derive(Debug)]
pub(crate) struct SharedCounters([AtomicU64; Event::ALL.len()]);

impl SharedCounters {
    pub fn new() -> Self {
        SharedCounters(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Moves the counts of the one owning thread here, and clears them.
    #[inline]
    pub fn take(&self, counters: &mut Counters) {
        let mut counted = std::mem::take(&mut counters.counted);
        while counted != 0 {
            let at = counted.trailing_zeros() as usize;
            counted &= counted - 1;
            let (shared, count) = (&self.0[at], &mut counters.counts[at]);
            shared.store(shared.load(Relaxed) + std::mem::take(count), Relaxed);
        }
    }

    /// Adds these counts to a sum.
    pub fn add_to(&self, sum: &mut Counters) {
        for (sum, shared) in sum.counts.iter_mut().zip(&self.0) {
            *sum += shared.load(Relaxed);
        }
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}
