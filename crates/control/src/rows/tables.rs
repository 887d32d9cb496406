//! Rows of `Flow_Table`.

use super::{Place, Reader};
use classifier::{MAX_PREFIX_FIELDS, PrefixField};
use std::collections::BTreeMap;

/// The fields that OpenFlow's tables can track prefixes of, by all their names.
const PREFIX_FIELDS: [(&str, PrefixField); 6] = [
    ("ip_dst", PrefixField::Ipv4Dst),
    ("ip_src", PrefixField::Ipv4Src),
    ("ipv6_dst", PrefixField::Ipv6Dst),
    ("ipv6_src", PrefixField::Ipv6Src),
    ("nw_dst", PrefixField::Ipv4Dst),
    ("nw_src", PrefixField::Ipv4Src),
];

impl Reader<'_> {
    /// The fields whose prefixes a bridge's tables track, where the defaults are not wanted.
    pub(super) fn table_prefixes(&mut self, bridge: &Place<'_>) -> BTreeMap<u8, Vec<PrefixField>> {
        let mut tables = BTreeMap::new();
        let rows = bridge.row.get("flow_tables").map(|map| map.as_uuid_map()).unwrap_or_default();
        for (number, uuid) in rows {
            let (Ok(number), Some(row)) = (u8::try_from(number), self.row("Flow_Table", uuid))
            else {
                continue;
            };
            let place =
                &Place { table: "Flow_Table", name: &format!("{}:{number}", bridge.name), row };
            self.warn_of_ignored(place);
            let names = row.get("prefixes").map(|set| set.as_str_set()).unwrap_or_default();
            if !names.is_empty() {
                tables.insert(number, self.prefix_fields(place, &names));
            }
        }
        tables
    }

    fn prefix_fields(&mut self, place: &Place<'_>, names: &[&str]) -> Vec<PrefixField> {
        let mut fields = Vec::new();
        // It overrides whatever else is named (ovs: vswitchd/bridge.c, bridge_configure_tables).
        if names.contains(&"none") {
            return fields;
        }
        for name in names {
            match PREFIX_FIELDS.iter().find(|(known, _)| known == name) {
                Some((_, field)) if fields.len() < MAX_PREFIX_FIELDS => fields.push(*field),
                Some(_) => {}
                None => {
                    let known: Vec<&str> = PREFIX_FIELDS.iter().map(|(known, _)| *known).collect();
                    let known = known.join(", ");
                    let words = format!("\"{name}\" is not one of {known} or \"none\"; ignored");
                    self.warn(place, "prefixes", words);
                }
            }
        }
        fields
    }
}
