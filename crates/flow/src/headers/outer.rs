//! The headers of a possible tunnel packet.

use super::Headers;
use crate::field::Field;
use crate::key::Mask;
use base::PortNo;
use wire::protocol::{GRE, UDP};

impl Headers {
    /// Returns whether the packet's protocol is one that tunnels use.
    #[inline]
    pub fn may_be_outer(&self) -> bool {
        matches!(self.protocol(), UDP | GRE)
    }

    /// Returns the bits of the outer headers that determine the tunnel fields in `mask`: those in the IP
    /// header (addresses, TOS and TTL).
    #[must_use]
    pub fn tunnel_mask_of(&self, mask: &Mask) -> Headers {
        let (source, destination) = (mask.get(Field::TunIpv6Src), mask.get(Field::TunIpv6Dst));
        let mut out = Headers::none();
        let (tos, ttl) = (mask.get(Field::TunTos) as u64, mask.get(Field::TunTtl) as u64);
        out.words[3] = (tos & 0xff) << 48 | (ttl & 0xff) << 40;
        if self.is_ipv6() {
            let halves = |bits: u128| [(bits >> 64) as u64, bits as u64];
            out.words[4..6].copy_from_slice(&halves(source));
            out.words[6..].copy_from_slice(&halves(destination));
        } else {
            out.words[4] = (source as u64) << 32 | destination as u64 & 0xffff_ffff;
        }
        out
    }

    /// Returns the headers with the bits outside a mask cleared.
    #[must_use]
    pub fn masked(&self, mask: &Headers) -> Headers {
        Headers { words: std::array::from_fn(|i| self.words[i] & mask.words[i]) }
    }

    /// Returns whether these headers, in the bits of a mask, equal headers that are masked already.
    #[inline]
    pub fn agrees(&self, masked: &Headers, mask: &Headers) -> bool {
        let differs = |i: usize| self.words[i] & mask.words[i] ^ masked.words[i];
        let narrow = differs(0) | differs(1) | differs(2) | differs(3) | differs(4);
        narrow == 0 && (!self.is_ipv6() || differs(5) | differs(6) | differs(7) == 0)
    }

    /// Returns the same headers with another port.
    #[must_use]
    pub fn with_in_port(mut self, port: PortNo) -> Headers {
        self.words[0] = u64::from(port.0) << 32 | self.words[0] & 0xffff_ffff;
        self
    }

    /// Returns a mask of the in-port only.
    #[must_use]
    pub const fn in_port_mask() -> Headers {
        Headers { words: [0xffff_ffff << 32, 0, 0, 0, 0, 0, 0, 0] }
    }

    /// Returns source and destination address in the form of
    /// [`FlowKey::addresses`](crate::FlowKey::addresses).
    #[inline]
    pub fn key_addresses(&self) -> [u64; 4] {
        let [.., a, b, c, d] = self.words;
        if self.is_ipv6() { [a, b, c, d] } else { [0, a >> 32, 0, a & 0xffff_ffff] }
    }

    /// Returns the ports in the form of [`FlowKey::ports`](crate::FlowKey::ports).
    #[inline]
    pub fn key_ports(&self) -> u32 {
        (self.words[3] & self.port_bits()) as u32
    }
}
