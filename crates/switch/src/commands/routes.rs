//! Commands about the underlay's routes and rules (ovs: `lib/ovs-router.c`).

use super::{Answer, add};
use crate::Switch;
use daemon::unixctl::Commands;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tunnel::{Route, Rule, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, UserRoute, Which};

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    let usage = "ip_addr/prefix_len out_br_name [gw] [pkt_mark=mark] [src=src_ip] [table=id]";
    add(commands, "ovs/route/add", usage, 2..=6, add_route);
    let usage = "ip_addr/prefix_len [pkt_mark=mark] [table=id]";
    add(commands, "ovs/route/del", usage, 1..=3, delete_route);
    add(commands, "ovs/route/show", "[table=all|id]", 0..=1, show_routes);
    let usage = "ip_addr [pkt_mark=mark] [src=src_ip]";
    add(commands, "ovs/route/lookup", usage, 1..=3, look_up_route);
    add(commands, "ovs/route/rule/show", "[-6]", 0..=1, |switch, words| {
        Ok(switch.ofproto().underlay().routes.show_rules(is_of_ipv4(words)))
    });
    commands.add_document("ovs/route/show", routes_document);
    commands.add_document("ovs/route/rule/show", rules_document);
    let usage = "[-6] [not] from=all|ip/plen [prio=num] table=local|main|default|id";
    add(commands, "ovs/route/rule/add", usage, 2..=5, |switch, words| {
        switch.ofproto_mut().add_route_rule(rule(words)?);
        Ok("OK".to_owned())
    });
    add(commands, "ovs/route/rule/del", usage, 2..=5, |switch, words| {
        match switch.ofproto_mut().remove_route_rule(&rule(words)?) {
            true => Ok("OK".to_owned()),
            // -ENOENT, which is no error number.
            false => Err("Failed to delete router rule: -2 (Unknown error -2)".to_owned()),
        }
    });
}

/// Parses an address with a prefix length, a mask, or neither.
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

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The options after a prefix.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    mark: u32,
    gateway: Option<IpAddr>,
    source: Option<IpAddr>,
    table: u32,
}

impl Options {
    /// Parses the options after a prefix of this family. Only those in `known` are valid; `error` is returned
    /// for others.
    fn read(
        words: &[String],
        is_ipv4: bool,
        known: &[&str],
        error: &str,
    ) -> Result<Options, String> {
        let mut options = Options { mark: 0, gateway: None, source: None, table: TABLE_MAIN };
        let ip = |text: &str| text.parse::<IpAddr>().ok().filter(|ip| ip.is_ipv4() == is_ipv4);
        let given = |ip: IpAddr| Some(ip).filter(|ip| !ip.is_unspecified());
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or(("gw", word));
            if !known.contains(&name) {
                return Err(error.to_owned());
            }
            match name {
                "pkt_mark" => options.mark = number(value).ok_or(error)?,
                "table" => options.table = number(value).ok_or("Invalid table format")?,
                "src" => options.source = given(ip(value).ok_or(error)?),
                _ => options.gateway = given(ip(value).ok_or(error)?),
            }
        }
        Ok(options)
    }
}

fn add_route(switch: &mut Switch, words: &[String]) -> Answer {
    let prefix = cidr(&words[0]).ok_or("Invalid 'ip/plen' parameter")?;
    let is_ipv4 = prefix.0.is_ipv4();
    let error = "Invalid pkt_mark, IP gateway or src_ip";
    let known = ["gw", "pkt_mark", "src", "table"];
    let Options { mark, gateway, source, table } =
        Options::read(&words[2..], is_ipv4, &known, error)?;
    let device = words[1].clone();
    let route = UserRoute { table, mark, prefix, device, gateway, source };
    match switch.ofproto_mut().add_route(route) {
        true => Ok("OK".to_owned()),
        false => Err("Error while inserting route.".to_owned()),
    }
}

