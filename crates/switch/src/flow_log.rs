//! What the log says at level DBG of misses and installed flows, in the words that Open vSwitch's tests look
//! for (ovs: `lib/dpif-netdev.c`, `dp_netdev_upcall`, `dp_netdev_flow_add`).

use base::WorkerId;
use flow::{FlowCommand, FlowKey, FlowPut, Upcall, UpcallKind};
use log::Level;
use ofproto::Ofproto;
use ofproto::text::{PortNames, format_actions, format_flow, format_packet, format_ufid};

/// A packet that comes up.
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

/// A flow that goes to a worker, with the fields of the packet that it was made for.
pub fn command(command: &FlowCommand, ofproto: &Ofproto) {
    if let FlowCommand::Put(put) = command
        && log::log_enabled!(target: "dpif_netdev", Level::Debug)
    {
        let flow = ofproto.megaflow(put.id);
        flow_put(put, flow.as_ref().map_or(put.matching.key(), |flow| &flow.key));
    }
}

/// The same of a handler's answers: a packet comes behind its flow.
pub fn answers(commands: &[(WorkerId, FlowCommand)]) {
    if !log::log_enabled!(target: "dpif_netdev", Level::Debug) {
        return;
    }
    for pair in commands.windows(2) {
        if let [(_, FlowCommand::Put(put)), (_, FlowCommand::Execute(execute))] = pair {
            flow_put(put, &execute.key);
        }
    }
}

fn flow_put(put: &FlowPut, key: &FlowKey) {
    let names = PortNames::default();
    let flow = format_flow(key, put.matching.mask(), false, names);
    let (id, actions) = (format_ufid(put.id), format_actions(&put.actions, key, names));
    log::debug!(
        target: "dpif_netdev",
        "flow_add: ufid:{id} mega_ufid:{id} {flow}, actions:{actions}"
    );
}
