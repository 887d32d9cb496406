//! Matches on tunnel metadata. IPv4 addresses are stored in the bits of IPv6 ones.

use super::entry::put_option;
use super::matching::Writer;
use super::table::Spec;
use crate::error::{ErrorCode, OfError};
use flow::{Field, Match, OptionMatch};

/// The bits of an IPv6 address that are zero if it stores an IPv4 address.
pub(crate) const BEYOND_IPV4: u128 = !0xffff_ffff;

/// Converts a match on an outer IPv4 address: packets with IPv6 outer headers do not match it.
pub(crate) fn tunnel_address(field: Field, value: u128, mask: u128) -> (Field, u128, u128) {
    let wide = match field {
        Field::TunSrc => Field::TunIpv6Src,
        _ => Field::TunIpv6Dst,
    };
    let beyond = if mask == 0 { 0 } else { BEYOND_IPV4 };
    (wide, value, (mask & 0xffff_ffff) | beyond)
}

/// Returns whether a match on a tunnel's address is one on an IPv4 address.
pub(crate) fn is_tunnel_ipv4(value: u128, mask: u128) -> bool {
    mask & BEYOND_IPV4 == BEYOND_IPV4 && value & BEYOND_IPV4 == 0
}

/// Adds a match on a tunnel option, at most once per option.
pub(super) fn add_option(
    matching: &mut Match,
    spec: &Spec,
    option: OptionMatch,
) -> Result<(), OfError> {
    if matching.options().iter().any(|it| it.index == option.index) {
        return Err(OfError::new(
            ErrorCode::MatchDuplicateField,
            format!("{} is given twice", spec.name),
        ));
    }
    matching.set_option(option);
    Ok(())
}

impl Writer<'_> {
    /// Writes the tunnel fields of the match.
    pub(super) fn tunnel(&mut self) {
        self.field("tun_id");
        self.put("tun_flags", self.value(Field::TunFlags) & 1, self.bits(Field::TunFlags) & 1);
        for (field, v4, v6) in [
            (Field::TunIpv6Src, "tun_src", "tun_ipv6_src"),
            (Field::TunIpv6Dst, "tun_dst", "tun_ipv6_dst"),
        ] {
            let is_ipv4 = is_tunnel_ipv4(self.value(field), self.bits(field));
            self.field(if is_ipv4 { v4 } else { v6 });
        }
        for name in ["tun_gbp_id", "tun_gbp_flags", "tun_erspan_idx", "tun_erspan_ver"] {
            self.field(name);
        }
        for name in ["tun_erspan_dir", "tun_erspan_hwid", "tun_gtpu_flags", "tun_gtpu_msgtype"] {
            self.field(name);
        }
        for option in self.matching.options().iter().filter(|it| !it.is_absent) {
            put_option(self.out, self.version, option);
        }
    }

    fn value(&self, field: Field) -> u128 {
        self.matching.key().get(field)
    }

    fn bits(&self, field: Field) -> u128 {
        self.matching.mask().get(field)
    }
}
