use super::*;
use crate::Addresses;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn addresses(all: &[(&str, &str, u8)]) -> Addresses {
    let mut addresses = Addresses::new();
    for (device, address, len) in all {
        addresses.entry((*device).to_owned()).or_default().push((ip(address), *len));
    }
    addresses
}

fn system(prefix: &str, len: u8, device: &str, gateway: Option<&str>) -> SystemRoute {
    let is_local = gateway.is_none() && matches!(len, 32 | 128);
    SystemRoute {
        table: if is_local { TABLE_LOCAL } else { TABLE_MAIN },
        prefix: ip(prefix),
        len,
        metric: 0,
        device: device.to_owned(),
        gateway: gateway.map(ip),
        source: None,
        mtu: None,
    }
}

fn user(prefix: &str, len: u8, mark: u32, device: &str, gateway: Option<&str>) -> UserRoute {
    UserRoute {
        table: TABLE_MAIN,
        mark,
        prefix: (ip(prefix), len),
        device: device.to_owned(),
        gateway: gateway.map(ip),
        source: None,
    }
}

fn rule(text: &str, table: u32) -> Rule {
    let (is_inverted, from) = text.strip_prefix("not ").map_or((false, text), |it| (true, it));
    let (prefix, len) = from.split_once('/').unwrap();
    let len = len.parse().unwrap();
    Rule { priority: 0, is_user: true, is_inverted, prefix: ip(prefix), len, table }
}

fn set(routes: &mut Routes, all: SystemRouting) -> bool {
    routes.set_system(Arc::new(SystemRoutes::new(all)))
}

fn routes() -> Routes {
    let mut routes = Routes::default();
    let kernel = vec![
        system("10.1.0.0", 24, "br0", None),
        system("10.1.0.1", 32, "br0", None),
        system("0.0.0.0", 0, "br0", Some("10.1.0.254")),
        system("fd00::", 64, "br1", None),
        system("10.9.0.0", 24, "none", None),
    ];
    let known = addresses(&[("br0", "10.1.0.1", 24), ("br1", "fd00::1", 64)]);
    let all = SystemRouting { routes: kernel, addresses: known, ..SystemRouting::default() };
    assert!(set(&mut routes, all.clone()));
    assert!(!set(&mut routes, all));
    routes
}

fn check(
    routes: &Routes,
    mark: u32,
    to: &str,
    from: Option<&str>,
    expect: Option<(&str, &str, Option<&str>)>,
) {
    let found = routes.lookup(mark, ip(to), from.map(ip));
    let expect = expect.map(|(device, source, gateway)| Hop {
        device: device.to_owned(),
        source: ip(source),
        gateway: gateway.map(ip),
        mtu: None,
    });
    assert_eq!(found, expect, "{to} with mark {mark} from {from:?}");
}

#[test]
fn the_longest_prefix_counts_and_the_users_before_the_systems() {
    let mut routes = routes();
    check(&routes, 0, "10.1.0.7", None, Some(("br0", "10.1.0.1", None)));
    check(&routes, 0, "10.2.0.7", None, Some(("br0", "10.1.0.1", Some("10.1.0.254"))));
    check(&routes, 1, "10.2.0.7", None, None);
    check(&routes, 0, "fd00::7", None, Some(("br1", "fd00::1", None)));
    check(&routes, 0, "fd01::7", None, None);
    check(&routes, 0, "10.1.0.7", Some("10.1.0.1"), Some(("br0", "10.1.0.1", None)));
    check(&routes, 0, "10.1.0.7", Some("10.1.0.2"), None);
    assert!(routes.add(user("10.1.0.0", 24, 0, "br0", Some("10.1.0.9"))));
    check(&routes, 0, "10.1.0.7", None, Some(("br0", "10.1.0.1", Some("10.1.0.9"))));
    assert!(routes.add(user("10.3.0.0", 16, 5, "br0", Some("10.1.0.9"))));
    check(&routes, 5, "10.3.0.7", None, Some(("br0", "10.1.0.1", Some("10.1.0.9"))));
    assert!(!routes.add(user("10.3.0.0", 16, 5, "br0", None)), "no address of br0 is near");
    assert!(routes.remove(TABLE_MAIN, (ip("10.1.0.0"), 24), 0));
    assert!(!routes.remove(TABLE_MAIN, (ip("10.1.0.0"), 24), 0));
    check(&routes, 0, "10.1.0.7", None, Some(("br0", "10.1.0.1", None)));
}

