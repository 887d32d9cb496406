//! `rte_flow` rules as values, and the trait of devices that accept them: network cards, and test devices.

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
    /// Its group. Packets begin in group 0; `JUMP` leads to others.
    pub group: u32,
    /// Lower numbers take precedence within a group.
    pub priority: u32,
    /// Whether it belongs to the device's embedded switch (attribute `transfer`), which sends packets between
    /// ports. Otherwise it applies to packets that its port receives (`ingress`).
    pub transfers: bool,
    /// The pattern.
    pub items: Vec<Item>,
    /// The actions.
    pub actions: Vec<RuleAction>,
}

/// The handle of an installed rule; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuleHandle(pub u64);

/// A device's report about a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuleState {
    /// Packets since the rule was created.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// No packet came for the time of `AGE`.
    pub is_aged: bool,
}

/// Why a device refuses a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceRefusal {
    /// The kind: no room, an equal rule, or anything else.
    pub kind: Refusal,
    /// The device's own message.
    pub words: String,
}

/// A device that accepts rules.
pub trait FlowDevice {
    /// Creates a rule for packets of a port.
    ///
    /// # Errors
    /// The device refuses; nothing changed.
    fn create(&mut self, port: u16, rule: &FlowRule) -> Result<RuleHandle, DeviceRefusal>;

    /// Removes a rule. A rule that was removed with its port is no error.
    ///
    /// # Errors
    /// The device failed, with its message. It may still forward packets by the rule.
    fn destroy(&mut self, rule: RuleHandle) -> Result<(), String>;

    /// Removes all rules of the devices through which rules for packets of a port were created, including
    /// those of other ports. If a device fails, its rules stay, which is logged.
    fn flush(&mut self, port: u16);

    /// The state of a rule; `None` if it does not exist any more.
    fn query(&mut self, rule: RuleHandle) -> Option<RuleState>;

    /// Creates a connection object through a port; the connection's replies arrive on `peer`. Rules that
    /// refer to it apply to packets of the original direction, until [`FlowDevice::turn_object`].
    ///
    /// # Errors
    /// The device refuses; nothing changed.
    fn create_object(
        &mut self,
        port: u16,
        peer: u16,
        object: &ConnectionObject,
    ) -> Result<ObjectHandle, DeviceRefusal>;

    /// Makes rules created from now on with an object apply to packets of the reply direction.
    ///
    /// # Errors
    /// The device refuses.
    fn turn_object(&mut self, object: ObjectHandle) -> Result<(), DeviceRefusal>;

    /// Changes an object's state.
    ///
    /// # Errors
    /// The device refuses. Some always do.
    fn update_object(
        &mut self,
        object: ObjectHandle,
        state: &ConnectionObject,
    ) -> Result<(), DeviceRefusal>;

    /// An object's state; `None` if the device does not report it, or the object is gone.
    fn query_object(&mut self, object: ObjectHandle) -> Option<ConnectionObject>;

    /// Removes an object without rules. One that was removed with its port is no error.
    ///
    /// # Errors
    /// The device failed, with its message.
    fn destroy_object(&mut self, object: ObjectHandle) -> Result<(), String>;
}
