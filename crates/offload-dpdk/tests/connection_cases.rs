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
        Some(match self.offload.device().receive(number, frame) {
            Fate::Sent(_, bytes) => (true, bytes),
            Fate::Switch | Fate::Dropped | Fate::Marked(_) => (false, frame.to_vec()),
        })
    }

    fn send_to(&mut self, port: PortNo) {
        if self.number(port).is_none() {
            self.numbers.push(port);
            self.offload.add_port(port, self.numbers.len() as u16 - 1, MTU);
        }
    }
}

#[test]
fn with_offload_all_that_is_known_of_packets_is_the_same() {
    let offload = DpdkOffload::new(Recorder::default());
    let mut card = Card { offload, numbers: Vec::new() };
    (0..DEVICES).for_each(|nth| card.send_to(PortNo(FIRST_IN + nth)));
    offloaded::check_all(&Mutex::new(card));
}
