//! Commands that show what this switch has none of: bonds, LACP, CFM, spanning trees, multicast groups and QoS. They
//! answer as Open vSwitch does where none is configured, since tools such as `sos` call all of them.

use super::{Answer, add};
use crate::Switch;
use daemon::unixctl::Commands;

/// A command for all objects of a kind, or for a named one, which does not exist.
struct Listing {
    name: &'static str,
    usage: &'static str,
    /// The answer without a name.
    all: &'static str,
    /// The error for a name.
    unknown: &'static str,
}

const LISTINGS: [Listing; 9] = [
    listing("bond/show", "[port]", "no such bond"),
    listing("lacp/show", "[port]", "no such lacp object"),
    listing("lacp/show-stats", "[port]", "no such lacp object"),
    listing("cfm/show", "[interface]", "no such CFM object"),
    listing("stp/show", "[bridge]", "no such stp object"),
    listing("rstp/show", "[bridge]", "No such RSTP object"),
    Listing { all: "OK", ..listing("stp/tcn", "[bridge]", "no such stp object") },
    Listing { all: "OK", ..listing("rstp/tcn", "[bridge]", "No such RSTP object") },
    Listing { name: "bond/list", usage: "", all: "bond\ttype\trecircID\tmembers\n", unknown: "" },
];

/// Commands that change a bond, with the number of their arguments.
const OF_BONDS: [(&str, &str, usize); 4] = [
    ("bond/migrate", "port hash member", 3),
    ("bond/set-active-member", "port member", 2),
    ("bond/enable-member", "port member", 2),
    ("bond/disable-member", "port member", 2),
];

/// Commands without an error for a name (ovs: `lib/ovs-lldp.c`).
const OF_AUTO_ATTACH: [&str; 3] =
    ["autoattach/status", "autoattach/show-isid", "autoattach/statistics"];

/// Commands that list implementations of a part of the datapath, of which there is one (ovs: `lib/dpif-netdev.c`).
const IMPLEMENTATIONS: [(&str, &str); 5] = [
    ("dpif-netdev/dpif-impl-get", "Available DPIF implementations:\n  dpif_scalar (pmds: none)\n"),
    (
        "dpif-netdev/miniflow-parser-get",
        "Available MFEX implementations:\n  scalar (available: True pmds: none)\n",
    ),
    ("dpif-netdev/subtable-lookup-info-get", LOOKUPS),
    ("dpif-netdev/subtable-lookup-prio-get", LOOKUPS),
    (
        "odp-execute/action-impl-show",
        "Available Actions implementations:\n  scalar (available: Yes, active: Yes)\n",
    ),
];

const LOOKUPS: &str = "Available dpcls implementations:\n  generic (Use count: 0, Priority: 1)\n";

const fn listing(name: &'static str, usage: &'static str, unknown: &'static str) -> Listing {
    Listing { name, usage, all: "", unknown }
}

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    for Listing { name, usage, all, unknown } in LISTINGS {
        let most = usize::from(!usage.is_empty());
        add(commands, name, usage, 0..=most, move |_, words| match words {
            [] => Ok(all.to_owned()),
            _ => Err(unknown.to_owned()),
        });
    }
    for (name, usage, count) in OF_BONDS {
        add(commands, name, usage, count..=count, |_, _| Err("no such bond".to_owned()));
    }
    for name in OF_AUTO_ATTACH {
        add(commands, name, "[bridge]", 0..=1, |_, _| Ok(String::new()));
    }
    for (name, text) in IMPLEMENTATIONS {
        add(commands, name, "", 0..=0, move |_, _| Ok(text.to_owned()));
    }
    add(commands, "dpif-netdev/bond-show", "[dp]", 0..=1, |switch, words| {
        super::Arguments::read_of(switch, words)?.end().map(|()| String::new())
    });
    add(commands, "cfm/set-fault", "[interface] normal|false|true", 1..=2, |_, words| {
        let word = words.last().map_or("", String::as_str);
        match ["normal", "false", "true"].iter().any(|known| known.eq_ignore_ascii_case(word)) {
            false => Err("unknown fault string".to_owned()),
            true if words.len() > 1 => Err("no such CFM object".to_owned()),
            true => Ok("OK".to_owned()),
        }
    });
    add(commands, "mdb/show", "bridge", 1..=1, snooped);
    add(commands, "mdb/flush", "[bridge]", 0..=1, |switch, words| match words {
        [] => Ok("table successfully flushed".to_owned()),
        _ => snooped(switch, words),
    });
    add(commands, "qos/show", "interface", 1..=1, |switch, words| {
        of_interface(switch, words).map(|name| format!("QoS not configured on {name}\n"))
    });
    add(commands, "qos/show-types", "interface", 1..=1, |switch, words| {
        of_interface(switch, words)
            .map(|name| format!("No QoS types supported for interface: {name}\n"))
    });
}

/// A bridge's multicast groups (ovs: `ofproto/ofproto-dpif.c`, `ofproto_unixctl_mcast_snooping_show`).
fn snooped(switch: &mut Switch, words: &[String]) -> Answer {
    Err(match words.iter().find(|name| switch.ofproto().bridges().named(name).is_none()) {
        Some(_) => "no such bridge".to_owned(),
        None => "multicast snooping is disabled".to_owned(),
    })
}

/// The name of an interface that a bridge has.
fn of_interface<'a>(switch: &Switch, words: &'a [String]) -> Result<&'a str, String> {
    let name = words.first().map_or("", String::as_str);
    let mut bridges = switch.ofproto().bridges().iter();
    match bridges.any(|bridge| bridge.port_named(name).is_some()) {
        true => Ok(name),
        false => Err("no such interface".to_owned()),
    }
}