#[test]
fn a_users_route_counts_before_the_systems_unless_that_is_over_32_bits_longer() {
    // A system's route to a longer prefix in the same table, and whether a user's route to 10.0.0.0/8 or ::/0 counts.
    let check = |(prefix, len), of_user: (&str, u8), to, expect| {
        let addresses = addresses(&[("br0", "10.1.0.1", 24), ("br1", "10.2.0.1", 24)]);
        let mut known = addresses;
        known.extend(self::addresses(&[("br2", "fd00::1", 64), ("br3", "fd01::1", 64)]));
        let by = if ip(to).is_ipv4() { ["br0", "br1"] } else { ["br2", "br3"] };
        let gateway =
            if ip(to).is_ipv4() { ["10.1.0.9", "10.2.0.9"] } else { ["fd00::9", "fd01::9"] };
        let route =
            SystemRoute { table: TABLE_MAIN, ..system(prefix, len, by[0], Some(gateway[0])) };
        let all = SystemRouting { routes: vec![route], addresses: known, ..Default::default() };
        let mut routes = Routes::default();
        assert!(set(&mut routes, all));
        assert!(routes.add(user(of_user.0, of_user.1, 0, by[1], Some(gateway[1]))));
        let found = routes.lookup(0, ip(to), None).map(|hop| hop.device);
        assert_eq!(found.as_deref(), Some(by[usize::from(expect)]), "{prefix}/{len} {of_user:?}");
    };
    check(("10.1.1.0", 24), ("10.0.0.0", 8), "10.1.1.1", true);
    check(("10.1.1.1", 32), ("0.0.0.0", 0), "10.1.1.1", true);
    check(("fd05::", 32), ("::", 0), "fd05::1", true);
    check(("fd05::", 33), ("::", 0), "fd05::1", false);
    check(("fd05::", 33), ("fc00::", 7), "fd05::1", true);
}

#[test]
fn tables_of_the_system_are_shared_and_not_made_again() {
    let mut routes = routes();
    let again = Arc::new(SystemRoutes::new(routes.system.routing().clone()));
    assert!(!routes.set_system(Arc::clone(&again)), "equal routing changes nothing");
    let other = Arc::new(SystemRoutes::new(SystemRouting::default()));
    assert!(routes.set_system(Arc::clone(&other)));
    let copy = routes.clone();
    assert!(Arc::ptr_eq(&copy.system, &other));
    assert_eq!(Arc::strong_count(&other), 3);
}

#[test]
fn the_lowest_metric_counts_and_of_equal_ones_the_last() {
    let check = |metrics: [u32; 2], expect| {
        let route = |device, metric| SystemRoute { metric, ..system("10.1.0.0", 24, device, None) };
        let all = vec![route("br0", metrics[0]), route("br1", metrics[1])];
        let addresses = addresses(&[("br0", "10.1.0.1", 24), ("br1", "10.1.0.2", 24)]);
        let mut routes = Routes::default();
        set(&mut routes, SystemRouting { routes: all, addresses, ..SystemRouting::default() });
        let found = routes.lookup(0, ip("10.1.0.9"), None).map(|hop| hop.device);
        assert_eq!(found.as_deref(), Some(expect), "{metrics:?}");
    };
    check([100, 200], "br0");
    check([200, 100], "br1");
    check([100, 100], "br1");
}

#[test]
fn a_next_hop_may_be_of_the_other_family() {
    let mut routes = Routes::default();
    let all = vec![system("10.8.0.0", 16, "br0", Some("fe80::1"))];
    let addresses = addresses(&[("br0", "fe80::2", 64), ("br0", "10.1.0.1", 24)]);
    set(&mut routes, SystemRouting { routes: all, addresses, ..SystemRouting::default() });
    check(&routes, 0, "10.8.0.7", None, Some(("br0", "10.1.0.1", Some("fe80::1"))));
}

#[test]
fn the_systems_routes_are_replaced_and_the_users_stay() {
    let mut routes = routes();
    assert!(routes.add(user("10.3.9.0", 16, 5, "br0", Some("10.1.0.9"))));
    assert_eq!(
        routes.show(Which::Standard),
        "Route Table:\n\
         Cached: 10.1.0.1/32 dev br0 SRC 10.1.0.1 local\n\
         Cached: 10.1.0.0/24 dev br0 SRC 10.1.0.1\n\
         User: 10.3.0.0/16 MARK 5 dev br0 GW 10.1.0.9 SRC 10.1.0.1\n\
         Cached: 0.0.0.0/0 dev br0 GW 10.1.0.254 SRC 10.1.0.1\n\
         Cached: fd00::/64 dev br1 SRC fd00::1\n"
    );
    assert!(set(&mut routes, SystemRouting::default()));
    let user = "User: 10.3.0.0/16 MARK 5 dev br0 GW 10.1.0.9 SRC 10.1.0.1\n";
    assert_eq!(routes.show(Which::Standard), format!("Route Table:\n{user}"));
}

