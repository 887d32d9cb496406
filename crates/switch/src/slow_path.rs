//! Which threads answer misses and revalidate flows, and the control thread's part.

use super::Switch;
use super::handlers::{Answering, HandlerShared, Threads};
use super::worker_messages::Outlet;
use super::worker_thread::WorkerThread;
use base::{PortNo, WorkerId};
use control::{InterfaceKind, UpcallRateList};
use datapath::{Answers, UpcallRates};
use ofproto::TraceRequest;
use port::PortError;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Switch {
    /// Stops handlers and revalidators, and answers the upcalls that wait for handlers.
    pub(super) fn stop_handlers(&mut self) {
        self.threads = None;
        self.catch_up();
        let now = clock::now();
        for upcall in self.handler_shared.upcalls.drain() {
            match self.is_restoring {
                true => self.outbox.commands.extend(upcall.refusal()),
                false => self.ofproto.upcall(now, upcall, &mut self.outbox),
            }
        }
    }

    /// Traces a packet through the tables. What an actual packet causes beside its output is carried out.
    pub(super) fn trace_packet(&mut self, request: &TraceRequest) -> String {
        self.ofproto.trace(clock::now(), request, &mut self.outbox)
    }

    /// Counts the upcalls that the stopped workers left as lost, and creates the queue for the next workers.
    pub(super) fn replace_upcall_queue(&mut self, workers: usize) {
        let upcalls = &self.handler_shared.upcalls;
        let waiting = upcalls.drain();
        let waiting = waiting.iter().map(|upcall| (upcall.key.in_port(), 1));
        for (port, lost) in upcalls.dropped().into_iter().chain(waiting) {
            *self.lost_before.entry(port).or_default() += lost;
        }
        if let Answers::Workers(count) = &mut self.slow.answers {
            *count = workers as u16;
        }
        let datapath = self.settings.dummy.datapath_name();
        self.handler_shared = HandlerShared::new(self.slow, &self.events, &self.latency, datapath);
        self.tell_handlers_of_restoring();
        self.limit_upcalls();
    }

    /// Limits upcalls as configured. Called when a port gets or loses its number in the datapath.
    pub(super) fn limit_upcalls(&self) {
        let device = |name: &str| self.configured.interfaces.get(name).and_then(|it| it.device);
        let rates = numbered(&self.desired.options.upcall_rates, device);
        self.handler_shared.upcalls.set_rates(rates);
    }

    /// Logs each name with a limit of upcalls that no port of the datapath can have, once.
    pub(super) fn warn_of_useless_limits(&mut self) {
        let interfaces = &self.configured.interfaces;
        let useless: BTreeMap<String, Useless> =
            useless_limits(&self.desired.options.upcall_rates, |name| {
                Some(&interfaces.get(name)?.interface.kind)
            });
        for (name, why) in &useless {
            if self.configured.useless_limits.get(name) != Some(why) {
                log::warn!(
                    target: "ofproto_dpif_upcall",
                    "tidegate-upcall-rates: the limit of {name} has no effect: {}", why.text()
                );
            }
        }
        self.configured.useless_limits = useless;
    }

    /// Makes handlers drop misses while flows are restored.
    pub(super) fn tell_handlers_of_restoring(&self) {
        self.handler_shared.set_restoring(self.is_restoring);
    }

    /// Returns what answers a worker's misses on its own thread, if workers do that.
    pub(super) fn answering(&self, worker: WorkerId) -> Option<Answering> {
        let is_its = matches!(self.slow.answers, Answers::Workers(_));
        is_its.then(|| {
            Answering::new(worker, self.ofproto.handler(), Arc::clone(&self.handler_shared))
        })
    }

    /// Starts the configured threads. If that fails, the control thread does their work, and `start_workers`
    /// is called, because the upcall queue was made for the threads.
    pub(super) fn start_handlers_or(
        &mut self,
        start_workers: impl FnOnce(&mut Switch) -> Result<(), PortError>,
    ) -> Result<(), PortError> {
        if self.start_handlers() {
            return Ok(());
        }
        // They are not tried again before the configuration requests others.
        self.unstartable = Some(std::mem::take(&mut self.slow));
        start_workers(self)
    }

    /// Returns whether the configured threads run.
    fn start_handlers(&mut self) -> bool {
        let handlers = match self.slow.answers {
            Answers::Handlers(count) => count,
            Answers::Owner | Answers::Workers(_) => 0,
        };
        self.ofproto.set_revalidates(self.slow.revalidators == 0);
        if handlers == 0 && self.slow.revalidators == 0 {
            return true;
        }
        let handlers = (0..handlers).map(|_| self.ofproto.handler()).collect();
        let revalidators =
            (0..self.slow.revalidators).map(|_| self.ofproto.revalidator()).collect();
        let workers: Vec<Outlet> = self.workers.iter().map(WorkerThread::outlet).collect();
        match Threads::start(Arc::clone(&self.handler_shared), handlers, revalidators, &workers) {
            Ok(threads) => self.threads = Some(threads),
            Err(error) => log::error!(
                target: "ofproto_dpif_upcall",
                "cannot start handlers and revalidators ({error}); the control thread does their work"
            ),
        }
        self.threads.is_some()
    }

    /// Applies what handlers left to the control thread.
    pub(super) fn catch_up(&mut self) {
        self.handler_shared.look();
        let now = clock::now();
        self.ofproto.apply_credits(now);
        self.ofproto.ask_wanted_neighbours(now, &mut self.outbox);
    }

    /// Wakes revalidators if flows need revalidation.
    pub(super) fn wake_revalidators(&self) {
        if self.slow.revalidators > 0 && self.ofproto.needs_revalidation() {
            self.handler_shared.revalidation.ring();
        }
    }

    /// Returns the upcalls dropped because the queue was full, by port.
    pub(super) fn lost_upcalls(&self) -> BTreeMap<PortNo, u64> {
        let mut lost = self.lost_before.clone();
        for (port, dropped) in self.handler_shared.upcalls.dropped() {
            *lost.entry(port).or_default() += dropped;
        }
        lost
    }
}

