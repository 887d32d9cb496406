//! Commands about tunnels and the underlay (ovs: `lib/ovs-router.c`, `lib/tnl-neigh-cache.c`,
//! `lib/tnl-ports.c`, `lib/netdev-native-tnl.c`, `ofproto/tunnel.c`).

use super::{Answer, add};
use crate::Switch;
use daemon::unixctl::Commands;
use ofproto::PortDevice;
use ofproto::text::{PortNames, format_flow};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    let usage = "ip_addr/prefix_len out_br_name [gw] [pkt_mark=mark]";
    add(commands, "ovs/route/add", usage, 2..=4, add_route);
    add(commands, "ovs/route/del", "ip_addr/prefix_len [pkt_mark=mark]", 1..=2, delete_route);
    add(commands, "ovs/route/show", "", 0..=0, |switch, _| {
        Ok(switch.ofproto().underlay().routes.show())
    });
    add(commands, "ovs/route/lookup", "ip_addr [pkt_mark=mark]", 1..=2, look_up_route);
    add_neighbours(commands, ["tnl/arp/show", "tnl/arp/set", "tnl/arp/flush", "tnl/arp/aging"]);
    let names = ["tnl/neigh/show", "tnl/neigh/set", "tnl/neigh/flush", "tnl/neigh/aging"];
    add_neighbours(commands, names);
    add(commands, "tnl/ports/show", "-v", 0..=1, show_ports);
    add(commands, "tnl/egress_port_range", "min max", 0..=2, source_ports);
    add(commands, "ofproto/list-tunnels", "", 0..=0, |switch, _| Ok(list(switch)));
}

/// The names are those of showing, setting, flushing and ageing.
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

/// An address with the length of a prefix, or a mask, or neither.
fn cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, rest) = text.split_once('/').map_or((text, None), |(ip, rest)| (ip, Some(rest)));
    let ip: IpAddr = ip.parse().ok()?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let len = match rest {
        None => most,
        Some(rest) => match (ip, rest.parse::<u8>()) {
            (_, Ok(len)) => len,
            (IpAddr::V4(_), _) => {
                let mask = rest.parse::<Ipv4Addr>().ok()?.to_bits();
                (mask.leading_ones() == mask.count_ones()).then(|| mask.count_ones() as u8)?
            }
            (IpAddr::V6(_), _) => {
                let mask = rest.parse::<Ipv6Addr>().ok()?.to_bits();
                (mask.leading_ones() == mask.count_ones()).then(|| mask.count_ones() as u8)?
            }
        },
    };
    (len <= most).then_some((ip, len))
}

fn mark(text: &str) -> Option<u32> {
    let number = text.strip_prefix("pkt_mark=")?;
    match number.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => number.parse().ok(),
    }
}

fn add_route(switch: &mut Switch, words: &[String]) -> Answer {
    let prefix = cidr(&words[0]).ok_or("Invalid parameters")?;
    let (mut gateway, mut packet_mark) = (None, 0);
    if let Some(word) = words.get(2) {
        let found = word.parse::<IpAddr>().ok().filter(|ip| ip.is_ipv4() == prefix.0.is_ipv4());
        match (mark(word), found) {
            (Some(number), _) => packet_mark = number,
            (None, Some(ip)) => gateway = Some(ip).filter(|ip| !ip.is_unspecified()),
            (None, None) if prefix.0.is_ipv4() => {
                return Err("Invalid pkt_mark or gateway".to_owned());
            }
            (None, None) => return Err("Invalid pkt_mark or IPv6 gateway".to_owned()),
        }
    }
    if let Some(word) = words.get(3) {
        packet_mark = mark(word).ok_or("Invalid pkt_mark")?;
    }
    match switch.ofproto_mut().add_route(prefix, packet_mark, &words[1], gateway) {
        true => Ok("OK".to_owned()),
        false => Err("Error while inserting route.".to_owned()),
    }
}

fn delete_route(switch: &mut Switch, words: &[String]) -> Answer {
    let prefix = cidr(&words[0]).ok_or("Invalid parameters")?;
    let packet_mark = words.get(1).map_or(Some(0), |word| mark(word)).ok_or("Invalid pkt_mark")?;
    match switch.ofproto_mut().remove_route(prefix, packet_mark) {
        true => Ok("OK".to_owned()),
        false => Err("Not found".to_owned()),
    }
}

fn look_up_route(switch: &mut Switch, words: &[String]) -> Answer {
    let is_whole = |(ip, len): &(IpAddr, u8)| *len == if ip.is_ipv4() { 32 } else { 128 };
    let (ip, _) = cidr(&words[0]).filter(is_whole).ok_or("Invalid parameters")?;
    let packet_mark = words.get(1).map_or(Some(0), |word| mark(word)).ok_or("Invalid pkt_mark")?;
    let hop = switch.ofproto().underlay().routes.lookup(packet_mark, ip, None);
    let hop = hop.ok_or("Not found")?;
    let gateway = hop.gateway.map_or_else(|| "::".to_owned(), |ip| ip.to_string());
    Ok(format!("src {}\ngateway {gateway}\ndev {}\n", hop.source, hop.device))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_have_a_length_or_a_mask() {
        let check = |text, expect: Option<(&str, u8)>| {
            let expect = expect.map(|(ip, len)| (ip.parse().unwrap(), len));
            assert_eq!(cidr(text), expect, "{text}");
        };
        check("10.0.0.0/8", Some(("10.0.0.0", 8)));
        check("10.0.0.0/255.0.0.0", Some(("10.0.0.0", 8)));
        check("10.0.0.1", Some(("10.0.0.1", 32)));
        check("fd00::/64", Some(("fd00::", 64)));
        check("fd00::/ffff::", Some(("fd00::", 16)));
        check("10.0.0.0/33", None);
        check("10.0.0.0/255.0.255.0", None);
        check("10.0.0", None);
        assert_eq!(
            [mark("pkt_mark=0x10"), mark("pkt_mark=7"), mark("7")],
            [Some(16), Some(7), None]
        );
    }
}
