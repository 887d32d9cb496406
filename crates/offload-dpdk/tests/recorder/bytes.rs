//! Bytes of frames.

use wire::ethertype;
use wire::protocol::{TCP, UDP};

/// Two bytes; zero behind the end.
pub fn u16_at(frame: &[u8], at: usize) -> u16 {
    let bytes = frame.get(at..at + 2).and_then(|it| it.try_into().ok());
    bytes.map_or(0, u16::from_be_bytes)
}

/// Whether a type is that of a VLAN tag.
pub fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::VLAN | ethertype::SERVICE_VLAN)
}

/// Where the headers of a frame lie.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub l3: usize,
    pub l4: usize,
    /// Where the IP packet ends.
    pub end: usize,
    pub is_ipv6: bool,
    pub protocol: u8,
}

impl Places {
    /// Those of a frame that begins here; `None` where it has no whole IP header.
    pub fn of(frame: &[u8], start: usize) -> Option<Places> {
        let mut at = start + 12;
        while is_tag(u16_at(frame, at)) {
            at += 4;
        }
        let (is_ipv6, l3) = (u16_at(frame, at) == ethertype::IPV6, at + 2);
        if !is_ipv6 && u16_at(frame, at) != ethertype::IPV4 {
            return None;
        }
        let header = frame.get(l3..l3 + if is_ipv6 { 40 } else { 20 })?;
        let (l4, end, protocol) = if is_ipv6 {
            (l3 + 40, l3 + 40 + usize::from(u16_at(header, 4)), header[6])
        } else {
            (l3 + usize::from(header[0] & 15) * 4, l3 + usize::from(u16_at(header, 2)), header[9])
        };
        (l4 <= end && end <= frame.len()).then_some(Places { l3, l4, end, is_ipv6, protocol })
    }

    /// Where the transport checksum lies.
    pub fn checksum(&self) -> usize {
        self.l4 + if self.protocol == TCP { 16 } else { 6 }
    }

    /// The sum over the transport's bytes and the pseudo header, without the checksum that stands there.
    pub fn right_checksum(&self, frame: &[u8]) -> u16 {
        let addresses =
            if self.is_ipv6 { self.l3 + 8..self.l3 + 40 } else { self.l3 + 12..self.l3 + 20 };
        let mut bytes = frame[addresses].to_vec();
        bytes.extend(((self.end - self.l4) as u32).to_be_bytes());
        bytes.extend([0, 0, 0, self.protocol]);
        let mut transport = frame[self.l4..self.end].to_vec();
        let at = self.checksum() - self.l4;
        transport[at..at + 2].fill(0);
        bytes.extend(transport);
        let right = wire::checksum::checksum(&bytes);
        // UDP writes a zero as all ones (RFC 768).
        if right == 0 && self.protocol == UDP { 0xffff } else { right }
    }

    /// Whether UDP has no checksum.
    pub fn lacks_checksum(&self, frame: &[u8]) -> bool {
        self.protocol == UDP && !self.is_ipv6 && u16_at(frame, self.checksum()) == 0
    }

    /// Whether there are a whole TCP or UDP header and right lengths.
    pub fn is_whole(&self, frame: &[u8]) -> bool {
        let bytes = self.end - self.l4;
        match self.protocol {
            TCP => {
                let header = usize::from(frame[self.l4..].get(12).copied().unwrap_or(0) >> 4) * 4;
                bytes >= 20 && (20..=bytes).contains(&header)
            }
            UDP => bytes >= 8 && usize::from(u16_at(frame, self.l4 + 4)) == bytes,
            _ => false,
        }
    }
}
