//! The exact-match cache: full keys of packets and the flows that they hit.

use crate::megaflow::MegaflowTable;
use crate::slab::Handle;
use base::limits::EXACT_CACHE_ENTRIES;
use flow::{FlowKey, WORDS};

/// The number of key words in an entry, enough for all that the datapath reads from a packet (the
/// registers are zero there). An entry has four cache lines, of which IPv4 packets use two.
const ENTRY_WORDS: usize = 29;

/// Caches flows by the full key of packets. A hash has two possible entries, each one probe (ovs:
/// `lib/dpif-netdev-private-dfc.h`).
///
/// The removal of a flow leaves its entries. They have the flow's [`Handle`], which then finds
/// nothing in the [`MegaflowTable`], and are overwritten in time.
#[derive(Clone, Debug)]
pub struct ExactCache {
    entries: Box<[Entry]>,
}

#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Entry {
    /// The words of the key that are not zero, as bits; only those are stored, without gaps.
    map: u64,
    flow: Option<Handle>,
    hash: u32,
    words: [u64; ENTRY_WORDS],
}

/// The hash of all words of a key, for [`ExactCache`] and to distribute packets. `seed` must be
/// random, so that senders cannot choose what collides.
///
/// Most words of a packet's key are zero. A group of words in which all are costs one comparison.
pub fn hash(key: &FlowKey, seed: u32) -> u32 {
    const GROUP: usize = 4;
    // Each product has a secret in both of its factors: no word of a packet can make it zero, which would
    // erase the words before.
    let secret = mix(u64::from(seed) ^ SECRETS[0], SECRETS[1]);
    let (mut state, mut map) = (secret, 0u64);
    let (groups, rest) = key.words_in_use().as_chunks::<GROUP>();
    for &[a, b, c, d] in groups {
        map <<= 1;
        if a | b | c | d != 0 {
            map |= 1;
            state = mix(mix(a ^ state, b ^ secret) ^ c, d ^ secret);
        }
    }
    for word in rest {
        state = mix(state ^ word, secret);
    }
    let hash = mix(state ^ map, secret);
    (hash ^ (hash >> 32)) as u32
}

/// The fractions of the golden ratio and of the square root of 2, made odd.
const SECRETS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0x6a09_e667_f3bc_c909];

/// Both halves of a product, which depend on all bits of both factors (wyhash, by Wang Yi).
#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Default for ExactCache {
    fn default() -> Self {
        Self::new()
    }
}

impl ExactCache {
    /// An empty cache. It allocates its memory at once: 2 MiB.
    pub fn new() -> Self {
        let empty = Entry { map: 0, flow: None, hash: 0, words: [0; ENTRY_WORDS] };
        ExactCache { entries: vec![empty; EXACT_CACHE_ENTRIES].into() }
    }

    /// Returns the flow that a packet with this key hit before, if it still exists in `flows`.
    /// `hash` is [`hash`] of the key.
    #[inline]
    pub fn lookup<V>(&self, key: &FlowKey, hash: u32, flows: &MegaflowTable<V>) -> Option<Handle> {
        let map = map_of(key)?;
        places(hash).into_iter().find_map(|place| {
            let entry = &self.entries[place];
            let flow = entry.flow?;
            (entry.is_for(key, map, hash) && flows.get(flow).is_some()).then_some(flow)
        })
    }

    /// Caches that a packet with this key hit `flow`, on average once in `inverse_probability`
    /// calls; each call needs a new `random`. 1 caches always, 0 never
    /// (`other_config:emc-insert-inv-prob`, by default 100). Returns whether it was cached.
    ///
    /// Of the two entries it replaces the one with the same key, else one whose flow is gone, else
    /// any.
    pub fn insert<V>(
        &mut self,
        key: &FlowKey,
        hash: u32,
        flow: Handle,
        flows: &MegaflowTable<V>,
        random: u32,
        inverse_probability: u32,
    ) -> bool {
        let Some(map) = map_of(key) else { return false };
        let chosen = u32::MAX.checked_div(inverse_probability).is_some_and(|most| random <= most);
        if !chosen || map.count_ones() as usize > ENTRY_WORDS {
            return false;
        }
        let [first, second] = places(hash);
        let same = |place: usize| self.entries[place].is_for(key, map, hash);
        let dead =
            |place: usize| self.entries[place].flow.is_none_or(|flow| flows.get(flow).is_none());
        let place = if same(first) {
            first
        } else if same(second) {
            second
        } else if dead(first) {
            first
        } else if dead(second) || hash & 1 << 31 != 0 {
            second
        } else {
            first
        };
        self.entries[place].fill(key, map, hash, flow);
        true
    }

    /// Clears the cache.
    pub fn clear(&mut self) {
        for entry in &mut self.entries {
            entry.flow = None;
        }
    }
}

impl Entry {
    /// Whether the entry has this key.
    #[inline]
    fn is_for(&self, key: &FlowKey, map: u64, hash: u32) -> bool {
        if self.flow.is_none() || self.hash != hash || self.map != map {
            return false;
        }
        let words = key.words();
        bits(map).zip(&self.words).all(|(i, word)| words[i] == *word)
    }

    fn fill(&mut self, key: &FlowKey, map: u64, hash: u32, flow: Handle) {
        let words = key.words();
        for (word, i) in self.words.iter_mut().zip(bits(map)) {
            *word = words[i];
        }
        (self.map, self.hash, self.flow) = (map, hash, Some(flow));
    }
}

/// The two possible entries of a hash.
fn places(hash: u32) -> [usize; 2] {
    let mask = EXACT_CACHE_ENTRIES - 1;
    let bits = EXACT_CACHE_ENTRIES.trailing_zeros();
    [hash as usize & mask, (hash >> bits) as usize & mask]
}

/// The words of a key that are not zero, as bits; `None` for a tunnelled packet, whose key has more
/// words than the bits can name.
#[inline]
fn map_of(key: &FlowKey) -> Option<u64> {
    let words = Some(key.words_in_use()).filter(|words| words.len() < WORDS)?;
    Some(words.iter().enumerate().fold(0, |map, (i, &word)| map | u64::from(word != 0) << i))
}

/// The numbers of the bits that are set.
fn bits(mut map: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = map.trailing_zeros() as usize;
        map &= map.wrapping_sub(1);
        (bit < u64::BITS as usize).then_some(bit)
    })
}

const _: () = assert!(size_of::<Entry>() == 256);

#[cfg(test)]
mod tests;
