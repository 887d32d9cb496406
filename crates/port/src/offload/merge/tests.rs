use super::*;
use crate::offload::{complete_checksum, segment};
use packet::Pool;
use proptest::prelude::*;

/// A segment of the tests; its payload counts up with the sequence number.
#[derive(Clone, Debug)]
struct Given {
    is_v6: bool,
    client_port: u16,
    sequence: u32,
    id: u16,
    payload_bytes: usize,
    flags: u8,
    tos: u8,
    ttl: u8,
    acknowledgement: u32,
    window: u16,
    timestamp: u32,
    has_timestamp: bool,
    checksum: Checksum,
    /// Bytes that are changed at the end, without new checksums: offset and value to XOR.
    change: Option<(usize, u8)>,
    /// The flags and fragment offset of IPv4.
    fragment: u16,
}

impl Given {
    fn new(is_v6: bool) -> Given {
        Given {
            is_v6,
            client_port: 40_000,
            sequence: 0xffff_fe00,
            id: 0xffff,
            payload_bytes: 1000,
            flags: TCP_ACK,
            tos: 0,
            ttl: 64,
            acknowledgement: 7,
            window: 500,
            timestamp: 9,
            has_timestamp: true,
            checksum: Checksum::Unverified,
            change: None,
            fragment: 0x4000,
        }
    }

    /// Returns the segment that follows in the stream.
    fn next(&self) -> Given {
        let sequence = self.sequence.wrapping_add(self.payload_bytes as u32);
        Given { sequence, id: self.id.wrapping_add(1), ..self.clone() }
    }

    fn transport(&self) -> usize {
        if self.is_v6 { 54 } else { 34 }
    }

    fn packet(&self) -> Packet {
        let tcp_bytes = 20 + if self.has_timestamp { 12 } else { 0 };
        let length = (tcp_bytes + self.payload_bytes) as u16;
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if self.is_v6 {
            let tos = u32::from(self.tos) << 20;
            frame.extend([0x86, 0xdd]);
            frame.extend((0x6000_0000 | tos).to_be_bytes());
            frame.extend(length.to_be_bytes());
            frame.extend([protocol::TCP, self.ttl]);
            frame.extend(1..=32);
        } else {
            frame.extend([0x08, 0, 0x45, self.tos]);
            frame.extend((length + 20).to_be_bytes());
            frame.extend(self.id.to_be_bytes());
            frame.extend(self.fragment.to_be_bytes());
            frame.extend([self.ttl, protocol::TCP, 0, 0, 10, 1, 1, 1, 10, 1, 1, 2]);
            let computed = checksum(&frame[14..34]);
            put_u16(&mut frame, 24, computed).unwrap();
        }
        frame.extend(self.client_port.to_be_bytes());
        frame.extend([0, 80]);
        frame.extend(self.sequence.to_be_bytes());
        frame.extend(self.acknowledgement.to_be_bytes());
        frame.extend([(tcp_bytes as u8 / 4) << 4, self.flags]);
        frame.extend(self.window.to_be_bytes());
        frame.extend([0; 4]);
        if self.has_timestamp {
            frame.extend([1, 1, 8, 10]);
            frame.extend(self.timestamp.to_be_bytes());
            frame.extend([0, 0, 0, 2]);
        }
        frame.extend((0..self.payload_bytes).map(|i| (self.sequence as usize + i) as u8));
        let transport = self.transport();
        let at = Layout { network: 14, transport, protocol: 6, ipv6: self.is_v6 };
        let pseudo = at.pseudo_header_sum(&frame, usize::from(length)).unwrap();
        let is_partial = self.checksum == Checksum::Partial;
        let field = if is_partial { pseudo } else { !combine(pseudo, sum(&frame[transport..])) };
        put_u16(&mut frame, transport + usize::from(TCP_CHECKSUM), field).unwrap();
        if let Some((at, change)) = self.change {
            frame[at] ^= change;
        }
        let mut packet = Packet::from_bytes(&frame);
        packet.offload.checksum = self.checksum;
        packet
    }
}

