//! Dumps of flow statistics, page by page, so that packets wait for at most one page.

use super::Worker;
use crate::installed::{InstalledFlow, find};
use crate::outbox::Outbox;
use base::{Instant, WorkerId};
use classifier::{Index, MegaflowTable, Queue};
use flow::{FlowDump, FlowId, FlowStats};

/// Flows per page. Reading their statistics takes some ten microseconds.
const PAGE: usize = 256;

/// The state of dumps.
#[derive(Debug, Default)]
pub(crate) struct Dump {
    /// Flows hit since they were last dumped.
    pub hit: Queue<FlowId>,
    /// Last statistics of flows deleted since the last page.
    pub gone: Vec<(FlowId, FlowStats)>,
    /// Statistics of flows when they were changed or marked since the last page.
    pub marked: Vec<(FlowId, FlowStats)>,
    /// Flows still to be dumped in the current dump.
    telling: Queue<FlowId>,
    /// When the current dump was requested.
    under_way: Option<Instant>,
}

/// The flows of a worker that is no more, of which there is still something to tell.
#[derive(Debug)]
pub struct LastFlows {
    id: WorkerId,
    flows: MegaflowTable<InstalledFlow>,
    ids: Index,
    dump: Dump,
}

impl Dump {
    /// Begins with the flows that were hit since the last dump.
    fn begin(&mut self, now: Instant) {
        self.telling.append(&mut self.hit);
        self.under_way = Some(now);
    }

    /// The next page of the dump under way, if there is one.
    fn page(
        &mut self,
        worker: WorkerId,
        ids: &Index,
        table: &mut MegaflowTable<InstalledFlow>,
    ) -> Option<FlowDump> {
        let at = self.under_way?;
        let gone = std::mem::take(&mut self.gone);
        let marked = std::mem::take(&mut self.marked);
        let mut flows = Vec::with_capacity(self.telling.len().min(PAGE));
        for _ in 0..PAGE {
            let Some(id) = self.telling.pop() else { break };
            let Some(flow) = find(ids, table, id).and_then(|it| table.get_mut(it)) else {
                continue;
            };
            flow.reported = false;
            flows.push((id, flow.told()));
        }
        let is_last = self.telling.is_empty();
        if is_last {
            self.under_way = None;
        }
        Some(FlowDump { worker, at, is_last, marked, flows, gone })
    }
}

impl LastFlows {
    /// The next page of what there is to tell; `None` after the last one.
    pub fn next_page(&mut self) -> Option<FlowDump> {
        self.dump.page(self.id, &self.ids, &mut self.flows)
    }
}

impl Worker {
    /// Ends the worker. What its flows carried is told later: there may be millions of them, and their ports are
    /// to be served by others meanwhile.
    pub fn end(self, now: Instant) -> LastFlows {
        let Worker { id, flows, ids, mut dump, .. } = self;
        dump.begin(now);
        LastFlows { id, flows, ids, dump }
    }

    /// Begins a dump of the flows hit since the last one.
    pub(crate) fn begin_dump(&mut self, now: Instant, out: &mut Outbox) {
        self.dump.begin(now);
        self.continue_dump(out);
    }

    /// Sends the statistics of deleted and changed flows once they fill a page, even without a request, so that they
    /// always fit one page.
    pub(crate) fn tell_of_gone(&mut self, now: Instant, out: &mut Outbox) {
        if self.dump.gone.len() + self.dump.marked.len() >= PAGE {
            let gone = std::mem::take(&mut self.dump.gone);
            let marked = std::mem::take(&mut self.dump.marked);
            let (worker, at) = (self.id, self.dump.under_way.unwrap_or(now));
            let flows = Vec::new();
            out.dumps.push(FlowDump { worker, at, is_last: false, marked, flows, gone });
        }
    }

    /// Notes what a flow has carried so far.
    pub(crate) fn mark(&mut self, id: FlowId) {
        let flow = self.handle_of(id).and_then(|handle| self.flows.get(handle));
        // A flow that is not there has carried nothing, and the control side awaits the mark.
        let told = flow.map_or_else(FlowStats::default, InstalledFlow::told);
        self.dump.marked.push((id, told));
    }

