//! The key fields with the original direction's tuple of the packet's connection (`ct_nw_src` and
//! the like).

use crate::alg::expectations::Expectation;
use crate::key::{Address, Family, Key};
use flow::{CtFields, Field, FlowKey};

/// The original tuple of a packet without a connection.
pub(crate) enum OriginalTuple<'a> {
    /// No tuple.
    Nothing,
    /// The packet's own tuple.
    Key(&'a Key),
    /// The tuple, mark and label of the parent of an expected connection.
    Expected(&'a Expectation),
}

/// Returns the original tuple in a packet's key. Parts that the key lacks come from `like`.
pub(crate) fn read(seen: &FlowKey, like: &Key) -> Option<Key> {
    let protocol = seen.ct_nw_proto();
    if protocol == 0 {
        return None;
    }
    let (src, dst) = match like.family {
        Family::V4 => (Field::CtNwSrc, Field::CtNwDst),
        Family::V6 => (Field::CtIpv6Src, Field::CtIpv6Dst),
    };
    let mut key = Key {
        src: Address::from_bits(seen.get(src)),
        dst: Address::from_bits(seen.get(dst)),
        l4: [seen.ct_tp_src(), seen.ct_tp_dst()],
        protocol,
        ..*like
    };
    if key.is_icmp() {
        key.l4 = [like.l4[0], seen.ct_tp_src() << 8 | (seen.ct_tp_dst() & 0xff)];
    }
    Some(key)
}

/// Writes the tuple of a connection's original direction.
pub(crate) fn write(fields: &mut CtFields, tuple: &Key) {
    fields.src = tuple.src.words();
    fields.dst = tuple.dst.words();
    fields.protocol = tuple.protocol;
    fields.ports = match tuple.is_icmp() {
        true => [tuple.l4[1] >> 8, tuple.l4[1] & 0xff],
        false => tuple.l4,
    };
}

impl OriginalTuple<'_> {
    /// Writes the connection fields.
    pub fn write(&self, fields: &mut CtFields) {
        match self {
            OriginalTuple::Nothing => {}
            OriginalTuple::Key(tuple) => write(fields, tuple),
            OriginalTuple::Expected(expected) => {
                write(fields, &expected.parent);
                fields.mark = expected.mark;
                fields.label = [(expected.label >> 64) as u64, expected.label as u64];
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use wire::protocol;

    #[test]
    fn the_tuple_that_was_written_is_read_whatever_the_packet_is_like() {
        let address = |last| Address::from(Ipv4Addr::new(10, 0, 0, last));
        let like = Key {
            src: address(9),
            dst: address(8),
            protocol: protocol::UDP,
            l4: [7, 8],
            zone: 5,
            family: Family::V4,
        };
        let tuple = Key {
            src: address(1),
            dst: address(2),
            protocol: protocol::TCP,
            l4: [1000, 80],
            ..like
        };
        let (mut fields, mut seen) = (CtFields::default(), FlowKey::new());
        assert_eq!(read(&seen, &like), None);
        write(&mut fields, &tuple);
        seen.set_ct(&fields);
        assert_eq!(read(&seen, &like), Some(tuple));
    }
}
