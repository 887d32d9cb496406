use super::*;
use crate::management::entry::Traffic;

fn tcp_entry() -> Entry {
    let side = |state| TcpSide { state, window_scale: 10, scaling_known: true, is_liberal: false };
    Entry {
        original: Tuple {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            protocol: 6,
            l4: TupleL4::Ports { src: 57330, dst: 80 },
        },
        reply: Tuple {
            src: [10, 0, 0, 2].into(),
            dst: [10, 0, 0, 1].into(),
            protocol: 6,
            l4: TupleL4::Ports { src: 80, dst: 57330 },
        },
        zone: Zone(0),
        mark: 0,
        label: 0,
        timeout_s: 27,
        tcp: Some(TcpEntry { original: side(TcpState::FinWait2), reply: side(TcpState::FinWait2) }),
        sctp: None,
        helper: None,
        parent: None,
        original_traffic: Traffic::default(),
        reply_traffic: Traffic::default(),
        age_s: 0,
    }
}

/// Lines of ovs-vswitchd 3.1.0 for such a connection.
#[test]
fn entries_read_as_open_vswitch_writes_them() {
    let entry = tcp_entry();
    let both = Detail { more: true, statistics: true };
    assert_eq!(
        entry.to_string(),
        "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=57330,dport=80),\
         reply=(src=10.0.0.2,dst=10.0.0.1,sport=80,dport=57330),protoinfo=(state=TIME_WAIT)"
    );
    assert_eq!(
        entry.display(both).to_string(),
        "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=57330,dport=80),\
         reply=(src=10.0.0.2,dst=10.0.0.1,sport=80,dport=57330),id=0,status=0,timeout=27,\
         protoinfo=(state_orig=FIN_WAIT_2,state_reply=FIN_WAIT_2,wscale_orig=10,wscale_reply=10,\
         flags_orig=WINDOW_SCALE,flags_reply=WINDOW_SCALE)"
    );
}

#[test]
fn every_part_has_its_place() {
    let entry = Entry {
        zone: Zone(7),
        mark: 255,
        label: 0x1f,
        tcp: None,
        helper: Some("ftp"),
        original: Tuple { protocol: 99, l4: TupleL4::None, ..tcp_entry().original },
        reply: Tuple { protocol: 99, l4: TupleL4::None, ..tcp_entry().reply },
        ..tcp_entry()
    };
    let cases = [
        (Detail::default(), ",zone=7,mark=255,labels=0x1f,helper=ftp"),
        (
            Detail { more: true, statistics: false },
            ",id=0,zone=7,status=0,mark=255,labels=0x1f,helper=ftp",
        ),
        (
            Detail { more: false, statistics: true },
            ",zone=7,timeout=27,mark=255,labels=0x1f,helper=ftp",
        ),
    ];
    for (detail, rest) in cases {
        assert_eq!(
            entry.display(detail).to_string(),
            format!(
                "99,orig=(src=10.0.0.1,dst=10.0.0.2,sport=0,dport=0),\
                 reply=(src=10.0.0.2,dst=10.0.0.1,sport=0,dport=0){rest}"
            )
        );
    }
}

#[test]
fn statistics_show_only_what_is_there() {
    let empty = Stats::default();
    assert_eq!(empty.display(true).to_string(), "Connections Stats:\n    Total: 0\n");
    let mut stats = Stats { total: 57, tcp: 54, udp: 1, icmp: 2, icmpv6: 9, ..empty };
    stats.tcp_states[TcpState::TimeWait as usize] = 54;
    assert_eq!(
        stats.display(true).to_string(),
        "Connections Stats:\n    Total: 57\n  TCP: 54\n    Conn per TCP states:\n\
         \t  [TIME_WAIT]=54\n  UDP: 1\n  ICMP: 2\n"
    );
    assert_eq!(
        stats.display(false).to_string(),
        "Connections Stats:\n    Total: 57\n  TCP: 54\n  UDP: 1\n  ICMP: 2\n"
    );
}

#[test]
fn zone_limits_are_read() {
    let cases = [
        ("zone=1,limit=5", Ok((Zone(1), 5))),
        ("limit=0x10 zone=010", Ok((Zone(8), 16))),
        ("zone=x", Err("failed to parse field zone")),
        ("zone=65536,limit=1", Err("failed to parse field zone")),
        ("zone=1,limit=-1", Err("failed to parse field limit")),
        ("zone=1", Err("failed to parse zone limit")),
        ("", Err("failed to parse zone limit")),
        ("zone=1,limit=", Err("field limit missing value")),
        ("zone=1,count=3", Err("invalid zone limit field: count")),
    ];
    for (text, expect) in cases {
        let found = parse_zone_limit(text).map_err(|error| error.to_string());
        assert_eq!(found, expect.map_err(str::to_owned), "{text}");
    }
}
