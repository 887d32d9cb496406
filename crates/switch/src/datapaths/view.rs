//! A datapath as commands see it: the switch's own, or a further one.

use super::Datapath;
use crate::Switch;
use crate::devices::Devices;
use crate::worker_thread::WorkerThread;
use base::PortNo;
use flow::{Action, FlowId, FlowKey, Mask};
use ofproto::DatapathFlow;
use port_dummy::DummyPort;
use std::collections::HashSet;
use std::sync::Arc;

/// One of the datapaths.
pub struct View<'a> {
    switch: &'a Switch,
    other: Option<&'a Datapath>,
}

impl View<'_> {
    /// Returns its workers.
    pub fn workers(&self) -> &[WorkerThread] {
        self.other.map_or(self.switch.workers(), |other| &other.workers)
    }

    /// Returns its ports.
    pub fn devices(&self) -> &Devices {
        self.other.map_or(self.switch.devices(), Datapath::devices)
    }

    /// Returns the number of a port.
    pub fn port_number(&self, name: &str) -> Option<PortNo> {
        self.devices().number_of(name)
    }

    /// Returns the flows of all its workers.
    pub fn flows(&self) -> Vec<DatapathFlow> {
        match self.other {
            Some(other) => other.flows().cloned().collect(),
            None => self.switch.ofproto().megaflows(),
        }
    }

    /// Returns a flow.
    pub fn flow(&self, id: FlowId) -> Option<DatapathFlow> {
        match self.other {
            Some(other) => other.flows().find(|flow| flow.id == id).cloned(),
            None => self.switch.ofproto().megaflow(id),
        }
    }

    /// Returns the flows of which devices forward some packets.
    pub fn offloaded(&self) -> HashSet<FlowId> {
        match self.other {
            Some(_) => HashSet::new(),
            None => self.switch.offload().table().offloaded().collect(),
        }
    }

    /// Returns whether a device forwards some of a flow's packets.
    pub fn is_offloaded(&self, id: FlowId) -> bool {
        self.other.is_none() && self.switch.offload().table().is_offloaded(id)
    }
}

impl Switch {
    /// Returns the switch's own datapath, or the other one with this name, which must exist.
    pub fn view(&self, other: Option<&str>) -> View<'_> {
        View { switch: self, other: other.and_then(|name| self.datapaths.get(name)) }
    }

    /// Returns the full name of a further datapath, given with or without its type.
    pub fn other_named(&self, name: &str) -> Option<&str> {
        let is_it = |whole: &&String| {
            *whole == name || whole.split_once('@').is_some_and(|(_, short)| short == name)
        };
        self.datapaths.keys().find(is_it).map(String::as_str)
    }

    /// Returns a dummy port of any datapath.
    pub fn dummy_port(&self, name: &str) -> Option<&DummyPort> {
        let others = || self.datapaths.values().find_map(|other| other.devices().dummy(name));
        self.devices.dummy(name).or_else(others)
    }

    /// Collects the flow statistics of the further datapath that a command names, if it names one.
    pub fn collect_named(&mut self, words: &[String]) {
        for word in words {
            if let Some(datapath) = self.datapaths.get_mut(word) {
                datapath.collect();
            }
        }
    }

    /// Adds a flow to all workers of a datapath. No flow there has its match.
    pub fn put_flow(
        &mut self,
        other: Option<&str>,
        (key, mask): (&FlowKey, &Mask),
        actions: &Arc<[Action]>,
    ) {
        if let Some(datapath) = other.and_then(|name| self.datapaths.get_mut(name)) {
            return datapath.insert(key, mask, actions);
        }
        for worker in self.workers.iter().map(|worker| worker.id) {
            let (now, out) = (clock::now(), &mut self.outbox);
            self.ofproto.put_megaflow(worker, (key, mask), actions, now, out);
        }
    }

    /// Replaces the actions of a datapath's flow.
    pub fn change_flow(&mut self, other: Option<&str>, id: FlowId, actions: &Arc<[Action]>) {
        match other.and_then(|name| self.datapaths.get_mut(name)) {
            Some(datapath) => datapath.change(id, actions),
            None => {
                self.ofproto.set_megaflow_actions(id, actions, clock::now(), &mut self.outbox);
            }
        }
    }

    /// Deletes a flow of a datapath.
    pub fn delete_flow(&mut self, other: Option<&str>, id: FlowId) {
        match other.and_then(|name| self.datapaths.get_mut(name)) {
            Some(datapath) => datapath.delete(id),
            None => self.ofproto.delete_megaflow(id, clock::now(), &mut self.outbox),
        }
    }

    /// Deletes all flows of a datapath; in the switch's own, packets install new ones.
    pub fn delete_flows(&mut self, other: Option<&str>) {
        match other.and_then(|name| self.datapaths.get_mut(name)) {
            Some(datapath) => datapath.delete_all(),
            None => self.ofproto.delete_megaflows(clock::now(), &mut self.outbox),
        }
    }
}