fn delete_route(switch: &mut Switch, words: &[String]) -> Answer {
    let prefix = cidr(&words[0]).ok_or("Invalid parameters")?;
    let error = "Invalid pkt_mark or table";
    let is_ipv4 = prefix.0.is_ipv4();
    let options = Options::read(&words[1..], is_ipv4, &["pkt_mark", "table"], error)?;
    if !switch.ofproto().underlay().routes.has_table(options.table) {
        let word = words[1..].iter().find(|word| word.starts_with("table="));
        return Err(format!(
            "Table {}not found",
            word.map_or_else(String::new, |it| format!("{it} "))
        ));
    }
    match switch.ofproto_mut().remove_route(options.table, prefix, options.mark) {
        true => Ok("OK".to_owned()),
        false => Err("Not found".to_owned()),
    }
}

fn show_routes(switch: &mut Switch, words: &[String]) -> Answer {
    Ok(switch.ofproto().underlay().routes.show(which(switch, words)?))
}

/// The document of `ovs/route/show` (ovs: `lib/ovs-router.c`, `ovs_router_show_json`).
fn routes_document(switch: &mut Switch, words: &[String]) -> Result<Value, String> {
    let which = which(switch, words)?;
    let routes = switch.ofproto().underlay().routes.listed(which).into_iter();
    Ok(routes.map(|(table, route)| document_of(table, route)).collect())
}

fn document_of(table: u32, route: &Route) -> Value {
    let mut hop = json!({ "dev": route.device });
    if let Some(gateway) = route.gateway {
        hop["gateway"] = json!(gateway.to_string());
    }
    let mut document = json!({
        "table": table,
        "user": route.is_user,
        "local": table == TABLE_LOCAL && !route.is_user,
        "prefix": route.len,
        "dst": route.prefix.to_string(),
        "prefsrc": route.source.to_string(),
        "nexthops": [hop],
    });
    if route.mark != 0 {
        document["mark"] = json!(route.mark);
    }
    document
}

/// Parses the word that chooses tables.
fn which(switch: &Switch, words: &[String]) -> Result<Which, String> {
    let Some(word) = words.first() else { return Ok(Which::Standard) };
    let table = word.strip_prefix("table=").ok_or("Invalid table format")?;
    if table == "all" {
        return Ok(Which::All);
    }
    match number(table).ok_or("Invalid table format")? {
        0 => Ok(Which::Standard),
        table if switch.ofproto().underlay().routes.has_table(table) => Ok(Which::One(table)),
        _ => Err(format!("Table '{word}' not found")),
    }
}

fn is_of_ipv4(words: &[String]) -> bool {
    words.first().is_none_or(|word| word != "-6")
}

/// The document of `ovs/route/rule/show` (ovs: `lib/ovs-router.c`, `ovs_router_rules_show_json`).
fn rules_document(switch: &mut Switch, words: &[String]) -> Result<Value, String> {
    let routes = &switch.ofproto().underlay().routes;
    let rules = routes.listed_rules(is_of_ipv4(words)).map(|rule| {
        json!({
            "priority": rule.priority,
            "user": rule.is_user,
            "invert": rule.is_inverted,
            "ipv4": rule.prefix.is_ipv4(),
            "src-prefix": rule.len,
            "lookup": rule.table,
            "from": if rule.len == 0 { "all".to_owned() } else { rule.prefix.to_string() },
        })
    });
    Ok(rules.collect())
}

fn look_up_route(switch: &mut Switch, words: &[String]) -> Answer {
    let is_whole = |(ip, len): &(IpAddr, u8)| *len == if ip.is_ipv4() { 32 } else { 128 };
    let (ip, _) = cidr(&words[0]).filter(is_whole).ok_or("Invalid 'ip/plen' parameter")?;
    let error = "Invalid pkt_mark or src";
    let options = Options::read(&words[1..], ip.is_ipv4(), &["pkt_mark", "src"], error)?;
    let routes = &switch.ofproto().underlay().routes;
    let hop = routes.lookup(options.mark, ip, options.source).ok_or("Not found")?;
    let gateway = hop.gateway.map_or_else(|| "::".to_owned(), |ip| ip.to_string());
    Ok(format!("src {}\ngateway {gateway}\ndev {}\n", hop.source, hop.device))
}

