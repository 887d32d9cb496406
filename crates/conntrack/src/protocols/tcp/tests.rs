use super::*;
use proptest::prelude::*;

fn segment(flags: TcpFlags, seq: u32, ack: u32, window: u16, payload_bytes: u32) -> Segment {
    Segment { seq, ack, flags, window, payload_bytes, scale: Scale::NONE }
}

/// An end that conforms to RFC 9293.
struct End {
    next: u32,
    /// The other end's limit: one more than the last number that it may send to it.
    edge: u32,
    shift: u8,
    window: u16,
}

impl End {
    /// A segment of `bytes`, or of as much as the other end's window permits, and the new limit for that end.
    fn send(&mut self, other_next: u32, flags: TcpFlags, bytes: u32) -> (Segment, u32) {
        let room = self.edge.wrapping_sub(self.next);
        let bytes = bytes.min(room);
        let sent = segment(flags, self.next, other_next, self.window, bytes);
        self.next = sent.end();
        (sent, other_next.wrapping_add(u32::from(self.window) << self.shift))
    }
}

#[derive(Clone, Debug)]
struct Exchange {
    by_reply: bool,
    bytes: u32,
    repeat: bool,
}

fn exchanges() -> impl Strategy<Value = Vec<Exchange>> {
    let one = (any::<bool>(), 0..70_000u32, any::<bool>())
        .prop_map(|(by_reply, bytes, repeat)| Exchange { by_reply, bytes, repeat });
    proptest::collection::vec(one, 0..60)
}

fn expect_valid(peers: &mut TcpPeers, sent: &Segment, is_reply: bool) {
    let mut counters = Counters::new();
    let (update, _) = peers.update(sent, is_reply, true, &mut counters);
    assert_eq!(update, Update::Valid, "{sent:?} of {peers:?}");
}

proptest! {
    /// Segments of two ends that respect each other's windows are valid from the first to the last, whatever
    /// their initial sequence numbers, with and without scaling.
    #[test]
    fn well_behaved_ends_are_never_invalid(
        starts: (u32, u32), shifts in (0..15u8, 0..15u8), scaled: bool,
        windows in (1..u16::MAX, 1..u16::MAX), exchanges in exchanges(),
    ) {
        let scale = |shift| if scaled { Scale::known(shift) } else { Scale::NONE };
        let shift = |shift| if scaled { shift } else { 0 };
        let syn = segment(TcpFlags::SYN, starts.0, 0, windows.0, 0);
        let syn = Segment { scale: scale(shifts.0), ..syn };
        let flags = TcpFlags::SYN | TcpFlags::ACK;
        let syn_ack = segment(flags, starts.1, starts.0.wrapping_add(1), windows.1, 0);
        let syn_ack = Segment { scale: scale(shifts.1), ..syn_ack };
        prop_assert_eq!(syn.begins(), Ok(()));
        let (mut peers, timeout) = TcpPeers::new(&syn);
        prop_assert_eq!(timeout, Timeout::TcpSynSent);
        expect_valid(&mut peers, &syn_ack, true);
        let end = |syn: &Segment, own: u8, window, other: u16| End {
            next: syn.end(),
            edge: syn.end().wrapping_add(other.into()),
            shift: shift(own),
            window,
        };
        let mut client = end(&syn, shifts.0, windows.0, windows.1);
        let mut server = end(&syn_ack, shifts.1, windows.1, windows.0);
        let ack = segment(TcpFlags::ACK, client.next, server.next, client.window, 0);
        server.edge = server.next.wrapping_add(u32::from(client.window) << client.shift);
        expect_valid(&mut peers, &ack, false);
        let states = [peers.original.state, peers.reply.state];
        prop_assert_eq!(states, [TcpState::Established; 2]);
        for Exchange { by_reply, bytes, repeat } in exchanges {
            let (from, to) =
                if by_reply { (&mut server, &mut client) } else { (&mut client, &mut server) };
            let (sent, edge) = from.send(to.next, TcpFlags::ACK, bytes);
            to.edge = edge;
            expect_valid(&mut peers, &sent, by_reply);
            // A retransmission of the newest segment reaches back one window at most.
            if repeat && bytes <= u32::from(to.window) {
                expect_valid(&mut peers, &sent, by_reply);
            }
        }
        let fin = TcpFlags::FIN | TcpFlags::ACK;
        client.edge = client.edge.wrapping_add(1);
        let (sent, _) = client.send(server.next, fin, 0);
        // No conforming stack sends a FIN beyond a full window.
        if sent.end() != client.edge {
            expect_valid(&mut peers, &sent, false);
            let (ack, _) = server.send(client.next, TcpFlags::ACK, 0);
            expect_valid(&mut peers, &ack, true);
            prop_assert_eq!(peers.original.state, TcpState::FinWait2);
        }
    }

    /// No segment, however odd, breaks an invariant; segments with invalid flags change nothing.
    #[test]
    fn any_segment_can_be_taken(
        segments in proptest::collection::vec(
            (0..0x1000u16, any::<[u32; 2]>(), any::<u16>(), 0..70_000u32, 0..32u8, any::<bool>()),
            1..40,
        ),
        check: bool,
    ) {
        let mut counters = Counters::new();
        let mut peers: Option<TcpPeers> = None;
        for (flags, [seq, ack], window, payload_bytes, shift, is_reply) in segments {
            let flags = TcpFlags(flags);
            let scale = if shift < 16 { Scale::known(shift) } else { Scale::NONE };
            let one = Segment { seq, ack, flags, window, payload_bytes, scale };
            let Some(before) = peers else {
                peers = one.begins().ok().map(|()| TcpPeers::new(&one).0);
                continue;
            };
            let mut after = before;
            let (update, _) = after.update(&one, is_reply, check, &mut counters);
            if one.has_odd_flags() {
                prop_assert_eq!(update, Update::Invalid);
                prop_assert_eq!(after, before);
            }
            peers = Some(after);
        }
    }
}

