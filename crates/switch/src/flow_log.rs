//! Log messages at level DBG about misses and installed flows, in the words that Open vSwitch's tests look
//! for (ovs: `lib/dpif-netdev.c`, `dp_netdev_upcall`, `dp_netdev_flow_add`).

use base::{Instant, WorkerId};
use flow::{Action, Execute, FlowCommand, FlowId, FlowKey, FlowPut, Mask, Upcall, UpcallKind};
use log::Level;
use ofproto::Ofproto;
use ofproto::text::{
    PortNames, format_actions, format_flow, format_packet, format_stats, format_ufid,
};

/// Logs an upcall.
pub fn upcall(datapath: &str, upcall: &Upcall) {
    if log::log_enabled!(target: "dpif_netdev", Level::Debug) {
        let kind = match upcall.kind {
            UpcallKind::Miss => "miss",
            _ => "action",
        };
        let key = format_packet(&upcall.key, PortNames::default());
        log::debug!(target: "dpif_netdev", "{datapath}: {kind} upcall:\n{key}");
    }
}

/// Logs flow commands to workers: the answer to a miss may add a flow; any other command
/// changes a flow's actions (ovs: `lib/dpif.c`, `log_flow_put_message`).
pub fn commands(datapath: &str, commands: &[(WorkerId, FlowCommand)], ofproto: Option<&Ofproto>) {
    let is_told = |target| log::log_enabled!(target: target, Level::Debug);
    if !is_told("dpif_netdev") && !is_told("dpif") {
        return;
    }
    let names = PortNames::default();
    for (_, command) in commands {
        match command {
            FlowCommand::Execute(Execute { key, actions, flow: Some(flow), .. }) => {
                flow_add(flow.id, &flow.mask, actions, key, names);
            }
            FlowCommand::Put(put) => {
                let mask = put.matching.mask();
                match ofproto.and_then(|ofproto| ofproto.megaflow(put.id)) {
                    Some(flow) if flow.is_by_hand() => {
                        flow_add(put.id, mask, &put.actions, &flow.key, names);
                    }
                    Some(flow) => flow_modified(datapath, put, &flow.key, names),
                    None => flow_modified(datapath, put, put.matching.key(), names),
                }
            }
            FlowCommand::Execute(_)
            | FlowCommand::Delete(_)
            | FlowCommand::Mark(_)
            | FlowCommand::Collect => {}
        }
    }
}

fn flow_add(id: FlowId, mask: &Mask, actions: &[Action], key: &FlowKey, names: PortNames<'_>) {
    let flow = format_flow(key, mask, false, names);
    let (id, actions) = (format_ufid(id), format_actions(actions, key, names));
    log::debug!(
        target: "dpif_netdev",
        "flow_add: ufid:{id} mega_ufid:{id} {flow}, actions:{actions}"
    );
}

fn flow_modified(datapath: &str, put: &FlowPut, key: &FlowKey, names: PortNames<'_>) {
    let flow = format_flow(key, put.matching.mask(), true, names);
    let (id, actions) = (format_ufid(put.id), format_actions(&put.actions, key, names));
    log::debug!(
        target: "dpif",
        "{datapath}: put[modify] ufid:{id} {flow}, actions:{actions}"
    );
}

/// Returns whether flows are logged when their statistics are collected: with their keys, which Open vSwitch
/// does not request while flows are identified by ufid (`upcall/disable-ufid`).
pub fn is_dump_told(uses_ufid: bool) -> bool {
    !uses_ufid && log::log_enabled!(target: "dpif", Level::Debug)
}

/// Logs the flows of a worker whose statistics were collected (ovs: `lib/dpif.c`, `dpif_flow_dump_next`).
pub fn dumped(datapath: &str, worker: WorkerId, ofproto: &Ofproto, now: Instant) {
    let names = PortNames::default();
    for flow in ofproto.megaflows().into_iter().filter(|flow| flow.worker == worker) {
        let key = format_flow(&flow.key, flow.matching.mask(), true, names);
        let stats = format_stats(&flow.stats, now);
        let actions = format_actions(&flow.actions, &flow.key, names);
        let id = format_ufid(flow.id);
        log::debug!(
            target: "dpif",
            "{datapath}: flow_dump ufid:{id} {key}, {stats}, actions:{actions}"
        );
    }
}