    /// Whether a dump waits for [`Self::continue_dump`].
    #[inline]
    pub fn is_dumping(&self) -> bool {
        self.dump.under_way.is_some()
    }

    /// Sends one more page of the current dump, if there is one.
    pub fn continue_dump(&mut self, out: &mut Outbox) {
        out.dumps.extend(self.dump.page(self.id, &self.ids, &mut self.flows));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;
    use crate::worker::WorkerConfig;
    use base::PortNo;
    use flow::{Action, Field, FlowCommand, Match};

    const FLOWS: u64 = 1000;

    /// A worker with a flow per UDP source port.
    fn with_flows() -> Bench {
        let mut bench = Bench::new(WorkerConfig::default());
        for n in 1..=FLOWS {
            let matching = Match::any()
                .with(Field::InPort, 1)
                .with(Field::EthType, 0x0800)
                .with(Field::TpSrc, n.into());
            bench.put(n, matching, [Action::Output(PortNo(2))]);
        }
        // It tells that new flows have carried nothing.
        collect(&mut bench);
        bench.out.dumps.clear();
        bench
    }

    /// Hits a flow.
    fn hit(bench: &mut Bench, n: u64) {
        bench.send(1, &[&format!("10.0.0.1:{n}>10.0.0.2:80 udp")]);
        bench.take_sent();
    }

    fn collect(bench: &mut Bench) {
        bench.command(FlowCommand::Collect);
    }

    #[test]
    fn a_dump_of_many_flows_comes_in_pages_and_counts_every_packet_once() {
        let mut bench = with_flows();
        (1..=FLOWS).for_each(|n| hit(&mut bench, n));
        let asked = Instant::from_millis(1001);
        bench.now = asked;
        collect(&mut bench);
        let mut pages = 1;
        let mut told = std::collections::BTreeMap::new();
        let mut between = 0;
        loop {
            for dump in bench.out.dumps.drain(..) {
                assert_eq!(dump.at, asked);
                assert!(dump.flows.len() <= PAGE + 1, "{} flows on a page", dump.flows.len());
                let all = dump.flows.iter().chain(&dump.gone);
                told.extend(all.map(|(id, stats)| (id.0, stats.packets)));
            }
            if !bench.worker.is_dumping() {
                break;
            }
            // Packets arrive between the pages, and a flow is deleted.
            between += 1;
            bench.now = Instant::from_millis(1002);
            hit(&mut bench, between);
            if between == 1 {
                bench.delete(FLOWS / 2);
            }
            bench.worker.continue_dump(&mut bench.out);
            pages += 1;
        }
        assert!(pages > 3 && told.len() as u64 == FLOWS, "{pages} pages, {} flows", told.len());
        bench.now = Instant::from_millis(1003);
        collect(&mut bench);
        for dump in bench.out.dumps.drain(..) {
            told.extend(
                dump.flows.iter().chain(&dump.gone).map(|(id, stats)| (id.0, stats.packets)),
            );
        }
        assert_eq!(told.values().sum::<u64>(), FLOWS + between);
    }

    #[test]
    fn what_a_flow_carried_before_a_change_is_told_apart() {
        let mut bench = with_flows();
        let put = |bench: &mut Bench, n: u64, to: u32| {
            let matching = Match::any()
                .with(Field::InPort, 1)
                .with(Field::EthType, 0x0800)
                .with(Field::TpSrc, n.into());
            bench.put(n, matching, [Action::Output(PortNo(to))]);
        };
        let told = |told: &[(FlowId, FlowStats)]| -> Vec<(u64, u64)> {
            told.iter().map(|(id, stats)| (id.0, stats.packets)).collect()
        };
        [7, 7, 8].into_iter().for_each(|n| hit(&mut bench, n));
        put(&mut bench, 7, 3);
        bench.command(FlowCommand::Mark(FlowId(9)));
        bench.command(FlowCommand::Mark(FlowId(FLOWS + 1)));
        [7, 9].into_iter().for_each(|n| hit(&mut bench, n));
        bench.command(FlowCommand::Mark(FlowId(7)));
        bench.delete(7);
        collect(&mut bench);
        let [page] = &bench.out.dumps[..] else { panic!("{} pages", bench.out.dumps.len()) };
        assert_eq!(told(&page.marked), [(7, 2), (9, 0), (FLOWS + 1, 0), (7, 3)]);
        assert_eq!((told(&page.flows), told(&page.gone)), (vec![(8, 1), (9, 1)], vec![(7, 3)]));
        bench.out.dumps.clear();
        // Pages of many changes come unasked.
        (1..=FLOWS).for_each(|n| bench.command(FlowCommand::Mark(FlowId(n))));
        let pages = bench.out.dumps.drain(..).map(|page| page.marked.len()).collect::<Vec<_>>();
        assert_eq!(pages, [PAGE; FLOWS as usize / PAGE]);
    }

    /// Defect 3 (ARCHITECTURE.md).
    #[test]
    fn a_dump_goes_through_flows_that_were_hit_and_no_idle_one() {
        let mut bench = with_flows();
        (1..=FLOWS).for_each(|n| hit(&mut bench, n));
        collect(&mut bench);
        while bench.worker.is_dumping() {
            bench.worker.continue_dump(&mut bench.out);
        }
        bench.out.dumps.clear();
        // Ten of a thousand are hit, two of them twice; then none.
        for n in [7, 900, 3, 7, 5, 11, 1000, 1, 13, 900, 17, 19] {
            hit(&mut bench, n);
        }
        for told in [vec![1, 3, 5, 7, 11, 13, 17, 19, 900, 1000], Vec::new()] {
            assert_eq!(bench.worker.dump.hit.len(), told.len(), "what the dump goes through");
            collect(&mut bench);
            assert!(!bench.worker.is_dumping(), "one page tells of all");
            let [page] = &bench.out.dumps[..] else { panic!("{} pages", bench.out.dumps.len()) };
            let mut ids: Vec<u64> = page.flows.iter().map(|(id, _)| id.0).collect();
            ids.sort_unstable();
            assert_eq!((ids, page.gone.len()), (told, 0));
            bench.out.dumps.clear();
        }
    }

    #[test]
    fn a_worker_that_ended_tells_of_what_it_has_not_told() {
        let mut bench = with_flows();
        (1..=FLOWS).for_each(|n| hit(&mut bench, n));
        // It ends in the middle of a dump, when a flow is gone and another was hit again.
        collect(&mut bench);
        bench.delete(FLOWS);
        hit(&mut bench, 1);
        let mut told = std::collections::BTreeMap::new();
        let mut take = |page: FlowDump| {
            assert!(page.flows.len() <= PAGE);
            let all = page.flows.iter().chain(&page.gone);
            told.extend(all.map(|(id, stats)| (id.0, stats.packets)));
            page.is_last
        };
        assert!(bench.out.dumps.drain(..).all(|page| !take(page)));
        let mut last = bench.worker.end(bench.now);
        let pages: Vec<bool> = std::iter::from_fn(|| last.next_page()).map(&mut take).collect();
        assert_eq!(pages, [false, false, true]);
        assert_eq!(told, (1..=FLOWS).map(|n| (n, 1 + u64::from(n == 1))).collect());
    }

    #[test]
    fn of_many_flows_that_go_pages_come_unasked() {
        let mut bench = with_flows();
        (1..=FLOWS).for_each(|n| hit(&mut bench, n));
        (1..=FLOWS).for_each(|n| bench.delete(n));
        assert_eq!(
            (bench.out.dumps.len() as u64, bench.worker.is_dumping()),
            (FLOWS / PAGE as u64, false)
        );
        collect(&mut bench);
        while bench.worker.is_dumping() {
            bench.worker.continue_dump(&mut bench.out);
        }
        let mut told = std::collections::BTreeMap::new();
        for dump in bench.out.dumps.drain(..) {
            assert!(dump.flows.is_empty() && dump.gone.len() <= PAGE);
            told.extend(dump.gone.iter().map(|(id, stats)| (id.0, stats.packets)));
        }
        assert_eq!(told, (1..=FLOWS).map(|n| (n, 1)).collect());
    }
}