#[test]
fn timeouts_by_the_states_of_both_sides() {
    use TcpState::{Closed, Closing, Established, FinWait2, SynSent, TimeWait};
    let cases = [
        (Closed, SynSent, Timeout::TcpSynRecv),
        (SynSent, Established, Timeout::TcpSynRecv),
        (SynSent, Closing, Timeout::TcpSynRecv),
        (Established, Established, Timeout::TcpEstablished),
        (Established, Closing, Timeout::TcpFinWait),
        (Established, FinWait2, Timeout::TcpFinWait),
        (Closing, Closing, Timeout::TcpTimeWait),
        (Closing, FinWait2, Timeout::TcpTimeWait),
        (FinWait2, FinWait2, Timeout::TcpClose),
        (TimeWait, TimeWait, Timeout::TcpClose),
    ];
    for (a, b, expect) in cases {
        assert_eq!(timeout(a, b), expect, "{a} {b}");
        assert_eq!(timeout(b, a), expect, "{b} {a}");
    }
}

#[test]
fn flags_that_do_not_go_together() {
    let cases = [
        (TcpFlags::SYN, false),
        (TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR, false),
        (TcpFlags::SYN | TcpFlags::ACK, false),
        (TcpFlags::ACK, false),
        (TcpFlags::RST, false),
        (TcpFlags::RST | TcpFlags::ACK, false),
        (TcpFlags::FIN | TcpFlags::ACK | TcpFlags::PSH | TcpFlags::URG, false),
        (TcpFlags::NONE, true),
        (TcpFlags::FIN, true),
        (TcpFlags::PSH, true),
        (TcpFlags::URG, true),
        (TcpFlags::ECE, true),
        (TcpFlags::SYN | TcpFlags::RST, true),
        (TcpFlags::SYN | TcpFlags::FIN, true),
        (TcpFlags::SYN | TcpFlags::FIN | TcpFlags::ACK, true),
        (TcpFlags::SYN | TcpFlags::PSH, true),
        (TcpFlags::RST | TcpFlags::FIN, true),
    ];
    for (flags, odd) in cases {
        assert_eq!(segment(flags, 1, 1, 1, 0).has_odd_flags(), odd, "{flags}");
    }
}

proptest! {
    /// A parsed segment equals its header, field by field.
    #[test]
    fn a_segment_is_what_its_header_says(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..80), words in 0..16u8,
    ) {
        if let Some(offset) = bytes.get_mut(12) {
            *offset = words << 4 | *offset & 0xf;
        }
        let expect = wire::Tcp::new_checked(&bytes[..]).ok().map(|tcp| {
            let has_scale = tcp.flags().contains(TcpFlags::SYN);
            Segment {
                seq: tcp.seq(),
                ack: tcp.ack(),
                flags: tcp.flags(),
                window: tcp.window(),
                payload_bytes: tcp.payload().len() as u32,
                scale: tcp.window_scale().filter(|_| has_scale).map_or(Scale::NONE, Scale::known),
            }
        });
        prop_assert_eq!(Segment::of(&bytes), expect);
    }
}
