//! Rows of `Flow_Table`.

use super::{Place, Reader, to_u32};
use classifier::{MAX_PREFIX_FIELDS, PrefixField};
use ofproto::TableConfig;
use openflow::text::NamedBits;
use std::collections::BTreeMap;

/// The fields for which OpenFlow tables can track prefixes, by all their names.
const PREFIX_FIELDS: [(&str, PrefixField); 6] = [
    ("ip_dst", PrefixField::Ipv4Dst),
    ("ip_src", PrefixField::Ipv4Src),
    ("ipv6_dst", PrefixField::Ipv6Dst),
    ("ipv6_src", PrefixField::Ipv6Src),
    ("nw_dst", PrefixField::Ipv4Dst),
    ("nw_src", PrefixField::Ipv4Src),
];

impl Reader<'_> {
    /// Returns the settings of a bridge's flow tables.
    pub(super) fn flow_tables(&mut self, bridge: &Place<'_>) -> BTreeMap<u8, TableConfig> {
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
            let strings = |column| row.get(column).map(|set| set.as_str_set()).unwrap_or_default();
            let prefixes = strings("prefixes");
            let table = TableConfig {
                name: row.str("name").filter(|name| !name.is_empty()).map(str::to_owned),
                flow_limit: row.opt_i64("flow_limit").map(to_u32),
                evicts: row.str("overflow_policy") == Some("evict"),
                groups: self.groups(place, &strings("groups")),
                prefixes: match &prefixes[..] {
                    [] => None,
                    names => Some(self.prefix_fields(place, names)),
                },
            };
            tables.insert(number, table);
        }
        tables
    }

    fn groups(&mut self, place: &Place<'_>, names: &[&str]) -> Vec<NamedBits> {
        let mut groups = Vec::new();
        for name in names {
            match NamedBits::parse(name) {
                Ok(bits) => groups.push(bits),
                Err(error) => self.warn(place, "groups", format!("\"{name}\": {error}; ignored")),
            }
        }
        groups
    }

    fn prefix_fields(&mut self, place: &Place<'_>, names: &[&str]) -> Vec<PrefixField> {
        let mut fields = Vec::new();
        // "none" overrides all other names (ovs: vswitchd/bridge.c, bridge_configure_tables).
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
                    let words = format!(
                        "'prefixes' with incompatible field: {name}, which is not one of {known} or \"none\"; ignored"
                    );
                    self.warn(place, "prefixes", words);
                }
            }
        }
        fields
    }
}