/// Why a limit of a port's upcalls has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Useless {
    /// No bridge has an interface of this name.
    Unknown,
    /// The interface is a tunnel or a patch port: its packets come from ports of the datapath.
    NotInDatapath,
}

impl Useless {
    fn text(self) -> &'static str {
        match self {
            Useless::Unknown => "no bridge has an interface of this name",
            Useless::NotInDatapath => {
                "tunnels and patch ports are no ports of the datapath; limit the port that receives their packets"
            }
        }
    }
}

/// Returns configured limits by the ports' numbers. A port that has none yet is left out.
fn numbered(list: &UpcallRateList, device: impl Fn(&str) -> Option<PortNo>) -> UpcallRates {
    let mut rates = UpcallRates::default();
    for (port, class, rate) in list.iter() {
        match port.map(&device) {
            None => drop(rates.every_port.insert(class, rate)),
            Some(Some(device)) => drop(rates.by_port.insert((device, class), rate)),
            Some(None) => {}
        }
    }
    rates
}

/// Returns the names of ports whose limits have no effect, by the kinds of the interfaces.
fn useless_limits<'a>(
    list: &UpcallRateList,
    kind: impl Fn(&str) -> Option<&'a InterfaceKind>,
) -> BTreeMap<String, Useless> {
    let why = |name: &str| match kind(name) {
        None => Some(Useless::Unknown),
        Some(InterfaceKind::Tunnel(_) | InterfaceKind::Patch { .. }) => {
            Some(Useless::NotInDatapath)
        }
        Some(_) => None,
    };
    let names = list.iter().filter_map(|(port, _, _)| port);
    names.filter_map(|name| Some((name.to_owned(), why(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_names_that_are_no_ports_of_the_datapath_are_useless() {
        let patch = InterfaceKind::Patch { peer: "other".to_owned() };
        let kind = |name: &str| match name {
            "eth1" | "eth2" => Some(&InterfaceKind::System),
            "patch1" => Some(&patch),
            _ => None,
        };
        // `eth2` has no device yet.
        let device = |name: &str| (name == "eth1").then_some(PortNo(3));
        let text = "ip=9,eth1/ip=7,eth2/ip=6,patch1/ip=5,patch1/other=4,eht1/ip=3";
        let list = UpcallRateList::parse(text).unwrap();
        let useless = [("eht1", Useless::Unknown), ("patch1", Useless::NotInDatapath)];
        let useless = useless.map(|(name, why)| (name.to_owned(), why));
        assert_eq!(useless_limits(&list, kind), useless.into());
        let ip = flow::QueueClass::Ip;
        let rates =
            UpcallRates { every_port: [(ip, 9)].into(), by_port: [((PortNo(3), ip), 7)].into() };
        assert_eq!(numbered(&list, device), rates);
    }
}
