//! `controller(...)`: an action that sends a packet to controllers.

use std::num::NonZeroU32;

/// Sends the packet to a controller (`controller(...)`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToController {
    /// Most bytes of the packet to send.
    pub max_len: u16,
    /// Only to controllers with this id.
    pub controller_id: u16,
    /// OpenFlow 1.3's reason number; 1 is "action".
    pub reason: u8,
    /// Data that the controller receives and returns.
    pub userdata: Vec<u8>,
    /// Pause the packet until the controller resumes it.
    pub pause: bool,
    /// The meter that limits these packets, in place of the bridge's for all packets to controllers. If it does not
    /// exist, the bridge's applies.
    pub meter: Option<NonZeroU32>,
}

impl Default for ToController {
    fn default() -> Self {
        ToController {
            max_len: u16::MAX,
            controller_id: 0,
            reason: Self::ACTION,
            userdata: Vec::new(),
            pause: false,
            meter: None,
        }
    }
}

impl ToController {
    /// OFPR_ACTION, the reason unless another is given.
    pub(crate) const ACTION: u8 = 1;

    /// Returns whether it is a plain output to the controller, apart from `max_len`.
    pub(crate) fn is_plain(&self) -> bool {
        *self == ToController { max_len: self.max_len, ..ToController::default() }
    }
}
