//! Rules in the shim's structures, and the results of real devices.

use super::encode::Encoded;
use super::*;
use crate::flow_rule::{
    CHANGES_STATE, ConnectionState, Eth, IN_WINDOW, Ipv4, Item, Spec, Tcp, TcpDirection, Udp, Vlan,
};
use crate::tests::{dpdk, open};

/// A rule for packets that a port receives, with terminating actions.
fn rule(items: &[Item], actions: &[RuleAction]) -> FlowRule {
    FlowRule { items: items.to_vec(), actions: actions.to_vec(), ..FlowRule::default() }
}

fn eth() -> Item {
    Item::Eth(Spec::default())
}

fn ipv4(source: [u8; 4]) -> Item {
    let value = Ipv4 { source: source.into(), ..Ipv4::default() };
    Item::Ipv4(Spec { value, mask: Ipv4 { source: [255; 4].into(), ..Ipv4::default() } })
}

fn udp(destination: u16) -> Item {
    let mask = Udp { destination: u16::MAX, source: 0 };
    Item::Udp(Spec { value: Udp { destination, source: 0 }, mask })
}

#[test]
fn headers_are_bytes_as_packets_have_them() {
    let tcp = Tcp { source: 1000, destination: 80, flags: 0x10 };
    let mask = Tcp { source: u16::MAX, destination: u16::MAX, flags: 0x17 };
    let eth = Eth { ethertype: 0x8100, ..Eth::default() };
    let vxlan = |compares_flags| Item::Vxlan { vni: 0x010203, compares_flags };
    let cases: [(Item, u32, &str, &str); 7] = [
        (Item::RepresentedPort(3), 3, "", ""),
        (
            Item::Tcp(Spec { value: tcp, mask }),
            0,
            "03e80050 00000000 00000000 0010",
            "ffffffff 00000000 00000000 0017",
        ),
        (
            Item::Eth(Spec { value: eth, mask: Eth { has_vlan: true, ..eth } }),
            0,
            "00000000 00000000 00000000 8100",
            "00000000 00000000 00000000 8100 01",
        ),
        (vxlan(false), 0, "08000000 01020300", "00000000 ffffff00"),
        (vxlan(true), 0, "08000000 01020300", "ff000000 ffffff00"),
        (Item::Integrity { level: 2, bits: 12 }, 2, "0c", "0c"),
        (Item::Connection(CHANGES_STATE), 3, "", ""),
    ];
    for (item, number, value, mask) in cases {
        let encoded = Encoded::of(&rule(&[item], &[]), |_| None).unwrap();
        // SAFETY: the list lives in `encoded` and has one item.
        let got = unsafe { *encoded.rule().items };
        let hex = |bytes: &[u8]| {
            let text: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
            text.trim_end_matches("00").to_owned()
        };
        let plain = |text: &str| text.replace(' ', "").trim_end_matches("00").to_owned();
        assert_eq!(got.number, number, "{item:?}");
        assert_eq!((hex(&got.value), hex(&got.mask)), (plain(value), plain(mask)), "{item:?}");
    }
}

#[test]
fn net_tap_takes_what_its_driver_can_and_says_what_it_cannot() {
    let name = "net_tap_takes_what_its_driver_can_and_says_what_it_cannot";
    if !std::path::Path::new("/dev/net/tun").exists() {
        println!("\nSKIPPED: {name}: there is no /dev/net/tun");
        return;
    }
    // The device appears in the namespace of the thread that creates it.
    let run = move || {
        // SAFETY: the namespace of this thread alone changes, which ends with the test.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            println!("\nSKIPPED: {name}: network namespaces take more rights");
            return;
        }
        if dpdk(name) {
            net_tap();
        }
    };
    std::thread::spawn(run).join().unwrap();
}