/// Returns the batch's frames, each as the numbers of its packets. Cuts every merged frame again, which must
/// give the packets that it was made of, complete and to the byte.
fn frames_of(given: &[Packet], most: usize) -> Vec<Vec<usize>> {
    let mut pool = Pool::new(64);
    let mut packets: Vec<Packet> = given.iter().map(|packet| pool.copy(packet)).collect();
    let merge = Merge::of(&mut packets, || most);
    let mut frames = Vec::new();
    for first in 0..packets.len() {
        if !merge.begins_frame(first) {
            continue;
        }
        let (mut numbers, mut bytes) = (Vec::new(), Vec::new());
        for (part, packet) in merge.parts(&packets, first) {
            numbers.push(packets.iter().position(|it| std::ptr::eq(it, packet)).unwrap());
            bytes.extend(part);
        }
        let mut whole = Packet::from_bytes(&bytes);
        whole.offload = packets[first].offload;
        if numbers.len() == 1 {
            assert_eq!(whole.data(), given[first].data());
            assert_eq!(whole.offload, given[first].offload);
        } else {
            let layout = Layout::of(whole.data()).unwrap();
            assert!(layout.ipv6 || sum(&bytes[14..34]) == 0xffff, "the IPv4 header's checksum");
            let mut pieces = Vec::new();
            assert!(segment(&whole, &mut pool, |piece| pieces.push(piece)));
            let pieces: Vec<&[u8]> = pieces.iter().map(Packet::data).collect();
            let mut sent: Vec<Packet> = numbers.iter().map(|&at| pool.copy(&given[at])).collect();
            sent.iter_mut().for_each(complete_checksum);
            let sent: Vec<&[u8]> = sent.iter().map(Packet::data).collect();
            assert_eq!(pieces, sent);
            let mut completed = whole;
            complete_checksum(&mut completed);
            let tcp = &completed.data()[layout.transport..];
            let pseudo = layout.pseudo_header_sum(completed.data(), tcp.len()).unwrap();
            assert_eq!(combine(pseudo, sum(tcp)), 0xffff, "the partial checksum");
        }
        frames.push(numbers);
    }
    frames
}

/// Three segments in order, of which `edit` changes the second: the packets of each frame.
fn check(what: &str, is_v6: bool, edit: impl Fn(&mut Given), expect: &[&[usize]]) {
    let first = Given::new(is_v6);
    let (mut second, third) = (first.next(), first.next().next());
    edit(&mut second);
    let packets = [first, second, third].map(|it| it.packet());
    assert_eq!(frames_of(&packets, 1514), expect, "{what}, IPv6: {is_v6}");
}

const ALL: &[&[usize]] = &[&[0, 1, 2]];
const NO: &[&[usize]] = &[&[0], &[1], &[2]];
/// The second ends what the first began.
const ENDS: &[&[usize]] = &[&[0, 1], &[2]];
/// The second begins what the third ends.
const BEGINS: &[&[usize]] = &[&[0], &[1, 2]];

#[test]
fn segments_of_one_flow_in_order_leave_as_one() {
    for v6 in [false, true] {
        check("in order", v6, |_| (), ALL);
        check("without options", v6, |it| it.has_timestamp = false, NO);
        check("PSH", v6, |it| it.flags |= TCP_PSH, ENDS);
        check("FIN", v6, |it| it.flags |= TCP_FIN, ENDS);
        check("CWR", v6, |it| it.flags |= 0x80, NO);
        check("ECE", v6, |it| it.flags |= TCP_ECE, NO);
        check("SYN", v6, |it| it.flags |= 0x02, NO);
        check("RST", v6, |it| it.flags |= 0x04, NO);
        check("URG", v6, |it| it.flags |= 0x20, NO);
        check("no ACK", v6, |it| it.flags = 0, NO);
        check("a gap", v6, |it| it.sequence += 1, NO);
        check("again", v6, |it| it.sequence = 0xffff_fe00, NO);
        check("acknowledges more", v6, |it| it.acknowledgement += 1, NO);
        check("another window", v6, |it| it.window += 1, NO);
        check("another timestamp", v6, |it| it.timestamp += 1, NO);
        check("another TTL", v6, |it| it.ttl -= 1, NO);
        check("another TOS", v6, |it| it.tos = 3, NO);
        check("no payload", v6, |it| it.payload_bytes = 0, NO);
        check("another flow between", v6, |it| it.client_port += 1, NO);
        check("from another station", v6, |it| it.change = Some((11, 1)), NO);
        check("a checksum that is verified", v6, |it| it.checksum = Checksum::Good, ALL);
        check("a checksum left to do", v6, |it| it.checksum = Checksum::Partial, ALL);
        let wrong = |it: &mut Given| it.change = Some((it.transport() + 40, 1));
        check("a wrong checksum", v6, wrong, NO);
        check("an urgent pointer", v6, |it| it.change = Some((it.transport() + 19, 1)), NO);
        check("a reserved bit", v6, |it| it.change = Some((it.transport() + 12, 1)), NO);
        check("a header of no length", v6, |it| it.change = Some((it.transport() + 12, 0x80)), NO);
    }
}

