//! A connection's record: atomic words that many threads read and write.
//!
//! An IPv4 record is 16 words in two cache lines. The first has keys, life, state and recent
//! counts, all that most packets need; the second has TCP's sequence numbers, the label and what
//! changes seldom. An IPv6 record has longer keys and three lines; its last twelve words are laid
//! out as in an IPv4 record.
//!
//! A record has no lock. What must change together is in one word and changes by compare-and-swap;
//! each sequence word has one writer, the thread that handles the packets of that direction, and
//! windows that a device kept are brought in by compare-and-swap (`windows.rs`). A record is found
//! only through an index, under a guard of the table's epochs, so that it stays the same connection
//! while the guard is held; [`Life`] tells whether that connection has ended.

mod association;
mod label;
mod life;
mod state;
mod traffic;
mod windows;
mod words;

pub(crate) use life::Life;
pub(crate) use state::{Kind, State};
pub(crate) use words::{Words, wide};

use crate::key::{Address, Family, Key};
use crate::protocols::connection::Protocol;
use crate::protocols::tcp::TcpPeers;
use base::Instant;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use table::atomic::AtomicU64;

/// Words of an IPv4 record.
pub(crate) const WORDS_V4: usize = 16;
/// Words of an IPv6 record.
pub(crate) const WORDS_V6: usize = 24;
/// Words at the end of a record that are the same for both IP versions.
pub(crate) const COMMON: usize = 12;

// Positions of the common words.
const LIFE: usize = 0;
const STATE: usize = 1;
// `traffic.rs` owns words 2, 3, 9 and 10.
const PEERS: usize = 4;
const SEQ: [usize; 2] = [5, 6];
const LABEL: [usize; 2] = [7, 8];
/// The link of the timing wheel, the last word.
pub(crate) const LINK: usize = 11;

// A connection also has one index entry, or two with NAT, of at most 16 bytes each with their share
// of the bucket. The wheel's link is part of the record.
const INDEX_BYTES: usize = 2 * 16;
const _: () = assert!(WORDS_V4 * 8 + INDEX_BYTES <= 160);
const _: () = assert!(WORDS_V6 * 8 + INDEX_BYTES <= 224);

/// `now` in milliseconds, rounded down.
#[inline]
pub(crate) fn passed_ms(now: Instant) -> u64 {
    now.as_millis()
}

/// `now` in milliseconds, rounded up: a deadline that counts from it is never early.
#[inline]
pub(crate) fn next_ms(now: Instant) -> u64 {
    now.as_nanos().div_ceil(1_000_000)
}

/// The properties of a connection that never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Birth {
    /// The shard whose timing wheel has the connection.
    pub shard: u16,
    /// The time of its creation.
    pub start: Instant,
}

/// A view of a record's words.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    key: &'a [AtomicU64],
    common: &'a [AtomicU64; COMMON],
    family: Family,
}

impl<'a> Record<'a> {
    #[inline(always)]
    pub fn v4(words: &'a [AtomicU64; WORDS_V4]) -> Self {
        let (key, common) = words.split_last_chunk().unwrap_or_else(|| unreachable!());
        Record { key, common, family: Family::V4 }
    }

    #[inline(always)]
    pub fn v6(words: &'a [AtomicU64; WORDS_V6]) -> Self {
        let (key, common) = words.split_last_chunk().unwrap_or_else(|| unreachable!());
        Record { key, common, family: Family::V6 }
    }

    /// Returns the original direction's key for `index` 0, the reply's for 1.
    fn key(&self, index: usize) -> Key {
        let word = |at: usize| self.key[at].load(Relaxed);
        match self.family {
            Family::V4 => Key::from_words_v4(word(index * 2), word(index * 2 + 1)),
            Family::V6 => {
                let at = index * 5;
                let src = Address::from_words([word(at), word(at + 1)]);
                let dst = Address::from_words([word(at + 2), word(at + 3)]);
                Key::from_rest(src, dst, word(at + 4), Family::V6)
            }
        }
    }

    /// Returns the words of one direction's key of an IPv4 record.
    #[inline(always)]
    pub fn key_v4(&self, is_reply: bool) -> (u64, u64) {
        let at = usize::from(is_reply) * 2;
        (self.key[at].load(Relaxed), self.key[at + 1].load(Relaxed))
    }

    /// Returns the words of one direction's key of an IPv6 record: its addresses and the rest.
    #[inline(always)]
    pub fn key_v6(&self, is_reply: bool) -> ([u64; 4], u64) {
        let word = |i: usize| self.key[usize::from(is_reply) * 5 + i].load(Relaxed);
        ([word(0), word(1), word(2), word(3)], word(4))
    }

    pub fn original(&self) -> Key {
        self.key(0)
    }