fn net_tap() {
    let tap = open("tap", "net_tap_tidegate,iface=tg-rules");
    let port = tap.facts().unwrap().port;
    let vlan = Item::Vlan(Spec { value: Vlan { tci: 5 }, mask: Vlan { tci: 0xfff } });
    let tcp_flags = Tcp { flags: 0x10, ..Tcp::default() };
    let tcp = Item::Tcp(Spec { value: tcp_flags, mask: tcp_flags });
    let source = [10, 0, 0, 1];
    let cases: Vec<(FlowRule, Result<(), &str>)> = vec![
        (rule(&[eth(), ipv4(source), udp(53)], &[RuleAction::Drop]), Ok(())),
        (rule(&[eth(), vlan, ipv4(source)], &[RuleAction::Drop]), Ok(())),
        (
            rule(&[eth(), ipv4(source), udp(53)], &[RuleAction::Count, RuleAction::Drop]),
            Err("action not supported"),
        ),
        (rule(&[eth(), ipv4(source), tcp], &[RuleAction::Drop]), Err("item not supported")),
        (
            rule(&[eth(), ipv4(source), udp(53)], &[RuleAction::RepresentedPort(port)]),
            Err("action not supported"),
        ),
        (
            rule(&[eth(), ipv4(source), udp(53)], &[RuleAction::Mark(7), RuleAction::Rss]),
            Err("action not supported"),
        ),
        (
            rule(&[eth(), ipv4(source), Item::Connection(IN_WINDOW)], &[RuleAction::Drop]),
            Err("item not supported"),
        ),
        (rule(&[eth(), ipv4(source)], &[RuleAction::Jump(1)]), Err("action not supported")),
        (
            rule(&[eth(), ipv4(source)], &[RuleAction::PortRepresentor(port)]),
            Err("action not supported"),
        ),
        (
            FlowRule { group: 77, ..rule(&[eth(), ipv4(source)], &[RuleAction::Drop]) },
            Err("group value too big: cannot exceed 15"),
        ),
        (
            FlowRule { priority: 1 << 20, ..rule(&[eth(), ipv4(source)], &[RuleAction::Drop]) },
            Err("priority value too big"),
        ),
        (
            FlowRule { transfers: true, ..rule(&[eth(), ipv4(source)], &[RuleAction::Drop]) },
            Err("transfer is not supported"),
        ),
    ];
    let rules = DpdkRules::new();
    for (rule, expect) in cases {
        let got = rules.validate(port, &rule).map_err(|it| (it.kind, it.words));
        let expect = expect.map_err(|words| (Refusal::Device, words.to_owned()));
        assert_eq!(got, expect, "{rule}");
    }
    // The driver implements RSS by a kernel program, which the kernel may refuse.
    let rss = rules.validate(port, &rule(&[eth(), ipv4(source), udp(53)], &[RuleAction::Rss]));
    assert!(
        rss.as_ref().map_or_else(|it| it.words.contains("not supported"), |()| true),
        "{rss:?}"
    );
    create_on(port);
    refuse_objects(port);
}

/// Creates a rule; the driver uses the kernel's traffic control, which may lack what it needs.
fn create_on(port: u16) {
    let mut rules = DpdkRules::new();
    let drops = rule(&[eth(), ipv4([10, 0, 0, 2]), udp(53)], &[RuleAction::Drop]);
    match rules.create(port, &drops) {
        Ok(handle) => {
            // It does not count.
            assert_eq!(rules.query(handle), None);
            remove_rules(port);
            assert_eq!(rules.destroy(handle), Ok(()), "it went with its port");
            let again = rules.create(port, &drops).unwrap();
            rules.flush(port);
            assert!(!is_listed(again), "the driver flushes");
            let last = rules.create(port, &drops).unwrap();
            assert_eq!(rules.destroy(last), Ok(()));
            assert!(!is_listed(last));
        }
        Err(refused) => assert!(refused.words.contains("Kernel"), "{refused:?}"),
    }
}

#[test]
fn a_device_without_rules_says_so() {
    let name = "a_device_without_rules_says_so";
    if !dpdk(name) {
        return;
    }
    let port = open("null", "net_null_rules");
    let number = port.facts().unwrap().port;
    let drops = rule(&[eth()], &[RuleAction::Drop]);
    let refused = DpdkRules::new().create(number, &drops).unwrap_err();
    assert_eq!(refused.kind, Refusal::Device);
    assert_eq!(refused.words, "Function not implemented");
    refuse_objects(number);
}

/// Neither driver supports connection objects.
fn refuse_objects(port: u16) {
    let mut device = DpdkRules::new();
    let refused = device.create_object(port, port, &ConnectionObject::default()).unwrap_err();
    assert_eq!((refused.kind, &*refused.words), (Refusal::Device, "Function not implemented"));
}

