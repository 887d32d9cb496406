//! Addresses and ports of connections: all combinations, each once, in a pseudorandom order given by a seed
//! (RFC 4814 section 4; RFC 9693's unique pseudorandom tuples).

use crate::address::{Address, AddressRange, PortRange};

/// Both ends of a connection to open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Tuple {
    pub client: Address,
    pub client_port: u16,
    pub server: Address,
    pub server_port: u16,
}

/// Enumerates the combinations of four ranges without a stored list: a Feistel network permutes the numbers
/// below a power of four, and numbers after the last combination are skipped.
#[derive(Clone, Debug)]
pub(crate) struct Tuples {
    clients: AddressRange,
    client_ports: PortRange,
    servers: AddressRange,
    server_ports: PortRange,
    count: u64,
    half_bits: u32,
    keys: [u64; 4],
    next: u64,
    /// Whether every combination has been used and the enumeration has restarted.
    pub comes_again: bool,
}

impl Tuples {
    pub fn new(
        clients: AddressRange,
        client_ports: PortRange,
        servers: AddressRange,
        server_ports: PortRange,
        seed: u64,
    ) -> Tuples {
        let counts = [clients.count(), client_ports.count(), servers.count(), server_ports.count()];
        // 2^62 combinations suffice at any rate; more are not enumerated.
        let count = counts.into_iter().fold(1u64, u64::saturating_mul).min(1 << 62);
        let bits = u64::BITS - (count - 1).leading_zeros();
        let mut random = fastrand::Rng::with_seed(seed);
        Tuples {
            clients,
            client_ports,
            servers,
            server_ports,
            count,
            half_bits: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| random.u64(..)),
            next: 0,
            comes_again: false,
        }
    }

    /// Returns the next combination. After the last one it restarts.
    pub fn next(&mut self) -> Tuple {
        let mut index = self.next;
        // A permutation's cycle returns to the valid numbers after a few steps, fewer than four on average.
        loop {
            index = self.permute(index);
            if index < self.count {
                break;
            }
        }
        self.next += 1;
        if self.next == self.count {
            (self.next, self.comes_again) = (0, true);
        }
        let mut digit = |base: u64| {
            let digit = index % base;
            index /= base;
            digit
        };
        // Named variables make the order of the digits explicit.
        let client_port = digit(self.client_ports.count());
        let client = digit(self.clients.count());
        let server = digit(self.servers.count());
        let server_port = digit(self.server_ports.count());
        Tuple {
            client: self.clients.get(client),
            client_port: self.client_ports.get(client_port),
            server: self.servers.get(server),
            server_port: self.server_ports.get(server_port),
        }
    }

    fn permute(&self, index: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (index >> self.half_bits, index & mask);
        for key in self.keys {
            let mixed = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (left, right) = (right, left ^ (mixed ^ mixed >> 29) >> 7 & mask);
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn tuples(seed: u64) -> Tuples {
        Tuples::new(
            "10.0.0.1-10.0.0.7".parse().unwrap(),
            "1024-1123".parse().unwrap(),
            "10.1.0.1-10.1.0.3".parse().unwrap(),
            "80-81".parse().unwrap(),
            seed,
        )
    }

    #[test]
    fn every_combination_comes_once_in_an_order_of_the_seed() {
        for seed in [0, 1, 0xdead_beef] {
            let mut all = tuples(seed);
            assert_eq!(all.count, 4200);
            let order: Vec<Tuple> = (0..4200).map(|_| all.next()).collect();
            assert_eq!(order.iter().collect::<HashSet<_>>().len(), 4200);
            assert!(all.comes_again);
            assert_eq!(all.next(), order[0]);
            let mut again = tuples(seed);
            assert!(order.iter().all(|tuple| again.next() == *tuple));
            // The order has no visible pattern: few neighbours have consecutive ports.
            let steps = order.windows(2).filter(|w| w[1].client_port == w[0].client_port + 1);
            assert!(steps.count() < 200, "the order counts up");
        }
        assert_ne!(tuples(1).next(), tuples(2).next());
    }
}
