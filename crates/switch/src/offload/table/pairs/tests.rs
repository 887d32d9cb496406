//! Pairs of directions, with a device that keeps, refuses or returns windows.

use super::super::super::changes::Changes;
use super::super::*;
use super::*;
use base::{WorkerId, Zone};
use conntrack::{Config, Tracker};
use flow::{Action, CtAction, CtState, FlowCommand, Frame, Headers, MARK_IN_WINDOW, OffloadRule};
use packet::Packet;
use std::collections::BTreeSet;
use std::sync::Arc;

const START: Instant = Instant::from_millis(1_000_000);

fn after_ms(ms: u64) -> Instant {
    Instant::from_millis(1_000_000 + ms)
}

/// A device that keeps the windows of pairs.
#[derive(Default)]
struct Keeper {
    rules: BTreeSet<OffloadId>,
    pairs: HashMap<OffloadId, ([OffloadId; 2], TcpWindows)>,
    never: bool,
    refused: Option<OffloadRefusal>,
    /// The next status of each rule.
    told: HashMap<OffloadId, OffloadStatus>,
    /// It loses the windows.
    forgets: bool,
    keeps_settings: bool,
    next: u32,
}

impl Keeper {
    fn add(&mut self) -> OffloadId {
        self.next += 1;
        self.rules.insert(OffloadId(self.next));
        OffloadId(self.next)
    }

    /// Advances both directions; both rules report it.
    fn moves(&mut self, id: u32, by: u32) {
        let Some((ids, windows)) = self.pairs.get_mut(&OffloadId(id)) else { panic!("no pair") };
        for side in [&mut windows.original, &mut windows.reply] {
            side.sent_end += by;
            side.allowed_end += by;
        }
        let status = OffloadStatus { windows: Some(*windows), ..OffloadStatus::default() };
        self.told.insert(ids[0], status);
    }
}

impl FlowOffload for Keeper {
    fn install(&mut self, _rule: &OffloadRule, _: Duration) -> Result<OffloadId, OffloadRefusal> {
        Ok(self.add())
    }

    fn window_check(&self, rule: &OffloadRule) -> WindowCheck {
        let never = self.never || rule.headers.protocol() != TCP;
        if never { WindowCheck::Never } else { WindowCheck::Possible }
    }

    fn install_checked(
        &mut self,
        rules: [&OffloadRule; 2],
        windows: &TcpWindows,
    ) -> Result<[OffloadId; 2], OffloadRefusal> {
        assert_eq!(rules.map(|rule| rule.connection.is_reply), [false, true]);
        if let Some(refusal) = &self.refused {
            return Err(refusal.clone());
        }
        let ids = [self.add(), self.add()];
        self.pairs.insert(ids[0], (ids, *windows));
        Ok(ids)
    }

    fn set_checked(&mut self, id: OffloadId, is_checked: bool) -> bool {
        if let Some((_, windows)) = self.pairs.get_mut(&id) {
            windows.is_checked = is_checked;
        }
        !self.keeps_settings
    }

    fn end_checked(&mut self, id: OffloadId) -> Option<TcpWindows> {
        let first = *self.pairs.iter().find(|(_, (ids, _))| ids.contains(&id))?.0;
        self.pairs.remove(&first).map(|(_, windows)| windows).filter(|_| !self.forgets)
    }

    fn remove(&mut self, id: OffloadId) -> OffloadTraffic {
        assert!(self.pairs.values().all(|(ids, _)| !ids.contains(&id)), "the pair ended before");
        assert!(self.rules.remove(&id), "{id:?} is removed once");
        self.told.remove(&id).unwrap_or_default().traffic
    }

    fn status(&mut self, id: OffloadId) -> OffloadStatus {
        assert!(self.rules.contains(&id));
        self.told.remove(&id).unwrap_or_default()
    }

