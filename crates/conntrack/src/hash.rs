//! The hash of a connection: seeded, and the same for both directions.
//!
//! Senders choose addresses and ports but must not be able to choose what collides: the secrets are
//! random per process and never leave it. Each step multiplies two secret-masked words to 128 bits
//! and folds the halves, as wyhash and rapidhash do. Two steps stand between the input and the
//! result, so that a sender cannot steer a single product.

use base::fold;

/// The secret key of the hash.
#[derive(Clone, Copy)]
pub(crate) struct Secrets([u64; 6]);

/// The address and port of one end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct End6 {
    pub address: [u64; 2],
    pub port: u16,
}

impl Secrets {
    /// Derives the secrets from a seed.
    pub fn seed(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        // With its upper bit set, a secret never equals a word of an address and port, which would
        // make a factor zero.
        Secrets(std::array::from_fn(|_| random.u64(..) | 1 << 63))
    }

    /// The hash of an IPv4 connection. `addresses` are source and destination, `ports` likewise;
    /// `zone_protocol` is the same in both directions.
    #[inline(always)]
    pub fn v4(&self, addresses: u64, ports: u32, zone_protocol: u32) -> u32 {
        let from = addresses >> 32 << 16 | u64::from(ports >> 16);
        let to = addresses & 0xffff_ffff;
        let to = to << 16 | u64::from(ports & 0xffff);
        let shared = u64::from(zone_protocol);
        // Each end takes 48 bits; the shared part fills the others, except each word's upper bit.
        let low = from.min(to) | (shared & 0x7fff) << 48;
        let high = from.max(to) | (shared >> 15 & 0x7fff) << 48;
        self.finish(fold(low ^ self.0[0], high ^ self.0[1]), shared >> 30)
    }

    /// The hash of an IPv6 connection.
    #[inline]
    pub fn v6(&self, from: End6, to: End6, zone_protocol: u32) -> u32 {
        let (low, high) = if from <= to { (from, to) } else { (to, from) };
        let ports = u64::from(low.port) << 16 | u64::from(high.port);
        let upper = fold(low.address[0] ^ self.0[0], high.address[0] ^ self.0[1]);
        let lower = fold(low.address[1] ^ self.0[2], high.address[1] ^ self.0[3]);
        self.finish(upper ^ lower.rotate_left(32), ports << 32 | u64::from(zone_protocol))
    }

    #[inline(always)]
    fn finish(&self, hash: u64, rest: u64) -> u32 {
        let hash = fold(hash ^ self.0[4], rest ^ self.0[5]);
        (hash ^ hash >> 32) as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The largest number of these hashes in one of `buckets`.
    fn fullest(hashes: impl Iterator<Item = u32>, buckets: usize, shift: u32) -> usize {
        let mut counts = vec![0; buckets];
        for hash in hashes {
            counts[(hash >> shift) as usize % buckets] += 1;
        }
        counts.into_iter().max().unwrap_or(0)
    }

    #[test]
    fn neighbours_spread_over_all_bits() {
        let secrets = Secrets::seed(5);
        let server = 0xc0a8_0101;
        type Pattern = fn(u64) -> (u64, u32);
        let patterns: [Pattern; 4] = [
            |n| (0x0a00_0001 << 32, 1024 + n as u32),
            |n| ((0x0a00_0000 + n) << 32, (4000 << 16) | 80),
            |n| ((0x0a00_0000 + n / 64) << 32, ((1024 + n as u32 % 64) << 16) | 80),
            |n| ((0x0a00_0000 + (n << 8 & 0xff_ffff)) << 32, ((n as u32 >> 8) << 16) | 80),
        ];
        for pattern in patterns {
            for shift in [0, 8, 16, 22] {
                let hashes = (0..65_536).map(|n| {
                    let (addresses, ports) = pattern(n);
                    secrets.v4(addresses | server, ports, 6)
                });
                // 64 each on average; a fair spread leaves its eight-fold deviation to chance
                // less often than once in 10^12.
                assert!(fullest(hashes, 1024, shift) < 128);
            }
        }
    }

    #[test]
    fn whole_hashes_collide_no_more_than_by_chance() {
        let secrets = Secrets::seed(6);
        let hash = |n: u64| secrets.v4((0x0a00_0000 + n / 8192) << 32 | 9, n as u32 % 8192, 6);
        let mut hashes: Vec<u32> = (0..262_144).map(hash).collect();
        hashes.sort_unstable();
        let pairs = hashes.windows(2).filter(|pair| pair[0] == pair[1]).count();
        // Eight are expected of 2^18 in 2^32.
        assert!(pairs < 40, "{pairs}");
    }

    /// Hash flooding: tuples that collide in one process do not collide in another.
    #[test]
    fn tuples_that_collide_in_one_process_do_not_in_another() {
        let tuple = |n: u64| ((0x0a00_0000 + (n >> 16)) << 32 | 9, (n as u32) << 16 | 80);
        let hash = |secrets: &Secrets, n: u64| {
            let (addresses, ports) = tuple(n);
            secrets.v4(addresses, ports, 6)
        };
        let end = |n: u64| End6 { address: [0xfd00 << 48, n >> 16], port: n as u16 };
        let server = End6 { address: [0xfd00 << 48, 9 << 32], port: 80 };
        let hash_v6 = |secrets: &Secrets, n: u64| secrets.v6(end(n), server, 6);
        type Hash<'a> = &'a dyn Fn(&Secrets, u64) -> u32;
        for hash in [&hash as Hash<'_>, &hash_v6] {
            let (own, other) = (Secrets::seed(1), Secrets::seed(2));
            let colliding = (0..).filter(|&n| hash(&own, n) % 1024 == 7).take(1024);
            let colliding: Vec<u64> = colliding.collect();
            // One per bucket on average; before, all were in one.
            let there = colliding.iter().map(|&n| hash(&other, n));
            assert!(fullest(there, 1024, 0) < 12);
        }
    }
}
