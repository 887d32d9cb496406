//! The cases of connection tracking with offload to rules of `rte_flow`, which a device of the test obeys.

#[path = "../../datapath/tests/support/offloaded.rs"]
mod offloaded;
mod recorder;
#[path = "../../conntrack/tests/support/mod.rs"]
mod support;

use base::PortNo;
use flow::FlowOffload;
use offload_dpdk::DpdkOffload;
use offloaded::{DEVICES, FIRST_IN, Forwards, MTU};
use recorder::{Fate, Recorder};
use std::sync::Mutex;

/// Offload to the device, and DPDK's numbers of ports.
struct Card {
    offload: DpdkOffload<Recorder>,
    numbers: Vec<PortNo>,
    mark: u32,
    checks_windows: bool,
}

impl Card {
    fn number(&self, port: PortNo) -> Option<u16> {
        self.numbers.iter().position(|it| *it == port).map(|at| at as u16)
    }
}

impl Forwards for Card {
    fn offload(&mut self) -> &mut dyn FlowOffload {
        &mut self.offload
    }

    fn try_frame(&mut self, port: PortNo, frame: &[u8]) -> Option<(bool, Vec<u8>)> {
        let number = self.number(port)?;
        self.mark = 0;
        Some(match self.offload.device().receive(number, frame) {
            Fate::Marked(mark) => {
                self.mark = mark;
                (false, frame.to_vec())
            }
            Fate::Sent(_, bytes) => (true, bytes),
            Fate::Switch | Fate::Dropped => (false, frame.to_vec()),
        })
    }

    fn checks_windows(&self) -> bool {
        self.checks_windows
    }

    fn mark(&self) -> u32 {
        self.mark
    }

    fn send_to(&mut self, port: PortNo) {
        if self.number(port).is_none() {
            self.numbers.push(port);
            self.offload.add_port(port, self.numbers.len() as u16 - 1, MTU);
        }
    }
}

fn check_all(checks_windows: bool, differ: &[&str]) -> Card {
    let offload = DpdkOffload::new(Recorder::default());
    let mut card = Card { offload, numbers: Vec::new(), mark: 0, checks_windows };
    (0..DEVICES).for_each(|nth| card.send_to(PortNo(FIRST_IN + nth)));
    let card = Mutex::new(card);
    offloaded::check_all(&card, differ);
    card.into_inner().unwrap()
}

#[test]
fn with_offload_all_that_is_known_of_packets_is_the_same() {
    check_all(false, &offloaded::NOT_WITH_OFFLOAD);
}

/// Windows are a device's matter, too, if it has connection objects.
#[test]
fn with_connection_objects_segments_outside_the_windows_are_invalid() {
    let mut card = check_all(true, &[]);
    let Recorder { rules, objects, judged, .. } = card.offload.device();
    assert!(rules.is_empty() && objects.is_empty());
    assert!(*judged > 15, "objects judged {judged} segments");
}