    pub fn reply(&self) -> Key {
        self.key(1)
    }

    fn set_key(&self, index: usize, key: &Key) {
        let put = |at: usize, word| self.key[at].store(word, Relaxed);
        match self.family {
            Family::V4 => {
                put(index * 2, key.addresses_v4());
                put(index * 2 + 1, key.rest());
            }
            Family::V6 => {
                let ([a, b], [c, d]) = (key.src.words(), key.dst.words());
                let words = [a, b, c, d, key.rest()];
                words.into_iter().enumerate().for_each(|(at, word)| put(index * 5 + at, word));
            }
        }
    }

    /// Returns whether an IPv4 key with these words is the reply's, or `None` if it is neither key.
    #[inline(always)]
    pub fn direction_v4(&self, addresses: u64, rest: u64) -> Option<bool> {
        let word = |at: usize| self.key[at].load(Relaxed);
        if (word(0) ^ addresses) | (word(1) ^ rest) == 0 {
            return Some(false);
        }
        ((word(2) ^ addresses) | (word(3) ^ rest) == 0).then_some(true)
    }

    /// Returns whether an IPv6 key with these words is the reply's, or `None` if it is neither key.
    #[inline(always)]
    pub fn direction_v6(&self, addresses: &[u64; 4], rest: u64) -> Option<bool> {
        let is_key = |at: usize| {
            let differs = |i: usize, word: u64| self.key[at + i].load(Relaxed) ^ word;
            let upper = differs(0, addresses[0]) | differs(2, addresses[2]);
            upper | differs(1, addresses[1]) | differs(3, addresses[3]) | differs(4, rest) == 0
        };
        if is_key(0) { Some(false) } else { is_key(5).then_some(true) }
    }

    /// Returns whether a key is the reply's, or `None` if it is neither of the connection's.
    #[inline]
    pub fn direction(&self, key: &Key) -> Option<bool> {
        match self.family {
            _ if key.family != self.family => None,
            Family::V4 => self.direction_v4(key.addresses_v4(), key.rest()),
            Family::V6 if self.original() == *key => Some(false),
            Family::V6 => (self.reply() == *key).then_some(true),
        }
    }

    /// The connection's zone.
    #[inline]
    pub fn zone(&self) -> u16 {
        let at = if self.family == Family::V4 { 1 } else { 4 };
        (self.key[at].load(Relaxed) >> 16) as u16
    }

    #[inline(always)]
    pub fn life(&self) -> Life {
        Life(self.common[LIFE].load(Acquire))
    }

    #[inline(always)]
    pub fn state(&self) -> State {
        State(self.common[STATE].load(Relaxed))
    }

    /// Reads life and state. The life is read first, so that a generation is never newer than the
    /// state that is remembered with it: a thread that changes the state increments the generation
    /// afterwards.
    #[inline(always)]
    pub fn look(&self) -> (Life, State) {
        let life = self.life();
        (life, self.state())
    }

    /// Ends the connection if its life is still `seen`. A thread that gets true takes it out of the
    /// table.
    pub fn claim(&self, seen: Life) -> bool {
        let life = &self.common[LIFE];
        !seen.is_dead() && life.compare_exchange(seen.0, seen.dead().0, AcqRel, Relaxed).is_ok()
    }

    /// Ends the connection. Returns false if it has ended before.
    pub fn kill(&self) -> bool {
        loop {
            let seen = self.life();
            if seen.is_dead() {
                return false;
            }
            if self.claim(seen) {
                return true;
            }
        }
    }

    /// Moves the deadline if the generation is still that of `seen`. Returns the previous deadline,
    /// or `None` if the connection has ended. A deadline that is only a moment later than the new
    /// one stays: another thread's clock is ahead by that much, and the two would move it back and
    /// forth with every packet.
    #[inline(always)]
    pub fn set_deadline(&self, seen: Life, deadline_ms: u64) -> Option<u64> {
        if seen.is_about(deadline_ms) {
            return Some(deadline_ms);
        }
        self.move_deadline(seen, deadline_ms)
    }

    #[inline]
    fn move_deadline(&self, mut seen: Life, deadline_ms: u64) -> Option<u64> {
        loop {
            let before = seen.deadline_ms();
            if seen.is_dead() {
                return None;
            }
            if seen.is_about(deadline_ms) {
                return Some(deadline_ms);
            }
            let next = Life::new(seen.generation(), deadline_ms);
            let life = &self.common[LIFE];
            match life.compare_exchange_weak(seen.0, next.0, AcqRel, Acquire) {
                Ok(_) => return Some(before),
                Err(now) => seen = Life(now),
            }
        }
    }