    fn passed(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

struct Bench {
    conntrack: Arc<Conntrack>,
    tracker: Tracker,
    table: Table,
    device: Keeper,
    changes: Changes,
}

/// The table's counters of refusals.
type Refused = Vec<(Refusal, u64)>;

impl Bench {
    fn new(device: Keeper) -> Bench {
        let conntrack = Arc::new(Conntrack::new(1, Config::default()));
        let tracker = conntrack.tracker().unwrap();
        Bench { conntrack, tracker, table: Table::default(), device, changes: Changes::default() }
    }

    fn track(&mut self, text: &str) -> Frame {
        let packet = Packet::from_bytes(&wire::text::parse(text).unwrap());
        let mut frames = [Frame::parse(packet, PortNo(1)).unwrap()];
        let action = CtAction { commit: true, zone: Zone(1), ..CtAction::default() };
        self.tracker.execute(START, &action, &mut frames);
        let [frame] = frames;
        frame
    }

    fn is_invalid(&mut self, text: &str) -> bool {
        self.track(text).key.ct_state().contains(CtState::INV)
    }

    /// Both directions of an established connection, from a client's port.
    fn offers(&mut self, port: u16) -> [OffloadOffer; 2] {
        let (there, back) =
            (format!("10.0.0.1:{port}>10.0.0.2:80"), format!("10.0.0.2:80>10.0.0.1:{port}"));
        self.track(&format!("{there} S seq=100 win=8000 wscale=0"));
        self.track(&format!("{back} SA seq=500 ack=101 win=8000 wscale=0"));
        let ack = self.track(&format!("{there} . seq=101 ack=501 win=8000"));
        let connection = ack.connection.unwrap();
        [false, true].map(|is_reply| {
            let (text, port) = if is_reply { (&back, 2) } else { (&there, 1) };
            let mut headers = Headers::none();
            let frame = wire::text::parse(&format!("{text} .")).unwrap();
            assert!(headers.read(&frame, PortNo(port)).is_some());
            let rule = OffloadRule {
                headers,
                mask: headers.tuple_mask(),
                connection: ConnectionRef { is_reply, ..connection },
                second: None,
                copies_ecn: false,
                mark: None,
                nat_rewrite: None,
                actions: Arc::new([Action::Output(PortNo(3 - port))]),
                tunnel: None,
            };
            let flows = vec![FlowId(10 + u64::from(is_reply))];
            OffloadOffer { worker: WorkerId(0), rule, flows }
        })
    }

    fn offer(&mut self, at: Instant, offers: impl IntoIterator<Item = OffloadOffer>) {
        self.table.wait(at, 0, offers.into_iter().collect(), &self.changes);
    }

    fn iterate(&mut self, now: Instant) {
        let Bench { conntrack, table, device, changes, .. } = self;
        table.sweep(device, conntrack, now, usize::MAX);
        table.install(device, conntrack, now, changes, usize::MAX);
    }

    fn refused(&self) -> Refused {
        self.table.totals.refused.iter().map(|(refusal, count)| (*refusal, *count)).collect()
    }

    /// Whether segments outside the windows are invalid.
    fn checks(&mut self, offer: &OffloadOffer) -> bool {
        let windows =
            self.conntrack.with_offloaded(START, |it| it.windows(offer.rule.connection)).unwrap();
        windows.1.is_checked
    }
}

#[test]
fn both_directions_are_installed_together_in_any_order() {
    for order in [[0, 1], [1, 0]] {
        let mut bench = Bench::new(Keeper::default());
        let offers = bench.offers(1000);
        bench.offer(START, [offers[order[0]].clone()]);
        bench.iterate(after_ms(50));
        assert_eq!((bench.device.rules.len(), bench.table.waiting()), (0, 1), "it waits");
        bench.offer(after_ms(50), [offers[order[1]].clone()]);
        bench.iterate(after_ms(100));
        assert_eq!((bench.table.checked(), bench.table.connections()), (1, (0, 1)));
        assert_eq!((bench.refused(), bench.table.waiting()), (vec![], 0));
        assert!(bench.checks(&offers[0]), "the windows are not loose");
        let ids = bench.table.rules.keys().copied().collect::<Vec<_>>();
        let is_reply = |id: &OffloadId| bench.table.rules[id].connections[0].is_reply;
        assert_eq!(ids.iter().map(is_reply).collect::<Vec<_>>(), [false, true]);
    }
}

#[test]
fn a_direction_whose_other_one_does_not_come_is_offloaded_alone() {
    let mut bench = Bench::new(Keeper::default());
    let offers = bench.offers(1000);
    bench.offer(START, [offers[0].clone()]);
    bench.iterate(after_ms(50));
    bench.iterate(after_ms(549));
    assert!(bench.device.rules.is_empty());
    bench.iterate(after_ms(550));
    assert_eq!((bench.table.connections(), bench.table.checked()), ((1, 0), 0));
    assert_eq!(bench.refused(), [(Refusal::Unchecked, 1)]);
    assert!(!bench.checks(&offers[0]), "the device looks at no windows");
    // The other direction is offered too late.
    bench.offer(after_ms(550), [offers[1].clone()]);
    bench.iterate(after_ms(600));
    assert_eq!((bench.table.connections(), bench.table.checked()), ((0, 1), 0));
    let words = bench.table.flow(FlowId(11)).unwrap().refused[&Refusal::Unchecked].words.clone();
    assert_eq!(words.as_deref(), Some("the other direction is offloaded already"));
}

#[test]
fn a_device_that_checks_no_windows_forwards_as_before_and_says_why() {
    let words = Some("no connection objects".into());
    let refused = Some(OffloadRefusal { kind: Refusal::Device, words });
    let mut bench = Bench::new(Keeper { refused, ..Keeper::default() });
    let offers = bench.offers(1000);
    bench.offer(START, offers.clone());
    bench.iterate(after_ms(50));
    assert_eq!((bench.table.connections(), bench.table.checked()), ((0, 1), 0));
    let expect = "the device refused it: no connection objects";
    for flow in [10, 11] {
        let refused = &bench.table.flow(FlowId(flow)).unwrap().refused;
        assert_eq!(refused[&Refusal::Unchecked].words.as_deref(), Some(expect));
    }
    assert!(!bench.checks(&offers[0]));
    // A connection that could never be checked is not reported.
    let mut bench = Bench::new(Keeper { never: true, ..Keeper::default() });
    let offers = bench.offers(1000);
    bench.offer(START, offers);
    bench.iterate(after_ms(50));
    assert_eq!((bench.table.connections(), bench.refused()), ((0, 1), vec![]));
}

#[test]
fn a_connection_that_was_picked_up_is_forwarded_without_a_check() {
    let mut bench = Bench::new(Keeper::default());
    let mut offers = bench.offers(1000);
    bench.track("10.0.0.7:1000>10.0.0.2:80 . seq=101 ack=501 win=500");
    bench.track("10.0.0.2:80>10.0.0.7:1000 . seq=501 ack=101 win=500");
    let picked_up = bench.track("10.0.0.7:1000>10.0.0.2:80 . seq=101 ack=501 win=500");
    for (nth, offer) in offers.iter_mut().enumerate() {
        let is_reply = nth == 1;
        offer.rule.connection = ConnectionRef { is_reply, ..picked_up.connection.unwrap() };
    }
    bench.offer(START, offers);
    bench.iterate(after_ms(50));
    assert_eq!((bench.table.connections(), bench.table.checked()), ((0, 1), 0));
    assert_eq!(bench.refused(), [(Refusal::Unchecked, 2)]);
}

/// A connection whose windows the device keeps, as rules 1 and 2.
fn paired(device: Keeper) -> (Bench, [OffloadOffer; 2]) {
    let mut bench = Bench::new(device);
    let offers = bench.offers(1000);
    bench.offer(START, offers.clone());
    bench.iterate(after_ms(50));
    assert_eq!(bench.table.checked(), 1);
    (bench, offers)
}

/// A segment far behind the windows at the beginning.
const FAR: &str = "10.0.0.1:1000>10.0.0.2:80 . seq=900101 ack=900501 win=8000 len=10";

#[test]
fn the_connection_learns_windows_while_the_device_keeps_them() {
    let (mut bench, _) = paired(Keeper::default());
    assert!(bench.is_invalid(FAR));
    bench.device.moves(1, 900_000);
    bench.iterate(after_ms(100));
    assert!(!bench.is_invalid(FAR));
    assert!(bench.is_invalid("10.0.0.1:1000>10.0.0.2:80 . seq=101 ack=501 win=8000 len=10"));
    // A RST belongs to the connection if the device says so.
    let mut packet =
        Packet::from_bytes(&wire::text::parse("10.0.0.1:1000>10.0.0.2:80 R seq=77").unwrap());
    packet.mark = MARK_IN_WINDOW;
    let mut frames = [Frame::parse(packet, PortNo(1)).unwrap()];
    let action = CtAction { commit: true, zone: Zone(1), ..CtAction::default() };
    bench.tracker.execute(START, &action, &mut frames);
    assert!(!frames[0].key.ct_state().contains(CtState::INV));
    bench.iterate(after_ms(150));
    assert!(bench.device.rules.is_empty(), "the connection is over");
}

#[test]
fn the_end_of_one_direction_ends_both_and_the_switch_checks_from_the_last_windows_on() {
    for end in ["device", "flow", "port", "mark", "all"] {
        for forgets in [false, true] {
            let (mut bench, offers) = paired(Keeper { forgets, ..Keeper::default() });
            bench.device.moves(1, 900_000);
            bench.device.told.clear();
            let Bench { conntrack, table, device, tracker, .. } = &mut bench;
            match end {
                "device" => {
                    let ended = OffloadStatus { is_ended: true, ..OffloadStatus::default() };
                    device.told.insert(OffloadId(2), ended);
                    table.sweep(device, conntrack, after_ms(100), usize::MAX);
                }
                "flow" => assert!(table.remove_flow(device, FlowId(11), conntrack, after_ms(100))),
                "port" => table.remove_port(device, PortNo(2), conntrack, after_ms(100)),
                "mark" => {
                    let packet = wire::text::parse("10.0.0.1:1000>10.0.0.2:80 . seq=101 ack=501");
                    let packet = Packet::from_bytes(&packet.unwrap());
                    let mut frames = [Frame::parse(packet, PortNo(1)).unwrap()];
                    let mark = Some(flow::Masked { value: 7, mask: u32::MAX });
                    let action =
                        CtAction { commit: true, zone: Zone(1), mark, ..CtAction::default() };
                    tracker.execute(START, &action, &mut frames);
                    table.sweep(device, conntrack, after_ms(100), usize::MAX);
                }
                _ => table.clear(device, conntrack, after_ms(100)),
            }
            assert!(bench.device.rules.is_empty() && bench.device.pairs.is_empty(), "{end}");
            assert_eq!((bench.table.connections(), bench.table.totals.removed), ((0, 0), 2));
            let early = "10.0.0.1:1000>10.0.0.2:80 . seq=101 ack=501 win=8000 len=10";
            if end != "all" {
                assert!(!bench.is_invalid(early), "{end}: a worker may not know the windows yet");
            }
            bench.iterate(after_ms(149));
            bench.iterate(after_ms(150));
            // Windows that the device lost cannot be checked again.
            assert_eq!(bench.is_invalid(early), !forgets, "{end}");
            assert!(!bench.is_invalid(FAR), "{end}");
            assert_eq!(bench.table.pairs.settling.len(), 0);
            drop(offers);
        }
    }
}

#[test]
fn a_connection_that_is_offloaded_again_begins_with_the_windows_that_it_ended_with() {
    let (mut bench, offers) = paired(Keeper::default());
    bench.device.moves(1, 900_000);
    bench.device.told.clear();
    let Bench { conntrack, table, device, .. } = &mut bench;
    table.remove_flow(device, FlowId(10), conntrack, after_ms(90));
    bench.offer(after_ms(40), offers);
    bench.iterate(after_ms(91));
    assert_eq!(bench.table.checked(), 1);
    let (_, windows) = bench.device.pairs[&OffloadId(3)];
    assert_eq!((windows.is_checked, windows.reply.sent_end), (true, 900_501));
    // Offloaded alone meanwhile, its windows stay unchecked.
    let (mut bench, offers) = paired(Keeper::default());
    bench.device.never = true;
    let Bench { conntrack, table, device, .. } = &mut bench;
    table.remove_flow(device, FlowId(10), conntrack, after_ms(90));
    bench.offer(after_ms(40), offers.clone());
    bench.iterate(after_ms(91));
    bench.iterate(after_ms(200));
    assert!(!bench.checks(&offers[0]));
}

#[test]
fn the_device_follows_the_setting_of_checks_or_loses_the_connection() {
    for keeps_settings in [false, true] {
        let (mut bench, _) = paired(Keeper { keeps_settings, ..Keeper::default() });
        bench.conntrack.set_check_tcp_windows(false);
        bench.iterate(after_ms(60));
        assert_eq!(bench.device.rules.len(), 2, "it is asked with the next packets");
        bench.device.moves(1, 10);
        bench.iterate(after_ms(70));
        let is_checked = bench.device.pairs.values().map(|(_, it)| it.is_checked);
        let expect = if keeps_settings { vec![] } else { vec![false] };
        assert_eq!(is_checked.collect::<Vec<_>>(), expect);
        assert_eq!(bench.table.checked(), expect.len());
    }
}

#[test]
fn what_changes_while_a_direction_waits_for_the_other_one_is_not_installed() {
    // A flow of the waiting direction changes.
    let mut bench = Bench::new(Keeper::default());
    let offers = bench.offers(1000);
    bench.offer(START, [offers[0].clone()]);
    bench.iterate(after_ms(50));
    bench.changes.note(WorkerId(0), &FlowCommand::Delete(FlowId(10)));
    bench.offer(START, [offers[1].clone()]);
    bench.iterate(after_ms(100));
    assert_eq!((bench.refused(), bench.table.waiting()), (vec![(Refusal::FlowChanged, 1)], 1));
    bench.iterate(after_ms(600));
    assert_eq!((bench.table.connections(), bench.table.checked()), ((1, 0), 0));
    // It is dropped if the other direction is never offered.
    let mut bench = Bench::new(Keeper::default());
    let offers = bench.offers(1000);
    bench.offer(START, [offers[0].clone()]);
    bench.iterate(after_ms(50));
    bench.changes.note(WorkerId(0), &FlowCommand::Delete(FlowId(10)));
    bench.iterate(after_ms(550));
    assert_eq!(bench.refused(), [(Refusal::FlowChanged, 1)]);
    assert!(bench.table.flow(FlowId(10)).is_none() && bench.device.rules.is_empty());
    // Its port is removed, or everything is.
    for end in ["port", "all"] {
        let mut bench = Bench::new(Keeper::default());
        let offers = bench.offers(1000);
        bench.offer(START, [offers[0].clone()]);
        bench.iterate(after_ms(50));
        let Bench { conntrack, table, device, .. } = &mut bench;
        match end {
            "port" => table.remove_port(device, PortNo(2), conntrack, START),
            _ => table.clear(device, conntrack, START),
        }
        assert_eq!(bench.table.waiting(), 0);
        bench.iterate(after_ms(1000));
        assert!(bench.device.rules.is_empty(), "{end}");
    }
    // The connection ends.
    let mut bench = Bench::new(Keeper::default());
    let offers = bench.offers(1000);
    bench.offer(START, [offers[0].clone()]);
    bench.iterate(after_ms(50));
    bench.conntrack.flush(START, &conntrack::CtFlush::default()).unwrap();
    bench.iterate(after_ms(600));
    assert_eq!(bench.refused(), [(Refusal::Ended, 1), (Refusal::Unchecked, 1)]);
    assert!(bench.device.rules.is_empty());
}
