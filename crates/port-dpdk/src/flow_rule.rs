//! Rules of `rte_flow` as values, and what takes them: a network card, or a device of a test.

mod action;
mod connection;
mod item;
mod text;

use flow::Refusal;

pub use action::{RuleAction, VxlanEncap};
pub use connection::{ConnectionObject, ConnectionState, ObjectHandle, TcpDirection};
pub use item::{
    CHANGES_STATE, Eth, IN_WINDOW, Ipv4, Ipv6, Item, L3_OK, L4_OK, Spec, Tcp, Udp, Vlan,
};
pub use text::Commands;

/// A rule of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FlowRule {
    /// The group that it is in. Packets begin in group 0, and get to others by `JUMP`.
    pub group: u32,
    /// Rules of a lower number come first within a group.
    pub priority: u32,
    /// It is a rule of the device's switch (the attribute `transfer`), which sends packets from port to port.
    /// Otherwise it is one of the packets that its port receives (`ingress`).
    pub transfers: bool,
    /// What packets are.
    pub items: Vec<Item>,
    /// What is done with them.
    pub actions: Vec<RuleAction>,
}

/// A rule that a device has, by a number that is not used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuleHandle(pub u64);

/// What a device tells of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuleState {
    /// Packets since the rule was made.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// There was no packet for the time of `AGE`.
    pub is_aged: bool,
}

/// Why a device does not take a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceRefusal {
    /// The kind: no room, a rule for the same packets, or anything else.
    pub kind: Refusal,
    /// The device's own words.
    pub words: String,
}

/// A device that takes rules.
pub trait FlowDevice {
    /// Makes a rule for packets of a port.
    ///
    /// # Errors
    /// The device does not take it; nothing changed.
    fn create(&mut self, port: u16, rule: &FlowRule) -> Result<RuleHandle, DeviceRefusal>;

    /// Removes a rule. One that went with its port is no error.
    ///
    /// # Errors
    /// The device did not, in its words. It may still forward packets by the rule.
    fn destroy(&mut self, rule: RuleHandle) -> Result<(), String>;

    /// Ends all rules of the devices through which rules for packets of a port were made, those of other ports
    /// with them. A device that fails keeps them, which is logged.
    fn flush(&mut self, port: u16);

    /// What became of a rule; `None` where it is there no more.
    fn query(&mut self, rule: RuleHandle) -> Option<RuleState>;

    /// Makes a connection object through a port; the connection's replies come in on `peer`. Rules that refer to it
    /// are made for packets of the original direction, until [`FlowDevice::turn_object`].
    ///
    /// # Errors
    /// The device does not take it; nothing changed.
    fn create_object(
        &mut self,
        port: u16,
        peer: u16,
        object: &ConnectionObject,
    ) -> Result<ObjectHandle, DeviceRefusal>;

    /// Says that rules that refer to an object from now on are for packets of the reply direction.
    ///
    /// # Errors
    /// The device did not take it.
    fn turn_object(&mut self, object: ObjectHandle) -> Result<(), DeviceRefusal>;

    /// Gives an object another state.
    ///
    /// # Errors
    /// The device did not take it. Some never do.
    fn update_object(
        &mut self,
        object: ObjectHandle,
        state: &ConnectionObject,
    ) -> Result<(), DeviceRefusal>;

    /// An object's state; `None` where the device does not tell it, or the object is gone.
    fn query_object(&mut self, object: ObjectHandle) -> Option<ConnectionObject>;

    /// Removes an object, to which no rule refers any more. One that went with its port is no error.
    ///
    /// # Errors
    /// The device did not, in its words.
    fn destroy_object(&mut self, object: ObjectHandle) -> Result<(), String>;
}
