//! Rows of `Mirror`.

use super::port::vlans;
use super::{Place, Reader};
use flow::{Field, Match};
use ofproto::{MirrorConfig, MirrorId, MirrorOutput};
use ovsdb::Row;
use std::collections::BTreeSet;

impl Reader<'_> {
    /// Returns the mirrors of a bridge (ovs: `vswitchd/bridge.c`, `mirror_configure`).
    pub(super) fn mirrors(&mut self, bridge: &Place<'_>) -> Vec<MirrorConfig> {
        let rows = bridge.row.uuids("mirrors");
        let mut rows: Vec<_> =
            rows.iter().filter_map(|id| Some((id.as_u128(), self.row("Mirror", *id)?))).collect();
        rows.sort_by_key(|(_, row)| row.str("name"));
        let mirrors = rows.into_iter();
        mirrors.filter_map(|(id, row)| self.mirror(MirrorId(id), row, bridge)).collect()
    }

    fn mirror(&mut self, id: MirrorId, row: &Row, bridge: &Place<'_>) -> Option<MirrorConfig> {
        let name = row.str("name").unwrap_or_default();
        let place = &Place { table: "Mirror", name, row };
        self.warn_of_ignored(place);
        let vlan = row.opt_i64("output_vlan").and_then(|vlan| u16::try_from(vlan).ok());
        let output = match (row.opt_uuid("output_port"), vlan) {
            (Some(port), vlan) => {
                if vlan.is_some() {
                    let words = "the mirror has an output port as well; ignored";
                    self.warn(place, "output_vlan", words);
                }
                let name = self.row("Port", port).and_then(|port| port.str("name"));
                if !bridge.row.uuids("ports").contains(&port) {
                    let words = "the port is not on the mirror's bridge; the mirror is ignored";
                    self.warn(place, "output_port", words);
                    return None;
                }
                MirrorOutput::Port(name?.to_owned())
            }
            (None, Some(vlan)) => MirrorOutput::Vlan(vlan),
            (None, None) => {
                let words = "the mirror has neither output port nor VLAN; ignored";
                self.warn(place, "output_port", words);
                return None;
            }
        };
        let filter = match filter(row.str("filter").unwrap_or_default()) {
            Ok(filter) => filter,
            Err(error) => {
                self.warn(place, "filter", format!("{error}; the mirror is ignored"));
                return None;
            }
        };
        Some(MirrorConfig {
            id,
            filter,
            all: row.opt_bool("select_all").unwrap_or_default(),
            sources: self.names_of_ports(row, "select_src_port"),
            destinations: self.names_of_ports(row, "select_dst_port"),
            vlans: vlans(row, "select_vlan").into_iter().collect(),
            snaplen: row.opt_i64("snaplen").and_then(|it| it.try_into().ok()).unwrap_or_default(),
            output,
        })
    }

    fn names_of_ports(&self, row: &Row, column: &str) -> BTreeSet<String> {
        let ports = row.uuids(column);
        let names = ports.iter().filter_map(|port| self.row("Port", *port)?.str("name"));
        names.map(str::to_owned).collect()
    }
}

/// Parses a filter, in the syntax of flows. Copies by port are selected with the columns for that (ovs:
/// `ofproto/ofproto-dpif-mirror.c`, `mirror_set`).
fn filter(text: &str) -> Result<Option<Box<Match>>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let filter = openflow::text::parse_match(text, &|_| None).map_err(|error| error.to_string())?;
    if filter.mask().has(Field::InPort) {
        return Err("in_port is selected by select_src_port".to_owned());
    }
    if !filter.options().is_empty() {
        return Err("options of tunnels cannot be matched".to_owned());
    }
    Ok(Some(Box::new(filter)))
}

#[cfg(test)]
mod tests {
    use crate::Desired;
    use crate::fixture::{replica, uuid};
    use ofproto::{MirrorConfig, MirrorId, MirrorOutput};
    use openflow::text::format_match;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    /// Mirrors and warnings of a row, on a bridge with ports p0 and p1; port p2 is on another bridge.
    fn mirror(row: Value) -> (Vec<MirrorConfig>, Vec<String>) {
        let mut row = row;
        row.as_object_mut().unwrap().insert("name".into(), json!("m"));
        let ports = json!(["set", [uuid(3), uuid(4)]]);
        let (desired, warnings) = Desired::from_rows(&replica(&[
            ("Open_vSwitch", 1, json!({"bridges": uuid(2)})),
            ("Bridge", 2, json!({"name": "br0", "ports": ports, "mirrors": uuid(6)})),
            ("Port", 3, json!({"name": "p0"})),
            ("Port", 4, json!({"name": "p1"})),
            ("Port", 5, json!({"name": "p2"})),
            ("Mirror", 6, row),
        ]));
        let of_mirrors = |text: &String| text.starts_with("Mirror");
        let warnings = warnings.iter().map(ToString::to_string).filter(of_mirrors).collect();
        (desired.bridges["br0"].settings.mirrors.clone(), warnings)
    }

    #[test]
    fn a_row_becomes_a_mirror_if_its_copies_have_a_place() {
        let expected = MirrorConfig {
            id: MirrorId(0x4000_8000_0000_0000_0006),
            filter: None,
            all: false,
            sources: BTreeSet::from(["p0".to_owned()]),
            destinations: BTreeSet::from(["p0".to_owned(), "p1".to_owned()]),
            vlans: BTreeSet::from([3, 7]),
            snaplen: 0,
            output: MirrorOutput::Port("p1".to_owned()),
        };
        let row = json!({
            "select_src_port": uuid(3), "select_dst_port": ["set", [uuid(3), uuid(4)]],
            "select_vlan": ["set", [7, 3]], "output_port": uuid(4),
        });
        assert_eq!(mirror(row), (vec![expected], vec![]));
        let (found, warnings) = mirror(json!({"output_vlan": 12, "select_all": true}));
        assert_eq!((&found[0].output, found[0].all), (&MirrorOutput::Vlan(12), true));
        assert_eq!(warnings, Vec::<String>::new());
        let both = mirror(json!({"output_vlan": 12, "output_port": uuid(3), "snaplen": 100}));
        assert_eq!(both.0[0].output, MirrorOutput::Port("p0".to_owned()));
        assert_eq!(both.0[0].snaplen, 100);
        let filtered = mirror(json!({"output_vlan": 12, "filter": "tcp,tp_dst=80"}));
        let filter = filtered.0[0].filter.as_deref().map(|it| format_match(it, None));
        assert_eq!((filter.as_deref(), filtered.1), (Some("tcp,tp_dst=80"), vec![]));
        assert_eq!(mirror(json!({"output_vlan": 12, "filter": ""})).0[0].filter, None);
        assert_eq!(
            both.1,
            ["Mirror m: output_vlan: the mirror has an output port as well; ignored"]
        );
        for (row, warning) in [
            (
                json!({}),
                "Mirror m: output_port: the mirror has neither output port nor VLAN; ignored",
            ),
            (
                json!({"output_port": uuid(5)}),
                "Mirror m: output_port: the port is not on the mirror's bridge; the mirror is ignored",
            ),
        ] {
            assert_eq!(mirror(row), (vec![], vec![warning.to_owned()]));
        }
    }
}