/// Parses a rule; the priority is 0 by default.
fn rule(words: &[String]) -> Result<Rule, String> {
    let mut words = words.iter().map(String::as_str).peekable();
    let is_ipv6 = words.next_if_eq(&"-6").is_some();
    let is_inverted = words.next_if_eq(&"not").is_some();
    let from = words.next().and_then(|word| word.strip_prefix("from="));
    let (prefix, len) = match from.ok_or("Invalid 'from' parameter")? {
        "all" if is_ipv6 => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
        "all" => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        from => {
            cidr(from).filter(|(ip, _)| ip.is_ipv6() || !is_ipv6).ok_or("Invalid from=ip/plen")?
        }
    };
    let mut word = words.next().ok_or("Not enough arguments")?;
    let mut priority = 0;
    if let Some(value) = word.strip_prefix("prio=") {
        priority = number(value).ok_or("Invalid 'prio' format")?;
        word = words.next().ok_or("Not enough arguments")?;
    }
    let table = match word.strip_prefix("table=") {
        Some("local") => Some(TABLE_LOCAL),
        Some("main") => Some(TABLE_MAIN),
        Some("default") => Some(TABLE_DEFAULT),
        Some(table) => number(table),
        None => None,
    };
    let table = table.ok_or("Invalid 'table' format")?;
    Ok(Rule { priority, is_user: true, is_inverted, prefix, len, table })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

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
    }

    #[test]
    fn options_stand_in_any_order_and_bad_ones_are_answered() {
        let read = |text| {
            let known = ["gw", "pkt_mark", "src", "table"];
            let read = Options::read(&words(text), true, &known, "bad");
            read.map(|it| (it.mark, it.gateway, it.source, it.table))
        };
        let ip = |text: &str| text.parse::<IpAddr>().ok();
        let check = |text, expect| assert_eq!(read(text), Ok(expect), "{text}");
        check("", (0, None, None, TABLE_MAIN));
        check("pkt_mark=0x10 10.0.0.9", (16, ip("10.0.0.9"), None, TABLE_MAIN));
        check("10.0.0.9 src=10.0.0.1 table=7", (0, ip("10.0.0.9"), ip("10.0.0.1"), 7));
        check("0.0.0.0", (0, None, None, TABLE_MAIN));
        for bad in ["pkt_mark=x", "fd00::1", "src=x", "via=10.0.0.1", "10.0.0"] {
            assert_eq!(read(bad), Err("bad".to_owned()), "{bad}");
        }
        assert_eq!(read("table=x"), Err("Invalid table format".to_owned()));
        let mark_only = Options::read(&words("10.0.0.9"), true, &["pkt_mark"], "bad");
        assert_eq!(mark_only, Err("bad".to_owned()));
    }

    #[test]
    fn rules_are_read_as_by_open_vswitch() {
        let check = |text, expect: Result<(u32, bool, &str, u8, u32), &str>| {
            let read = rule(&words(text));
            let expect = expect.map(|(priority, is_inverted, prefix, len, table)| {
                let prefix = prefix.parse().unwrap();
                Rule { priority, is_user: true, is_inverted, prefix, len, table }
            });
            assert_eq!(read, expect.map_err(str::to_owned), "{text}");
        };
        check("from=all table=main", Ok((0, false, "0.0.0.0", 0, TABLE_MAIN)));
        check("-6 from=all prio=5 table=local", Ok((5, false, "::", 0, TABLE_LOCAL)));
        check("not from=10.0.0.1 table=7", Ok((0, true, "10.0.0.1", 32, 7)));
        check("from=fd00::/16 table=default", Ok((0, false, "fd00::", 16, TABLE_DEFAULT)));
        check("to=all table=7", Err("Invalid 'from' parameter"));
        check("from=10.0.0 table=7", Err("Invalid from=ip/plen"));
        check("-6 from=10.0.0.1 table=7", Err("Invalid from=ip/plen"));
        check("from=all prio=5", Err("Not enough arguments"));
        check("from=all", Err("Not enough arguments"));
        check("from=all prio=x table=7", Err("Invalid 'prio' format"));
        check("from=all table=x", Err("Invalid 'table' format"));
    }
}