#[test]
fn an_asked_source_must_be_the_devices_on_that_network() {
    let mut routes = Routes::default();
    let addresses = addresses(&[("br0", "10.1.0.1", 24), ("br0", "10.1.0.2", 24)]);
    set(&mut routes, SystemRouting { addresses, ..SystemRouting::default() });
    let mut check = |gateway, source, expect| {
        let route = user("10.3.0.0", 16, 0, "br0", gateway);
        let is_added = routes.add(UserRoute { source: Some(ip(source)), ..route });
        assert_eq!(is_added, expect, "by {gateway:?} from {source}");
        let found = routes.lookup(0, ip("10.3.0.1"), None).map(|hop| hop.source);
        assert!(!expect || found == Some(ip(source)));
    };
    check(Some("10.1.0.9"), "10.1.0.2", true);
    check(Some("10.1.0.9"), "10.1.0.1", true);
    check(Some("10.1.0.9"), "10.1.0.3", false);
    check(Some("10.2.0.9"), "10.1.0.1", false);
    check(None, "10.1.0.1", false);
}

#[test]
fn rules_choose_the_table_by_the_source() {
    let mut routes = Routes::default();
    let addresses = addresses(&[
        ("p1", "10.0.0.11", 24),
        ("p1", "fd00::11", 64),
        ("p2", "10.0.0.22", 24),
        ("p2", "fd00::22", 64),
    ]);
    let all = vec![
        system("10.0.0.11", 32, "p1", None),
        system("fd00::11", 128, "p1", None),
        system("10.0.0.22", 32, "p2", None),
        system("fd00::22", 128, "p2", None),
        system("10.0.0.0", 24, "p2", None),
    ];
    set(&mut routes, SystemRouting { routes: all, addresses, ..SystemRouting::default() });
    let table = |table, route: UserRoute| UserRoute { table, ..route };
    assert!(routes.add(table(11, user("10.0.0.0", 24, 0, "p1", Some("10.0.0.1")))));
    assert!(routes.add(table(11, user("::", 0, 0, "p1", Some("fd00::1")))));
    // No rule names the table.
    let near = ("p2", "10.0.0.22", None);
    check(&routes, 0, "10.0.0.100", None, Some(near));
    check(&routes, 0, "10.0.0.100", Some("10.0.0.11"), Some(("p2", "10.0.0.11", None)));
    routes.add_rule(rule("10.0.0.11/32", 11));
    check(&routes, 0, "10.0.0.100", Some("10.0.0.11"), Some(("p1", "10.0.0.11", Some("10.0.0.1"))));
    check(&routes, 0, "10.0.0.100", Some("10.0.0.22"), Some(near));
    check(&routes, 0, "10.0.0.100", None, Some(near));
    // The default route of IPv6 does not apply to IPv4.
    check(&routes, 0, "20.0.0.1", Some("10.0.0.11"), None);
    // A rule for all packets of one family does not apply to the other.
    check(&routes, 0, "2004::4", Some("fd00::22"), None);
    routes.add_rule(rule("::/0", 11));
    check(&routes, 0, "2004::4", Some("fd00::22"), Some(("p1", "fd00::22", Some("fd00::1"))));
    check(&routes, 0, "10.0.0.100", None, Some(near));
    // If a table has no route, the next rule applies.
    routes.add_rule(rule("not 10.0.0.100/32", 4));
    check(&routes, 0, "10.0.0.100", Some("10.0.0.22"), Some(near));
    assert!(routes.add(table(4, user("10.0.0.0", 8, 0, "p1", None))));
    check(&routes, 0, "10.0.0.100", Some("10.0.0.22"), Some(("p1", "10.0.0.22", None)));
    check(&routes, 0, "10.0.0.100", Some("fd00::22"), None);
    assert!(routes.remove_rule(&rule("not 10.0.0.100/32", 4)));
    assert!(!routes.remove_rule(&rule("not 10.0.0.100/32", 4)));
    check(&routes, 0, "10.0.0.100", Some("10.0.0.22"), Some(near));
    assert_eq!(
        routes.show(Which::All).lines().filter(|line| line.starts_with("User")).collect::<Vec<_>>(),
        [
            "User: 10.0.0.0/8 dev p1 SRC 10.0.0.11 table 4",
            "User: 10.0.0.0/24 dev p1 GW 10.0.0.1 SRC 10.0.0.11 table 11",
            "User: ::/0 dev p1 GW fd00::1 SRC fd00::11 table 11",
        ]
    );
    assert_eq!(
        routes.show(Which::One(4)),
        "Route Table #4:\nUser: 10.0.0.0/8 dev p1 SRC 10.0.0.11\n"
    );
    assert!(routes.remove(4, (ip("10.0.0.0"), 8), 0) && !routes.has_table(4));
}

