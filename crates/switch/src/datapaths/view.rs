//! A datapath as commands look at it: the switch's own, or another.

use super::Datapath;
use crate::Switch;
use crate::devices::Devices;
use crate::worker_thread::WorkerThread;
use base::PortNo;
use flow::{Action, FlowId, FlowKey, Mask};
use ofproto::DatapathFlow;
use port_dummy::DummyPort;
use std::sync::Arc;

/// One of the datapaths.
pub struct View<'a> {
    switch: &'a Switch,
    other: Option<&'a Datapath>,
}

impl View<'_> {
    /// Its workers.
    pub fn workers(&self) -> &[WorkerThread] {
        self.other.map_or(self.switch.workers(), |other| &other.workers)
    }

    /// Its ports.
    pub fn devices(&self) -> &Devices {
        self.other.map_or(self.switch.devices(), Datapath::devices)
    }

    /// The number of a port.
    pub fn port_number(&self, name: &str) -> Option<PortNo> {
        self.devices().number_of(name)
    }

    /// Its flows, each worker's.
    pub fn flows(&self) -> Vec<DatapathFlow> {
        match self.other {
            Some(other) => other.flows().cloned().collect(),
            None => self.switch.ofproto().megaflows(),
        }
    }

    /// Whether a device forwards part of a flow's packets.
    pub fn is_offloaded(&self, id: FlowId) -> bool {
        self.other.is_none() && self.switch.offload().table().is_offloaded(id)
    }
}

impl Switch {
    /// One of the datapaths: its own, or the other of this name, which must be there.
    pub fn view(&self, other: Option<&str>) -> View<'_> {
        View { switch: self, other: other.and_then(|name| self.datapaths.get(name)) }
    }

    /// The whole name of a datapath besides its own that is named with or without a type.
    pub fn other_named(&self, name: &str) -> Option<&str> {
        let is_it = |whole: &&String| {
            *whole == name || whole.split_once('@').is_some_and(|(_, short)| short == name)
        };
        self.datapaths.keys().find(is_it).map(String::as_str)
    }

    /// A port for tests, of any datapath.
    pub fn dummy_port(&self, name: &str) -> Option<&DummyPort> {
        let others = || self.datapaths.values().find_map(|other| other.devices().dummy(name));
        self.devices.dummy(name).or_else(others)
    }

    /// Has the datapath that a command names tell what its flows carried, if it is not the switch's own.
    pub fn collect_named(&mut self, words: &[String]) {
        for word in words {
            if let Some(datapath) = self.datapaths.get_mut(word) {
                datapath.collect();
            }
        }
    }

    /// Puts a flow into all workers of a datapath. Its match must be new there.
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

    /// Gives a flow of a datapath other actions.
    pub fn change_flow(&mut self, other: Option<&str>, id: FlowId, actions: &Arc<[Action]>) {
        match other.and_then(|name| self.datapaths.get_mut(name)) {
            Some(datapath) => datapath.change(id, actions),
            None => {
                self.ofproto.set_megaflow_actions(id, actions, clock::now(), &mut self.outbox);
            }
        }
    }

    /// Takes a flow out of a datapath.
    pub fn delete_flow(&mut self, other: Option<&str>, id: FlowId) {
        match other.and_then(|name| self.datapaths.get_mut(name)) {
            Some(datapath) => datapath.delete(id),
            None => self.ofproto.delete_megaflow(id, clock::now(), &mut self.outbox),
        }
    }

    /// Takes all flows out of a datapath; packets bring new ones up in the switch's own.
    pub fn delete_flows(&mut self, other: Option<&str>) {
        match other.and_then(|name| self.datapaths.get_mut(name)) {
            Some(datapath) => datapath.delete_all(),
            None => self.ofproto.delete_megaflows(clock::now(), &mut self.outbox),
        }
    }
}