#[test]
fn what_only_one_version_of_ip_has() {
    check("another id", false, |it| it.id += 2, NO);
    check("the same id", false, |it| it.id = it.id.wrapping_sub(1), NO);
    check("fragments allowed", false, |it| it.fragment = 0, NO);
    check("a fragment", false, |it| it.fragment = 0x2000, NO);
    check("the reserved flag", false, |it| it.fragment = 0xc000, NO);
    check("a wrong checksum of IPv4", false, |it| it.change = Some((24, 1)), NO);
    check("another length", false, |it| it.change = Some((17, 1)), NO);
    check("another flow label", true, |it| it.change = Some((17, 1)), NO);
    check("another length", true, |it| it.change = Some((19, 1)), NO);
    check("an extension header", true, |it| it.change = Some((20, 6)), NO);
}

/// The packets of each frame that these segments leave as, after `edit`.
fn check_many(what: &str, mut given: Vec<Given>, edit: impl Fn(&mut [Given]), expect: &[&[usize]]) {
    edit(&mut given);
    let packets: Vec<Packet> = given.iter().map(Given::packet).collect();
    assert_eq!(frames_of(&packets, 1514), expect, "{what}");
}

#[test]
fn shorter_segments_end_a_frame_and_longer_ones_begin_one() {
    for is_v6 in [false, true] {
        let stream = |sizes: &[usize]| {
            let mut given: Vec<Given> = Vec::new();
            for &payload_bytes in sizes {
                let next = given.last().map_or_else(|| Given::new(is_v6), Given::next);
                given.push(Given { payload_bytes, ..next });
            }
            given
        };
        let none = |_: &mut [Given]| ();
        check_many("shorter", stream(&[1000, 999, 1000]), none, ENDS);
        check_many("longer", stream(&[999, 1000, 1000]), none, BEGINS);
        check_many("alternating", stream(&[9, 10, 9, 10]), none, &[&[0], &[1, 2], &[3]]);
        check_many("equal, then the rest", stream(&[10, 10, 1]), none, ALL);
        let psh = |given: &mut [Given]| given[0].flags |= TCP_PSH;
        check_many("PSH at first", stream(&[10, 10, 10]), psh, BEGINS);
        let bad = |given: &mut [Given]| given[0].change = Some((70, 1));
        check_many("a wrong checksum at first", stream(&[50, 50, 50]), bad, BEGINS);
        check_many("one alone", stream(&[10]), none, &[&[0]]);
        check_many("none", Vec::new(), none, &[]);
        // What would exceed the longest frame.
        let long: Vec<Packet> = stream(&[9000; 8]).iter().map(Given::packet).collect();
        assert_eq!(frames_of(&long, 9100), [vec![0, 1, 2, 3, 4, 5, 6], vec![7]]);
        // The device takes no such segments.
        assert_eq!(frames_of(&long[..3], 9000), NO);
    }
}

#[test]
fn flows_are_merged_side_by_side_and_keep_their_order() {
    let stream = |client_port| {
        let first = Given { client_port, ..Given::new(false) };
        let (second, third) = (first.next(), first.next().next());
        [first, second, third]
    };
    let [a, b, c] = [stream(1), stream(2), stream(3)];
    let mixed =
        vec![a[0].clone(), b[0].clone(), a[1].clone(), b[1].clone(), c[0].clone(), b[2].clone()];
    check_many("in turns", mixed.clone(), |_| (), &[&[0, 2], &[1, 3, 5], &[4]]);
    // An acknowledgement of the second flow ends its frame and not the other's.
    let acknowledges = |given: &mut [Given]| given[3].payload_bytes = 0;
    check_many(
        "an acknowledgement between",
        mixed,
        acknowledges,
        &[&[0, 2], &[1], &[3], &[4], &[5]],
    );
    // A fifth flow ends the first one.
    let mut many: Vec<Given> = (1..=5).map(|port| stream(port)[0].clone()).collect();
    many.extend((1..=5).map(|port| stream(port)[1].clone()));
    let packets: Vec<Packet> = many.iter().map(Given::packet).collect();
    let merged = frames_of(&packets, 1514).iter().filter(|frame| frame.len() == 2).count();
    assert!(merged >= 1, "{merged} of five flows are merged");
    // What is no TCP leaves the flow alone; what may be a part of one ends it.
    for (ethertype, expect) in [([0x08, 0x06], &[&[0, 2][..], &[1]][..]), ([0x81, 0], NO)] {
        let mut packets = [a[0].packet(), a[0].packet(), a[1].packet()];
        packets[1].data_mut()[12..14].copy_from_slice(&ethertype);
        assert_eq!(frames_of(&packets, 1514), expect, "{ethertype:x?}");
    }
    let mut datagram = [a[0].packet(), a[0].packet(), a[1].packet()];
    datagram[1].data_mut()[23] = protocol::UDP;
    assert_eq!(frames_of(&datagram, 1514), [vec![0, 2], vec![1]]);
}

