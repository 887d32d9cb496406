use super::*;

#[test]
fn datapath_ids_are_read_as_open_vswitch_reads_them() {
    let cases: &[(&str, Option<u64>)] = &[
        ("0000b2c83f618945", Some(0xb2c8_3f61_8945)),
        ("0x1", Some(1)),
        ("0Xffffffffffffffff", Some(u64::MAX)),
        ("0x00000000000000001", None),
        ("1", None),
        ("0000000000000000", None),
        ("0x", None),
        ("+000000000000001", None),
        ("000000000000000g", None),
        ("", None),
    ];
    for (text, expect) in cases {
        assert_eq!(datapath_id_from_text(text), expect.map(DatapathId), "{text:?}");
    }
}

#[test]
fn controllers_that_connect_to_us_only_look_in() {
    for (target, kind) in [
        ("tcp:127.0.0.1:6653", ControllerKind::Primary),
        ("unix:/run/c.sock", ControllerKind::Primary),
        ("ssl:[::1]", ControllerKind::Primary),
        ("ptcp:6653", ControllerKind::Service),
        ("pssl:", ControllerKind::Service),
        ("punix:/run/br0.x", ControllerKind::Service),
    ] {
        assert_eq!(Controller::new(target).kind, kind, "{target}");
    }
}
