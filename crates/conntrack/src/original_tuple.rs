//! The fields of a packet's key that name its connection: by its original direction's tuple.

use crate::expectations::Expectation;
use crate::key::{Address, Family, Key};
use flow::{Field, FlowKey};

/// What a packet's key says of a connection that is not there.
pub(crate) enum Named<'a> {
    /// Nothing.
    Nothing,
    /// The packet's own tuple.
    Key(&'a Key),
    /// What the connection would inherit.
    Expected(&'a Expectation),
}

/// The original tuple that stands in a packet's key; `like` has the parts that do not.
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

/// Writes a connection's original direction into a packet's key.
pub(crate) fn write(key: &mut FlowKey, tuple: &Key) {
    let (src, dst) = match tuple.family {
        Family::V4 => (Field::CtNwSrc, Field::CtNwDst),
        Family::V6 => (Field::CtIpv6Src, Field::CtIpv6Dst),
    };
    key.set(src, tuple.src.bits());
    key.set(dst, tuple.dst.bits());
    key.set_ct_nw_proto(tuple.protocol);
    let l4 = if tuple.is_icmp() { [tuple.l4[1] >> 8, tuple.l4[1] & 0xff] } else { tuple.l4 };
    key.set_ct_tp_src(l4[0]);
    key.set_ct_tp_dst(l4[1]);
}
