//! Addresses of ports that have none of their own.

use base::MacAddr;

/// Returns a random unicast, locally administered address.
pub fn random_mac() -> MacAddr {
    let random = MacAddr::from_u64(fastrand::u64(..));
    MacAddr([
        (random.0[0] & 0xfc) | 2,
        random.0[1],
        random.0[2],
        random.0[3],
        random.0[4],
        random.0[5],
    ])
}
