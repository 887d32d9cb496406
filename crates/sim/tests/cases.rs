//! Defects that seeds found, each as the shortest plan that showed it.

use datapath::Answers;
use sim::{Act, Conn, Header, Matching, Plan, Rule, Settings, Step, Threads, run};

const WORKER: u8 = 0;
const HANDLER: u8 = 0;
const ALL: usize = usize::MAX;
const TRACKED: u8 = 2;

/// A switch with one worker, one handler and these rules, which go through these steps.
fn plan(rules: Vec<Rule>, flow_limit: usize, steps: Vec<Step>) -> Plan {
    let threads = Threads { workers: 1, answers: Answers::Handlers(1), revalidators: 0 };
    let rules = rules.into_iter().map(Some).collect();
    let settings = Settings {
        threads,
        ports: 2,
        rules,
        unified_entries: 0,
        exact_insert_inverse: 1,
        flow_limit,
        max_idle_ms: 10_000,
        port_depth: 100,
    };
    Plan { seed: 0, settings, steps }
}

/// Packets with these numbers, of the flow from one host to another.
fn arrive(src: u8, numbers: &[u32]) -> Step {
    let header = Header { port: 1, src, dst: 7, sport: 1024, dport: 80, tos: 0 };
    Step::Arrive(numbers.iter().map(|&number| (number, header)).collect())
}

fn work(commands: usize) -> Step {
    Step::Work { worker: WORKER, commands }
}

/// Found as seed 991: the second packet of a flow waits for an answer after connection tracking, where no flow can be
/// installed. Then a rule says that packets are not tracked any more, and the third overtook it.
#[test]
fn packets_that_are_not_tracked_any_more_overtake_none() {
    let any = Matching::default;
    let first = |acts| Rule { table: 0, priority: 1, matching: any(), acts };
    let tracks = first(vec![Act::Track { zone: 1, table: TRACKED, nat: false }]);
    let matching = Matching { conn: Some(Conn::New), ..any() };
    let forwards = Rule { table: TRACKED, priority: 2, matching, acts: vec![Act::Output(2)] };
    let steps = vec![
        arrive(1, &[1]),
        Step::Drain,
        arrive(3, &[2, 3]),
        work(ALL),
        Step::Translate { handler: HANDLER, most: ALL },
        Step::Install(HANDLER),
        work(1),
        Step::Put(0, first(vec![Act::Output(2)])),
        arrive(3, &[4]),
        work(ALL),
    ];
    let report = run(&plan(vec![tracks, forwards], 1, steps)).unwrap();
    assert_eq!((report.received, report.sent), (4, 4));
}

/// The same for replies of a connection with NAT, whose addresses are not those of its original direction.
#[test]
fn replies_with_nat_that_are_not_tracked_any_more_overtake_none() {
    let any = Matching::default;
    let first = |acts| Rule { table: 0, priority: 1, matching: any(), acts };
    let tracks = first(vec![Act::Track { zone: 1, table: TRACKED, nat: true }]);
    let later = |priority, conn, acts| {
        let matching = Matching { conn: Some(conn), ..any() };
        Rule { table: TRACKED, priority, matching, acts }
    };
    let begins = vec![Act::Commit { zone: 1, nat: true }, Act::Output(2)];
    let replies = later(3, Conn::Reply, vec![Act::Output(2)]);
    let there = Header { port: 1, src: 1, dst: 7, sport: 1024, dport: 80, tos: 0 };
    // On the same port, since only one flow can be installed.
    let back = Header { dst: Header::NAT_HOST, ..there.reply(1) };
    let arrive = |header, numbers: &[u32]| {
        Step::Arrive(numbers.iter().map(|&number| (number, header)).collect())
    };
    let steps = vec![
        arrive(there, &[1]),
        Step::Drain,
        arrive(back, &[2, 3]),
        work(ALL),
        Step::Translate { handler: HANDLER, most: ALL },
        Step::Install(HANDLER),
        work(1),
        Step::Put(0, first(vec![Act::Output(2)])),
        arrive(back, &[4]),
        work(ALL),
    ];
    let report = run(&plan(vec![tracks, later(2, Conn::New, begins), replies], 1, steps)).unwrap();
    assert_eq!((report.received, report.sent), (4, 4));
}

/// Found as seed 1019: a packet is tracked while its port is removed, and a rule that is newer than the removal sent it
/// on.
#[test]
fn packets_of_a_removed_port_are_forwarded_by_no_later_rule() {
    let any = Matching::default;
    let acts = vec![Act::Track { zone: 1, table: TRACKED, nat: false }];
    let tracks = Rule { table: 0, priority: 1, matching: any(), acts };
    let forwards =
        Rule { table: TRACKED, priority: 2, matching: any(), acts: vec![Act::Output(2)] };
    let steps = vec![
        arrive(1, &[1]),
        work(ALL),
        Step::Translate { handler: HANDLER, most: ALL },
        Step::RemovePort(1),
        Step::Put(1, forwards),
    ];
    let report = run(&plan(vec![tracks], 100, steps)).unwrap();
    assert_eq!((report.received, report.nowhere, report.sent), (1, 1, 0));
}
