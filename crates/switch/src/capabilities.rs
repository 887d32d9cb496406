//! Capabilities of the datapath, for the database and `dpif/show-dp-features`.

use flow::VlanLimit;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Capabilities of Open vSwitch's userspace datapath that this switch does not have.
const LACKING: [(&str, &str); 2] = [("lb_output_action", "false"), ("sample_nesting", "false")];

/// The title of each capability, in Open vSwitch's words and order (ovs: `ofproto/ofproto-dpif.c`,
/// `dpif_show_support`; `lib/odp-util.h`).
const TITLES: [(&str, &str); 26] = [
    ("masked_set_action", "Masked set action"),
    ("tnl_push_pop", "Tunnel push pop"),
    ("ufid", "Ufid"),
    ("trunc", "Truncate action"),
    ("clone", "Clone action"),
    ("sample_nesting", "Sample nesting"),
    ("ct_eventmask", "Conntrack eventmask"),
    ("ct_clear", "Conntrack clear"),
    ("max_hash_alg", "Max dp_hash algorithm"),
    ("check_pkt_len", "Check pkt length action"),
    ("ct_timeout", "Conntrack timeout policy"),
    ("explicit_drop_action", "Explicit Drop action"),
    ("lb_output_action", "Optimized Balance TCP mode"),
    ("ct_zero_snat", "Conntrack all-zero IP SNAT"),
    ("add_mpls", "MPLS Label add"),
    ("max_vlan_headers", "Max VLAN headers"),
    ("max_mpls_depth", "Max MPLS depth"),
    ("recirc", "Recirc"),
    ("ct_state", "CT state"),
    ("ct_zone", "CT zone"),
    ("ct_mark", "CT mark"),
    ("ct_label", "CT label"),
    ("ct_state_nat", "CT state NAT"),
    ("ct_orig_tuple", "CT orig tuple"),
    ("ct_orig_tuple6", "CT orig tuple for IPv6"),
    ("nd_ext", "IPv6 ND Extension"),
];

/// The log lines for each capability when the first bridge is added: Open vSwitch then probes its datapath,
/// and tools look for these lines (ovs: `ofproto/ofproto-dpif.c`, `check_support`).
const PROBES: [(&str, &str); 22] = [
    ("recirc", "recirculation"),
    ("max_vlan_headers", "VLAN header stack length probed as"),
    ("max_mpls_depth", "MPLS label stack length probed as"),
    ("trunc", "truncate action"),
    ("ufid", "unique flow ids"),
    ("clone", "clone action"),
    ("sample_nesting", "Max sample nesting level probed as"),
    ("ct_eventmask", "eventmask in conntrack action"),
    ("ct_clear", "ct_clear action"),
    ("max_hash_alg", "Max dp_hash algorithm probed to be"),
    ("check_pkt_len", "check_pkt_len action"),
    ("ct_timeout", "timeout policy in conntrack action"),
    ("ct_zero_snat", "ct_zero_snat"),
    ("add_mpls", "add_mpls action"),
    ("ct_state", "ct_state"),
    ("ct_zone", "ct_zone"),
    ("ct_mark", "ct_mark"),
    ("ct_label", "ct_label"),
    ("ct_state_nat", "ct_state_nat"),
    ("ct_orig_tuple", "ct_orig_tuple"),
    ("ct_orig_tuple6", "ct_orig_tuple6"),
    ("nd_ext", "IPv6 ND Extensions"),
];

/// Returns the values for `Datapath.capabilities`.
pub fn capabilities() -> BTreeMap<String, String> {
    let mut capabilities = control::userspace_capabilities();
    for (name, value) in LACKING {
        capabilities.insert(name.to_owned(), value.to_owned());
    }
    // Open vSwitch probes its datapath, which also respects the limit.
    let vlans = VlanLimit::current().headers().to_string();
    capabilities.insert("max_vlan_headers".to_owned(), vlans);
    capabilities
}

/// Returns the text of `dpif/show-dp-features`.
pub fn describe() -> String {
    let capabilities = capabilities();
    let mut text = String::new();
    for (name, title) in TITLES {
        let value = match capabilities.get(name).map_or("false", String::as_str) {
            // The maximum nesting of samples; the database only contains whether nesting is possible.
            "false" if name == "sample_nesting" => "0",
            "true" => "Yes",
            "false" => "No",
            number => number,
        };
        let _ = writeln!(text, "{title}: {value}");
    }
    text
}

/// Returns each capability's name, title and value.
pub fn all() -> Vec<(&'static str, &'static str, String)> {
    let capabilities = capabilities();
    let value = |name: &str| match capabilities.get(name).map_or("false", String::as_str) {
        "false" if name == "sample_nesting" => "0".to_owned(),
        value => value.to_owned(),
    };
    TITLES.iter().map(|&(name, title)| (name, title, value(name))).collect()
}

/// Returns the log lines, in Open vSwitch's words.
pub fn probes(datapath: &str) -> impl Iterator<Item = String> {
    let capabilities = capabilities();
    PROBES.iter().map(move |(name, words)| {
        let value = capabilities.get(*name).map_or("false", String::as_str);
        match (words.contains("probed"), value) {
            (true, "false") => format!("{datapath}: {words} 0"),
            (true, number) => format!("{datapath}: {words} {number}"),
            (false, "true") => format!("{datapath}: Datapath supports {words}"),
            (false, _) => format!("{datapath}: Datapath does not support {words}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_what_the_datapath_can_do() {
        let lines: Vec<String> = probes("netdev@ovs-netdev").collect();
        for line in [
            "netdev@ovs-netdev: Datapath supports ct_clear action",
            "netdev@ovs-netdev: Datapath supports truncate action",
            "netdev@ovs-netdev: Datapath supports add_mpls action",
            "netdev@ovs-netdev: MPLS label stack length probed as 3",
            "netdev@ovs-netdev: Max sample nesting level probed as 0",
        ] {
            assert!(lines.iter().any(|it| it == line), "{line}: {lines:#?}");
        }
        let capabilities = capabilities();
        assert!(PROBES.iter().all(|(name, _)| capabilities.contains_key(*name)));
    }

    #[test]
    fn every_capability_has_its_title() {
        let named: Vec<&str> = TITLES.iter().map(|(name, _)| *name).collect();
        let untold: Vec<String> =
            capabilities().into_keys().filter(|name| !named.contains(&name.as_str())).collect();
        // Open vSwitch 3.1 writes this one only to the database.
        assert_eq!(untold, ["ct_flush"]);
        let text = describe();
        for line in ["Recirc: Yes\n", "Truncate action: Yes\n", "Sample nesting: 0\n"] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(text.lines().count() + untold.len(), capabilities().len());
    }
}
