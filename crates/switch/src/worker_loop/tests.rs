//! What an iteration does is bounded, however much waits.

use super::orders::COMMANDS_PER_ITERATION;
use super::*;
use base::{PortNo, WorkerId};
use conntrack::{Config, Conntrack};
use datapath::{UpcallQueue, WorkerConfig};
use flow::{Action, Field, FlowId, FlowPut, Match};

fn put(id: u64) -> FlowCommand {
    let matching = Match::any().with(Field::InPort, 1).with(Field::TpSrc, id.into());
    let actions = Arc::new([Action::Output(PortNo(2))]);
    FlowCommand::Put(Box::new(FlowPut { id: FlowId(id), matching, actions }))
}

type Channels = (Run, mpsc::Sender<WorkerCommand>, mpsc::Sender<Vec<FlowCommand>>);

/// A worker that is not started, and the channels of its commands.
fn worker() -> Channels {
    let conntrack = Arc::new(Conntrack::new(1, Config::default()));
    let (tracker, upcalls) = (conntrack.tracker().unwrap(), Arc::new(UpcallQueue::new()));
    let worker = Worker::new(WorkerId(0), tracker, upcalls, WorkerConfig::default(), 1);
    let (commands, inbox) = mpsc::channel();
    let (to_urgent, urgent) = mpsc::channel();
    let (events, _told) = tokio::sync::mpsc::unbounded_channel();
    let run = Run::new(Start {
        generation: 0,
        mode: WorkerMode::Sleeping,
        worker,
        waiter: Waiter::new().unwrap(),
        inbox,
        urgent,
        events,
        published: Arc::default(),
        metrics: Arc::default(),
        answering: None,
    });
    (run, commands, to_urgent)
}

/// Frames of protocols do not wait for a purge of all flows.
#[test]
fn frames_of_protocols_leave_before_other_commands() {
    let (mut run, commands, urgent) = worker();
    commands.send(WorkerCommand::Flows((0..2000).map(put).collect())).unwrap();
    let mut out = Outbox::new();
    assert!(run.obey(Instant::ZERO, 32, &mut out));
    let actions = Arc::new([Action::Output(PortNo(2))]);
    let packet = packet::Packet::from_bytes(&[0; 60]);
    let key = Box::new(flow::FlowKey::new());
    let frame = flow::Execute { packet, key, actions, flow: None, trace: None, stamps: None };
    urgent.send(vec![FlowCommand::Execute(frame)]).unwrap();
    assert_eq!(out.packets(), 0);
    assert!(run.obey(Instant::ZERO, 32, &mut out));
    assert!(run.has_commands && run.worker.flow_count() < 2000);
    assert_eq!(out.packets(), 1);
}

/// A purge, which comes as single commands and as lists of them, is executed in parts between which packets
/// are received; in order, and to its end before what was sent behind it.
#[test]
fn an_iteration_executes_a_bounded_number_of_flow_commands() {
    const FLOWS: u64 = 2000;
    let (mut run, commands, _urgent) = worker();
    let send = |command| commands.send(command).unwrap();
    send(WorkerCommand::Flows((0..FLOWS / 2).map(put).collect()));
    (FLOWS / 2..FLOWS).for_each(|id| send(WorkerCommand::Flow(put(id))));
    send(WorkerCommand::Flows((0..FLOWS).map(|id| FlowCommand::Delete(FlowId(id))).collect()));
    let (done, ended) = mpsc::channel();
    send(WorkerCommand::Iterate(done));
    let (mut out, mut counts) = (Outbox::new(), vec![0]);
    while run.iterated.is_none() {
        assert!(run.obey(Instant::ZERO, 32, &mut out));
        counts.push(run.worker.flow_count());
        // While commands wait the worker does not sleep.
        assert_eq!(run.has_commands, run.iterated.is_none(), "{counts:?}");
    }
    drop(ended);
    let steps = counts.windows(2).map(|two| two[0].abs_diff(two[1]));
    assert!(steps.clone().all(|step| step <= COMMANDS_PER_ITERATION), "{counts:?}");
    // The iteration that puts the last flow deletes some.
    let most = counts.iter().max().copied().unwrap_or_default();
    assert!(most > FLOWS as usize - COMMANDS_PER_ITERATION, "{counts:?}");
    assert_eq!((counts.last(), run.commands), (Some(&0), FLOWS / 2));
    drop(commands);
    assert!(!run.obey(Instant::ZERO, 32, &mut out));
}
