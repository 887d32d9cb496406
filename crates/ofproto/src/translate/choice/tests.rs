use super::*;
use base::MacAddr;
use openflow::action::Subfield;

fn packet(src: u32, dst: u32, ports: (u16, u16), proto: u8) -> FlowKey {
    let mut key = FlowKey::new();
    key.set(Field::EthSrc, MacAddr([2, 0, 0, 0, 0, 1]).to_u64().into());
    key.set(Field::EthDst, MacAddr([2, 0, 0, 0, 0, 2]).to_u64().into());
    key.set_eth_type(0x800);
    key.set(Field::Ipv4Src, src.into());
    key.set(Field::Ipv4Dst, dst.into());
    key.set_nw_proto(proto);
    key.set_tp_src(ports.0);
    key.set_tp_dst(ports.1);
    key
}

fn links(algorithm: MultipathAlgorithm, max_link: u16, arg: u32) -> Multipath {
    let (fields, target) = (HashFields::SymmetricL4, Subfield::whole(Field::Reg0));
    Multipath { fields, basis: 7, algorithm, max_link, arg, target }
}

#[test]
fn symmetric_hashes_are_the_same_both_ways() {
    use HashFields as H;
    let (there, back) = (packet(1, 2, (1000, 80), 6), packet(2, 1, (80, 1000), 6));
    for fields in [H::SymmetricL3, H::SymmetricL4, H::SymmetricL3L4, H::SymmetricL3L4Udp] {
        assert_eq!(hash(&there, fields, 5), hash(&back, fields, 5), "{fields:?}");
        assert_ne!(hash(&there, fields, 5), hash(&there, fields, 6), "{fields:?}");
    }
    // Which hashes distinguish connections.
    let other = |proto| (packet(1, 2, (1000, 80), proto), packet(1, 2, (1001, 80), proto));
    for (fields, tcp, udp) in [
        (H::EthSrc, false, false),
        (H::NwSrc, false, false),
        (H::NwDst, false, false),
        (H::SymmetricL3, false, false),
        (H::SymmetricL4, true, false),
        (H::SymmetricL3L4, true, false),
        (H::SymmetricL3L4Udp, true, true),
    ] {
        for (proto, differs) in [(6, tcp), (17, udp)] {
            let (a, b) = other(proto);
            assert_eq!(hash(&a, fields, 0) != hash(&b, fields, 0), differs, "{fields:?} {proto}");
        }
    }
}

#[test]
fn links_get_equal_shares_and_few_move_when_one_more_comes() {
    use MultipathAlgorithm as M;
    let choose = |algorithm, max_link, packet: u32| {
        let key = crate::translate::choice::tests::packet(packet, 9, (1, 2), 17);
        choose_link(&links(algorithm, max_link, 8), hash(&key, HashFields::NwSrc, 0))
    };
    // How many of 10,000 packets change their link when the 6th is added, at most.
    let cases = [
        (M::ModuloN, 9000),
        (M::HashThreshold, 5500),
        (M::HighestRandomWeight, 1900),
        (M::IterativeHash, 1900),
    ];
    for (algorithm, most) in cases {
        let mut shares = [0; 5];
        let mut moved = 0;
        for packet in 0..10_000 {
            let link = choose(algorithm, 4, packet);
            shares[usize::from(link)] += 1;
            moved += u32::from(choose(algorithm, 5, packet) != link);
        }
        assert!(
            shares.iter().all(|share| (1800..2200).contains(share)),
            "{algorithm:?} {shares:?}"
        );
        assert!(moved < most, "{algorithm:?} {moved}");
    }
}

#[test]
fn links_are_those_that_open_vswitch_chooses() {
    use openflow::text::{parse_flow, parse_match};
    let lines = include_str!("../../../../../testdata/ofproto/links.txt").lines();
    let mut count = 0;
    for line in lines.filter(|line| !line.starts_with('#')) {
        let [action, packet, link] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let key = parse_match(packet, &|_| None).unwrap_or_else(|error| panic!("{line}: {error}"));
        let flow = format!("actions={action}");
        let flow = parse_flow(&flow, openflow::message::FlowModCommand::Add, &|_| None);
        let chosen = match &flow.unwrap_or_else(|error| panic!("{line}: {error}")).actions[..] {
            [openflow::Action::Multipath(it)] => {
                choose_link(it, hash(key.key(), it.fields, it.basis))
            }
            [openflow::Action::Bundle(it)] => {
                choose_member(it, key.key(), |_| true).map_or(0, |port| port.0)
            }
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(chosen.to_string(), link, "{line}");
        count += 1;
    }
    assert_eq!(count, 560);
}
