use super::*;
use flow::{Field, Mask};

fn frame(vni: u8, source_port: u16, from: u8) -> Vec<u8> {
    let text = format!("10.0.0.{from}:{source_port}>10.0.0.1:4789 udp len=80");
    let mut bytes = wire::text::parse(&text).expect("a packet");
    bytes[40..42].fill(0);
    bytes[42..50].copy_from_slice(&[8, 0, 0, 0, 0, 0, vni, 0]);
    bytes
}

fn read(frame: &[u8]) -> (Headers, Envelope<'_>) {
    let mut headers = Headers::none();
    assert!(headers.read(frame, PortNo(3)).is_some());
    (headers, Envelope::read(TunnelKind::Vxlan, frame).expect("VXLAN"))
}

/// The shape for an outer flow that matches the destination, and inner flows that match these fields.
fn shape(headers: &Headers, inner: &[Field]) -> Shape {
    let [mut outer, mut tunnel] = [Mask::new(), Mask::new()];
    [Field::InPort, Field::Ipv4Dst, Field::TpDst].into_iter().for_each(|it| outer.add(it));
    inner.iter().for_each(|&field| tunnel.add(field));
    let key = tunnel.get(Field::TunId) as u64;
    let opened = headers.mask_of(&outer);
    Shape::new(TunnelKind::Vxlan, opened, &headers.tunnel_mask_of(&tunnel), key)
}

fn learn(outers: &mut Outers, bytes: &[u8], inner: &[Field], before: Option<PortNo>) -> PortNo {
    let (headers, envelope) = read(bytes);
    let seen = Seen::new(TunnelKind::Vxlan, PortNo(9), &envelope).expect("few options");
    outers.learn(&headers, &shape(&headers, inner), &seen, before).expect("there is room")
}

fn find(outers: &mut Outers, bytes: &[u8]) -> Option<PortNo> {
    let (headers, _) = read(bytes);
    outers.find(&headers, bytes, false).map(|it| it.number)
}

#[test]
fn packets_are_told_apart_by_what_flows_looked_at() {
    let known = frame(5, 40_000, 2);
    for (inner, other_vni, other_end) in [
        (&[][..], true, true),
        (&[Field::TunId], false, true),
        (&[Field::TunIpv6Src], true, false),
        (&[Field::TunId, Field::TunIpv6Src], false, false),
    ] {
        let mut outers = Outers::new(7);
        let number = learn(&mut outers, &known, inner, None);
        for (bytes, is_same) in [
            (&known, true),
            (&frame(5, 50_000, 2), true),
            (&frame(6, 40_000, 2), other_vni),
            (&frame(5, 40_000, 3), other_end),
        ] {
            assert_eq!(find(&mut outers, bytes), is_same.then_some(number), "{inner:?}");
        }
        let mut broken = known.clone();
        broken[24] ^= 1;
        assert_eq!(find(&mut outers, &broken), None);
    }
}

#[test]
fn every_class_has_a_number_and_keeps_it() {
    let mut outers = Outers::new(7);
    let numbers: Vec<_> =
        (1..200).map(|vni| learn(&mut outers, &frame(vni, 1, 2), &[Field::TunId], None)).collect();
    let again: Vec<_> = (1..200).map(|vni| find(&mut outers, &frame(vni, 2, 2)).unwrap()).collect();
    assert_eq!(numbers, again);
    let mut distinct = again.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), again.len());
    assert!(again.iter().all(|number| number.0 & IS_CLASS != 0));
}

#[test]
fn a_class_that_looks_at_too_little_gives_way_to_one_with_the_bits_of_both() {
    let mut outers = Outers::new(7);
    let bytes = frame(5, 1, 2);
    let coarse = learn(&mut outers, &bytes, &[Field::TunIpv6Src], None);
    let fine = learn(&mut outers, &bytes, &[Field::TunId], Some(coarse));
    assert_ne!(coarse, fine);
    assert_eq!(find(&mut outers, &bytes), Some(fine));
    assert_eq!(find(&mut outers, &frame(6, 1, 2)), None);
    assert_eq!(find(&mut outers, &frame(5, 1, 3)), None);
    // A flow that matches fewer of them keeps it.
    assert_eq!(learn(&mut outers, &bytes, &[Field::TunIpv6Src], Some(fine)), fine);
}

#[test]
fn what_is_not_used_goes_where_there_is_little_room() {
    let mut outers = Outers::new(7);
    let all = |outers: &mut Outers, from: u8| {
        (1..=255).filter(|&vni| find(outers, &frame(vni, 1, from)).is_some()).count()
    };
    for from in 1..=16 {
        for vni in 1..=255 {
            learn(&mut outers, &frame(vni, 1, from), &[Field::TunId, Field::TunIpv6Src], None);
        }
    }
    outers.tick();
    assert_eq!((all(&mut outers, 3), all(&mut outers, 4)), (255, 255));
    outers.tick();
    assert_eq!((all(&mut outers, 3), all(&mut outers, 5)), (255, 0));
}