#[test]
fn large_frames_stay_what_they_are() {
    let first = Given::new(false);
    let mut packets = [first.packet(), first.next().packet(), first.next().next().packet()];
    packets[1].offload.checksum = Checksum::Partial;
    packets[1].offload.gso = Some(Gso { kind: GsoKind::TcpV4, segment_bytes: 500, ecn: false });
    let merge = Merge::of(&mut packets, || 1514);
    assert!((0..3).all(|index| merge.begins_frame(index)));
}

#[test]
fn the_device_is_asked_once_and_only_if_there_is_something_to_merge() {
    let asked = std::cell::Cell::new(0);
    let count = |packets: &mut [Packet]| {
        asked.set(0);
        let _ = Merge::of(packets, || {
            asked.set(asked.get() + 1);
            1514
        });
        asked.get()
    };
    let first = Given::new(true);
    let other = Given { client_port: 1, ..first.clone() };
    assert_eq!(count(&mut [first.packet()]), 0);
    assert_eq!(count(&mut [first.packet(), other.packet()]), 0);
    assert_eq!(
        count(&mut [first.packet(), first.next().packet(), first.next().next().packet()]),
        1
    );
}

fn given() -> impl Strategy<Value = Vec<Given>> {
    // Of most streams the next segment follows; one in eight differs somewhere.
    let step = (0..2u16, 1..4usize, 0..24u8, any::<bool>());
    (any::<bool>(), proptest::collection::vec(step, 0..=32)).prop_map(|(is_v6, steps)| {
        let mut streams = [1, 2].map(|client_port| Given { client_port, ..Given::new(is_v6) });
        steps
            .into_iter()
            .map(|(stream, size, odd, partial)| {
                let next = &mut streams[usize::from(stream)];
                next.payload_bytes = size.max(2) * 100;
                next.flags = TCP_ACK;
                next.change = None;
                next.checksum = if partial { Checksum::Partial } else { Checksum::Unverified };
                match odd {
                    0 => next.flags |= TCP_PSH,
                    1 => next.flags |= TCP_FIN,
                    2 => next.timestamp += 1,
                    3 => next.sequence += 1,
                    4 => next.id = next.id.wrapping_add(1),
                    5 => next.payload_bytes = 0,
                    6 => next.window += 1,
                    7 => next.change = Some((next.transport() + 4, 1)),
                    8 => next.flags |= 0x80,
                    _ => {}
                }
                let given = next.clone();
                *next = next.next();
                given
            })
            .collect()
    })
}

proptest! {
    /// `frames_of` compares what cutting gives with what was merged.
    #[test]
    fn merging_and_cutting_gives_the_same_bytes(given in given()) {
        let packets: Vec<Packet> = given.iter().map(Given::packet).collect();
        let frames = frames_of(&packets, 1514);
        let mut all: Vec<usize> = frames.concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..packets.len()).collect::<Vec<_>>());
        // No packet overtakes another one of its flow.
        for port in [1, 2] {
            let order: Vec<usize> =
                frames.concat().into_iter().filter(|&at| given[at].client_port == port).collect();
            prop_assert!(order.is_sorted(), "{:?}", order);
        }
    }

    #[test]
    fn any_bytes_are_merged_or_left(
        mut frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..90), 0..=32),
        is_v6: bool,
    ) {
        for frame in &mut frames {
            let header = Given::new(is_v6).packet();
            let same = frame.len().min(40);
            frame[..same].copy_from_slice(&header.data()[..same]);
        }
        let packets: Vec<Packet> = frames.iter().map(|frame| Packet::from_bytes(frame)).collect();
        frames_of(&packets, 1514);
    }
}