#[test]
fn rules_are_listed_in_order_and_new_ones_come_before_the_standard_ones() {
    let mut routes = Routes::default();
    let standard = "Cached: 32766: from all lookup main\nCached: 32767: from all lookup default\n";
    let check = |routes: &Routes, between: &str| {
        let expect = format!("Cached: 0: from all lookup local\n{between}{standard}");
        assert_eq!(routes.show_rules(true), expect);
    };
    check(&routes, "");
    assert_eq!(routes.show_rules(false).lines().count(), 2);
    routes.add_rule(rule("192.0.2.10/32", 11));
    routes.add_rule(rule("192.0.2.20/32", 12));
    routes.add_rule(rule("192.0.2.10/32", 11));
    let first = "User: 32763: from 192.0.2.10 lookup 11\n";
    let rest = "User: 32764: from 192.0.2.20 lookup 12\nUser: 32765: from 192.0.2.10 lookup 11\n";
    check(&routes, &format!("{first}{rest}"));
    assert!(routes.remove_rule(&rule("192.0.2.10/32", 11)));
    check(&routes, rest);
    assert!(!routes.remove_rule(&Rule { priority: 7, ..rule("192.0.2.10/32", 11) }));
    assert!(routes.remove_rule(&Rule { priority: 32_765, ..rule("192.0.2.10/32", 11) }));
    assert!(routes.remove_rule(&rule("192.0.2.20/32", 12)));
    routes.add_rule(Rule { priority: 5, ..rule("not 10.0.0.0/8", TABLE_MAIN) });
    check(&routes, "User: 5: not from 10.0.0.0/8  lookup main\n");
}

#[test]
fn the_systems_rules_take_the_standard_ones_place() {
    let mut routes = Routes::default();
    let system = |text, priority, table| Rule { priority, is_user: false, ..rule(text, table) };
    let rules = vec![system("0.0.0.0/0", 10, TABLE_MAIN), system("10.0.0.1/32", 5, 42)];
    set(&mut routes, SystemRouting { rules, ..SystemRouting::default() });
    routes.add_rule(Rule { priority: 7, ..rule("10.0.0.2/32", 43) });
    assert_eq!(
        routes.show_rules(true),
        "Cached: 5: from 10.0.0.1 lookup 42\n\
         User: 7: from 10.0.0.2 lookup 43\n\
         Cached: 10: from all lookup main\n"
    );
    assert_eq!(routes.show_rules(false).lines().count(), 2, "IPv6 keeps the standard ones");
    set(&mut routes, SystemRouting::default());
    assert_eq!(routes.show_rules(true).lines().count(), 4);
}

#[test]
fn the_smaller_mtu_of_route_and_device_counts() {
    let check = |of_route, of_device: &[u32], expect| {
        let route = SystemRoute { mtu: of_route, ..system("10.1.0.0", 24, "br0", None) };
        let addresses = addresses(&[("br0", "10.1.0.1", 24)]);
        let mtus = of_device.iter().map(|mtu| ("br0".to_owned(), *mtu)).collect();
        let mut routes = Routes::default();
        let rules = Vec::new();
        set(&mut routes, SystemRouting { routes: vec![route], rules, addresses, mtus });
        let found = routes.lookup(0, ip("10.1.0.9"), None).unwrap().mtu;
        assert_eq!(found, expect, "{of_route:?} {of_device:?}");
    };
    check(None, &[], None);
    check(None, &[1500], Some(1500));
    check(Some(1400), &[1500], Some(1400));
    check(Some(9000), &[1500], Some(1500));
    check(Some(1400), &[], Some(1400));
}