    /// Begins a new generation, after a change that flows can see. Returns it, or `None` if the
    /// connection has ended.
    pub fn age(&self) -> Option<u32> {
        let mut seen = self.life();
        while !seen.is_dead() {
            let life = &self.common[LIFE];
            match life.compare_exchange_weak(seen.0, seen.aged().0, AcqRel, Acquire) {
                Ok(_) => return Some(seen.aged().generation()),
                Err(now) => seen = Life(now),
            }
        }
        None
    }

    /// Replaces the state if it is still `seen`; otherwise returns the present one as the error.
    #[inline]
    pub fn replace_state(&self, seen: State, next: State) -> Result<(), State> {
        let state = &self.common[STATE];
        state.compare_exchange(seen.0, next.0, AcqRel, Relaxed).map(drop).map_err(State)
    }

    /// Changes bits of the mark. Returns whether any changed.
    pub fn set_mark(&self, value: u32, mask: u32) -> bool {
        let mut seen = self.state();
        loop {
            let next = seen.with_mark(value & mask | seen.mark() & !mask);
            if next == seen {
                return false;
            }
            match self.replace_state(seen, next) {
                Ok(()) => return true,
                Err(changed) => seen = changed,
            }
        }
    }

    /// Claims the report that the connection is new. Returns true for the first call only.
    pub fn claim_report(&self) -> bool {
        let state = &self.common[STATE];
        self.state().has_any(State::UNREPORTED)
            && state.fetch_and(!State::UNREPORTED, AcqRel) & State::UNREPORTED != 0
    }

    /// The states of both ends of a TCP connection.
    #[inline(always)]
    pub fn tcp(&self) -> TcpPeers {
        TcpPeers::from_words(self.tcp_words())
    }

    /// The states of both ends, as [`TcpPeers::words`].
    #[inline(always)]
    pub fn tcp_words(&self) -> [u64; 3] {
        // Written out: `map` on an array compiles to a call where this is inlined more than once.
        let word = |at: usize| self.common[at].load(Relaxed);
        [word(PEERS), word(SEQ[0]), word(SEQ[1])]
    }

    /// Stores a segment's change from `before` to `after`. Returns false, with nothing stored, if
    /// packets of the other direction changed the states meanwhile.
    #[inline(always)]
    pub fn set_tcp(&self, before: [u64; 3], after: [u64; 3]) -> bool {
        if before[0] != after[0] {
            let peers = &self.common[PEERS];
            if peers.compare_exchange(before[0], after[0], AcqRel, Relaxed).is_err() {
                return false;
            }
        }
        if before[1] != after[1] {
            self.common[SEQ[0]].store(after[1], Relaxed);
        }
        if before[2] != after[2] {
            self.common[SEQ[1]].store(after[2], Relaxed);
        }
        true
    }

    /// The state of the connection's protocol.
    pub fn protocol(&self) -> Protocol {
        let state = self.state();
        match state.kind() {
            Kind::Tcp => Protocol::Tcp(self.tcp()),
            Kind::Sctp => Protocol::Sctp(self.sctp()),
            Kind::Icmp => Protocol::Icmp(state.query()),
            Kind::Other => Protocol::Other(state.exchange()),
        }
    }

    /// Writes a whole connection into a record that no other thread can find yet.
    pub fn begin(&self, keys: [&Key; 2], protocol: &Protocol, state: State, birth: Birth) {
        self.set_key(0, keys[0]);
        self.set_key(1, keys[1]);
        self.begin_common(protocol, state, birth);
    }

    /// [`Self::begin`] with the words of both keys: two each for IPv4, five for IPv6.
    #[inline]
    pub fn begin_words<const N: usize>(
        &self,
        keys: [[u64; N]; 2],
        protocol: &Protocol,
        state: State,
        birth: Birth,
    ) {
        let words = keys.into_iter().flatten();
        self.key.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
        self.begin_common(protocol, state, birth);
    }

    #[inline]
    fn begin_common(&self, protocol: &Protocol, state: State, birth: Birth) {
        let words = match protocol {
            Protocol::Tcp(peers) => peers.words(),
            Protocol::Sctp(association) => association.words(),
            _ => [0; 3],
        };
        let put = |at: usize, word| self.common[at].store(word, Relaxed);
        put(STATE, state.0);
        put(PEERS, words[0]);
        put(SEQ[0], words[1]);
        put(SEQ[1], words[2]);
        LABEL.into_iter().for_each(|at| put(at, 0));
        self.begin_traffic(birth);
    }

    /// Makes a written record live, with this deadline.
    pub fn start_living(&self, deadline_ms: u64) -> Life {
        let life = Life::new(self.life().aged().generation(), deadline_ms);
        self.common[LIFE].store(life.0, Release);
        life
    }

    /// Marks a record that was never in an index as dead again.
    pub fn stop_living(&self) {
        self.common[LIFE].store(self.life().dead().0, Release);
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