#[test]
fn an_object_is_the_same_in_the_shims_structure() {
    let side = |first: u32| TcpDirection {
        scale: first as u8,
        close_initiated: first == 7,
        last_ack_seen: first != 7,
        data_unacked: first == 7,
        sent_end: first * 1000,
        reply_end: first * 1000 + 1,
        max_win: first * 1000 + 2,
        max_ack: first * 1000 + 3,
    };
    for (nth, state) in ConnectionState::ALL.into_iter().enumerate() {
        let bit = |at: usize| nth == at;
        let object = ConnectionObject {
            enable: bit(0),
            live_connection: bit(1),
            selective_ack: bit(2),
            challenge_ack_passed: bit(3),
            last_direction: bit(4),
            liberal_mode: bit(5),
            state,
            max_ack_window: 5,
            retransmission_limit: 6,
            original: side(7),
            reply: side(9),
            last_window: 60_000,
            last_index: 8,
            last_seq: 10,
            last_ack: 11,
            last_end: 12,
        };
        let plain = objects::plain(&object);
        assert_eq!(plain.state, nth as u8, "the number is the API's");
        assert_eq!(objects::object(&plain), Some(object));
    }
    let unknown = ffi::Object { state: 6, ..ffi::Object::default() };
    assert_eq!(objects::object(&unknown), None);
}

#[test]
fn a_rule_of_an_object_that_is_gone_is_refused() {
    let checks = rule(&[eth()], &[RuleAction::Check(ObjectHandle(u64::MAX)), RuleAction::Jump(1)]);
    let mut device = DpdkRules::new();
    let words = "its connection object is gone";
    assert_eq!(device.create(0, &checks).unwrap_err().words, words);
    assert_eq!(device.validate(0, &checks).unwrap_err().words, words);
    let gone = ObjectHandle(u64::MAX);
    assert_eq!(device.query_object(gone), None);
    assert_eq!(device.turn_object(gone).unwrap_err().words, words);
    assert_eq!(device.update_object(gone, &ConnectionObject::default()).unwrap_err().words, words);
    assert_eq!(device.destroy_object(gone), Ok(()), "it went with its port");
}

#[test]
fn an_object_ends_with_each_of_its_ports_and_takes_the_rules_that_refer_to_it_along() {
    let name = "an_object_ends_with_each_of_its_ports_and_takes_the_rules_that_refer_to_it_along";
    if !dpdk(name) {
        return;
    }
    let ports = [open("null", "net_null_object"), open("null", "net_null_peer")];
    let [port, peer] = ports.each_ref().map(|it| it.facts().unwrap().port);
    let mut device = DpdkRules::new();
    let add = || {
        let mut list = rules();
        let object = list.add_for_test(port, peer);
        let handle = list.number();
        let made = ffi::MadeRule { rule: std::ptr::null_mut(), owner: port, spare: [0; 6] };
        list.rules.insert(handle, Made { made, port, ages: false, object: Some(object.0) });
        (object, RuleHandle(handle))
    };
    let is_there = |object: ObjectHandle| rules().object(object).is_ok();
    let (object, its_rule) = add();
    assert_eq!(device.destroy_object(object), Err("Function not implemented".to_owned()));
    assert!(is_there(object), "the driver removes none, so that it stays in the list");
    // The rule and the object were created through the other port, which keeps what the driver does not
    // remove.
    remove_rules(peer);
    assert!(is_there(object) && is_listed(its_rule));
    remove_rules(port);
    assert!(!is_there(object) && !is_listed(its_rule));
}

fn is_listed(handle: RuleHandle) -> bool {
    rules().rules.contains_key(&handle.0)
}

#[test]
fn a_rule_that_the_device_does_not_remove_stays_in_the_list_as_long_as_its_port() {
    let name = "a_rule_that_the_device_does_not_remove_stays_in_the_list_as_long_as_its_port";
    if !dpdk(name) {
        return;
    }
    // The driver has no rules, so it neither removes nor flushes any.
    let ports = [open("null", "net_null_kept"), open("null", "net_null_owner")];
    let [port, owner] = ports.each_ref().map(|it| it.facts().unwrap().port);
    let add = |port, owner| {
        let made = ffi::MadeRule { rule: std::ptr::null_mut(), owner, spare: [0; 6] };
        let mut list = rules();
        list.next += 1;
        let handle = list.next;
        list.rules.insert(handle, Made { made, port, ages: false, object: None });
        RuleHandle(handle)
    };
    let (own, through_other) = (add(port, port), add(port, owner));
    let mut device = DpdkRules::new();
    for handle in [own, through_other] {
        assert_eq!(device.destroy(handle), Err("Function not implemented".to_owned()));
        assert!(is_listed(handle));
    }
    device.flush(port);
    assert!(is_listed(own) && is_listed(through_other));
    remove_rules(port);
    assert!(!is_listed(own) && is_listed(through_other));
    remove_rules(owner);
    assert!(!is_listed(through_other));
}
