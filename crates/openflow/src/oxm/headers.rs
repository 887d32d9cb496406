//! Matches on MPLS, NSH and neighbour discovery.

use super::matching::Writer;
use flow::Field;

impl Writer<'_> {
    /// Writes the fields of MPLS.
    pub(super) fn labels(&mut self) {
        for (name, field) in [
            ("mpls_tc", Field::MplsTc),
            ("mpls_bos", Field::MplsBos),
            ("mpls_ttl", Field::MplsTtl),
            ("mpls_label", Field::MplsLabel),
        ] {
            if self.proto.is_mpls() {
                self.exact(name, field);
            }
        }
    }

    /// Writes the fields of NSH.
    pub(super) fn service_chain(&mut self) {
        const NAMES: [&str; 10] = [
            "nsh_flags",
            "nsh_ttl",
            "nsh_mdtype",
            "nsh_np",
            "nsh_spi",
            "nsh_si",
            "nsh_c1",
            "nsh_c2",
            "nsh_c3",
            "nsh_c4",
        ];
        if self.proto.is_nsh() {
            NAMES.into_iter().for_each(|name| self.field(name));
        }
    }

    /// Writes the fields of neighbour discovery.
    pub(super) fn neighbour_discovery(&mut self) {
        let key = self.matching.key();
        let kind = key.tp_src();
        if key.tp_dst() == 0 && matches!(kind, 135 | 136) {
            self.field("nd_reserved");
            self.field("nd_target");
            self.field("nd_options_type");
            self.field(if kind == 135 { "nd_sll" } else { "nd_tll" });
        }
    }
}

/// Whether a field of NSH can have the value (ovs: `lib/meta-flow.c`, `mf_is_value_valid`): the TTL has 6
/// bits, and the MD types are 1 and 2.
pub(crate) fn is_of_nsh(field: Field, value: u128) -> bool {
    match field {
        Field::NshTtl => value <= 63,
        Field::NshMdtype => matches!(value, 1 | 2),
        _ => true,
    }
}
