//! Commands about tunnels and the underlay's neighbours (ovs: `lib/tnl-neigh-cache.c`, `lib/tnl-ports.c`,
//! `lib/netdev-native-tnl.c`, `ofproto/tunnel.c`).

use super::{Answer, add};
use crate::Switch;
use daemon::unixctl::Commands;
use ofproto::PortDevice;
use ofproto::text::{PortNames, format_flow};
use std::fmt::Write;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    add_neighbours(commands, ["tnl/arp/show", "tnl/arp/set", "tnl/arp/flush", "tnl/arp/aging"]);
    let names = ["tnl/neigh/show", "tnl/neigh/set", "tnl/neigh/flush", "tnl/neigh/aging"];
    add_neighbours(commands, names);
    add(commands, "tnl/ports/show", "-v", 0..=1, show_ports);
    add(commands, "tnl/egress_port_range", "min max", 0..=2, source_ports);
    add(commands, "ofproto/list-tunnels", "", 0..=0, |switch, _| Ok(list(switch)));
}

/// Adds the commands to show, set, flush and age neighbours, with these names.
fn add_neighbours(commands: &mut Commands<Switch>, names: [&'static str; 4]) {
    let [show, set, flush, aging] = names;
    add(commands, show, "", 0..=0, |switch, _| {
        Ok(switch.ofproto().underlay().neighbours.show(clock::now()))
    });
    add(commands, set, "BRIDGE IP MAC", 3..=3, set_neighbour);
    add(commands, flush, "", 0..=0, |switch, _| {
        switch.ofproto_mut().flush_neighbours();
        Ok("OK".to_owned())
    });
    add(commands, aging, "[SECS]", 0..=1, neighbour_aging);
}

fn set_neighbour(switch: &mut Switch, words: &[String]) -> Answer {
    let ip = words[1].parse().map_err(|_| "bad IP address")?;
    let mac = words[2].parse().map_err(|_| "bad MAC address")?;
    switch.ofproto_mut().learn_neighbour(clock::now(), &words[0], ip, mac);
    Ok("OK".to_owned())
}

fn neighbour_aging(switch: &mut Switch, words: &[String]) -> Answer {
    let Some(word) = words.first() else {
        return Ok(switch.ofproto().underlay().neighbours.aging_s().to_string());
    };
    let aging_s = word.parse().map_err(|_| "bad aging value")?;
    match switch.ofproto_mut().set_neighbour_aging_s(clock::now(), aging_s) {
        true => Ok("OK".to_owned()),
        false => Err("bad aging value".to_owned()),
    }
}

fn show_ports(switch: &mut Switch, words: &[String]) -> Answer {
    let ports = &switch.ofproto().underlay().ports;
    if words.first().is_none_or(|word| !word.eq_ignore_ascii_case("-v")) {
        return Ok(ports.show());
    }
    let mut text = "Listening ports:\n".to_owned();
    for (name, port, key, mask) in ports.matches() {
        let flow = format_flow(&key, &mask, false, PortNames::default());
        let _ = writeln!(text, "{name} ({port}) : {flow}");
    }
    Ok(text)
}

fn source_ports(switch: &mut Switch, words: &[String]) -> Answer {
    let [least, greatest] = words else {
        let (least, greatest) = switch.ofproto().underlay().source_ports;
        return Ok(format!("Tunnel UDP source port range: {least}-{greatest}\n"));
    };
    let port = |word: &String| word.parse::<u16>().ok().filter(|port| *port > 0);
    let least = port(least).ok_or("Invalid min.")?;
    let greatest = port(greatest).ok_or("Invalid max.")?;
    let ports = (least.min(greatest), least.max(greatest));
    switch.ofproto_mut().set_source_ports(ports);
    Ok("OK".to_owned())
}

fn list(switch: &Switch) -> String {
    let tunnels = switch.ofproto().bridges().tunnels();
    let mut lines: Vec<String> = tunnels
        .filter_map(|(_, port)| match &port.spec.device {
            PortDevice::Tunnel { device, config } => {
                Some(config.describe(&port.spec.name, *device) + "\n")
            }
            _ => None,
        })
        .collect();
    lines.sort();
    lines.concat()
}
