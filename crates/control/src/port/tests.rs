use super::*;

/// Returns the kind of an interface without options, or with only a peer.
fn from_type(type_name: &str, peer: Option<&str>) -> InterfaceKind {
    let options = peer.map(|peer| ("peer".to_owned(), peer.to_owned())).into_iter().collect();
    InterfaceKind::from_type(type_name, "p0", &options, |warning| panic!("{warning}"))
}

#[test]
fn tunnels_have_options_or_are_refused_in_words() {
    let options = |text: &str| -> BTreeMap<String, String> {
        let pairs = text.split_whitespace().filter_map(|it| it.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let mut warnings = Vec::new();
    let given = options("remote_ip=1.1.1.3 key=101 flags=0");
    let kind = InterfaceKind::from_type("vxlan", "t", &given, |it| warnings.push(it));
    let InterfaceKind::Tunnel(config) = kind else { panic!("{kind:?}") };
    assert_eq!(config.describe_options(), "key=101, remote_ip=1.1.1.3");
    assert_eq!(warnings, ["t: unknown vxlan argument 'flags'"]);
    let error = "p0: geneve type requires valid 'remote_ip' argument".to_owned();
    assert_eq!(from_type("geneve", None), InterfaceKind::Refused { error });
}

#[test]
fn types_mean_kinds_or_are_refused_in_words() {
    let check = |type_name, peer, expect: Result<InterfaceKind, &str>| match (
        from_type(type_name, peer),
        expect,
    ) {
        (InterfaceKind::Refused { error }, Err(words)) => assert_eq!(error, words),
        (kind, Ok(expect)) => assert_eq!(kind, expect),
        (kind, Err(words)) => panic!("{type_name}: {kind:?} rather than {words}"),
    };
    check("", None, Ok(InterfaceKind::System));
    check("system", Some("ignored"), Ok(InterfaceKind::System));
    check("internal", None, Ok(InterfaceKind::Internal));
    check("tap", None, Ok(InterfaceKind::Tap));
    check("afxdp", None, Ok(InterfaceKind::Afxdp));
    check("afxdp-nonpmd", None, Ok(InterfaceKind::Afxdp));
    check("pcap", None, Ok(InterfaceKind::Pcap));
    check("dpdk", None, Ok(InterfaceKind::Dpdk));
    check("dpdkvhostuser", None, Ok(InterfaceKind::DpdkVhostUser));
    check("dpdkvhostuserclient", None, Ok(InterfaceKind::DpdkVhostUserClient));
    check("patch", Some("p1"), Ok(InterfaceKind::Patch { peer: "p1".to_owned() }));
    check("patch", None, Err("p0: patch type requires valid 'peer' argument"));
    check("patch", Some("p0"), Err("p0: patch peer must not be self"));
    check(
        "dpdkr",
        None,
        Err("could not open network device p0 (interface type \"dpdkr\" is not supported: \
             this switch has no DPDK ring ports)"),
    );
    check("foo", None, Err("could not open network device p0 (interface type \"foo\" is unknown)"));
}

#[test]
fn other_options_open_a_port_anew_where_it_is_made_by_them() {
    for (kind, stays) in [
        (InterfaceKind::System, true),
        (InterfaceKind::Internal, true),
        (InterfaceKind::Afxdp, false),
        (InterfaceKind::Pcap, false),
    ] {
        let old = Port::new(Interface::new("p0", kind.clone()));
        let mut new = old.clone();
        new.interfaces[0].rxq_affinity.insert(0, 1);
        assert!(old.has_same_interfaces(&new), "{kind:?}");
        new.interfaces[0].options.insert("n_rxq".to_owned(), "2".to_owned());
        assert_eq!(old.has_same_interfaces(&new), stays, "{kind:?}");
    }
}

#[test]
fn a_bond_has_no_interface_to_open() {
    let member = |name| Interface::new(name, InterfaceKind::System);
    let mut port = Port::new(member("a"));
    assert_eq!(port.interface(), Some(&member("a")));
    port.interfaces.push(member("b"));
    assert_eq!(port.interface(), None);
    let refused = Interface::new("c", InterfaceKind::Refused { error: "no".to_owned() });
    assert_eq!(Port::new(refused).interface(), None);
}
