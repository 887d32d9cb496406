//! Connection objects in DPDK's devices. They are kept in the list of rules, so that a port that is closed
//! removes its own, and a stale handle finds nothing.

use super::{Rules, no_object, refusal};
use crate::ffi;
use crate::flow_rule::{
    ConnectionObject, ConnectionState, DeviceRefusal, ObjectHandle, TcpDirection,
};
use crate::start::check;
use std::collections::BTreeSet;
use std::ffi::c_void;

/// An installed connection object.
pub(super) struct MadeObject {
    made: ffi::MadeObject,
    /// The port that receives packets of the original direction.
    port: u16,
}

// SAFETY: the pointer in it is only passed to DPDK, while the list's lock is held, and DPDK binds no object to a
// thread.
unsafe impl Send for MadeObject {}

impl MadeObject {
    /// Returns whether it checks packets of a port, or was created through it.
    fn is_of(&self, port: u16) -> bool {
        self.port == port || self.made.peer == port || self.made.owner == port
    }

    /// See [`crate::flow_rule::FlowDevice::turn_object`]. The list's lock is held, here and below.
    pub fn turn(&self) -> Result<(), DeviceRefusal> {
        let mut words = [0; ffi::WORDS];
        // SAFETY: the object is in the list, from which it is taken only after it was destroyed; `words` has the size
        // that the shim writes at most.
        let answer = unsafe { ffi::tidegate_object_turn(&raw const self.made, words.as_mut_ptr()) };
        check(answer).map_err(|error| refusal(&error, &words))
    }

    pub fn update(&self, state: &ConnectionObject) -> Result<(), DeviceRefusal> {
        let (plain, mut words) = (plain(state), [0; ffi::WORDS]);
        // SAFETY: as in `turn`; the shim reads one structure of the type of `plain`.
        let answer = unsafe {
            ffi::tidegate_object_update(&raw const self.made, &raw const plain, words.as_mut_ptr())
        };
        check(answer).map_err(|error| refusal(&error, &words))
    }

    pub fn query(&self) -> Option<ConnectionObject> {
        let mut plain = ffi::Object::default();
        // SAFETY: as in `turn`; the shim writes one structure of the type of `plain`.
        let answer = unsafe { ffi::tidegate_object_query(&raw const self.made, &raw mut plain) };
        check(answer).ok()?;
        object(&plain)
    }

    pub fn destroy(&self) -> Result<(), String> {
        let mut words = [0; ffi::WORDS];
        // SAFETY: as in `turn`.
        let answer =
            unsafe { ffi::tidegate_object_destroy(&raw const self.made, words.as_mut_ptr()) };
        check(answer).map_err(|error| refusal(&error, &words).words)
    }
}

impl Rules {
    /// The object with this handle.
    pub fn object(&self, handle: ObjectHandle) -> Result<&MadeObject, DeviceRefusal> {
        self.objects.get(&handle.0).ok_or_else(no_object)
    }

    /// DPDK's own handle.
    pub fn handle(&self, handle: ObjectHandle) -> Option<*mut c_void> {
        self.objects.get(&handle.0).map(|it| it.made.handle)
    }

    pub fn create_object(
        &mut self,
        port: u16,
        peer: u16,
        object: &ConnectionObject,
    ) -> Result<ObjectHandle, DeviceRefusal> {
        let (plain, mut words) = (plain(object), [0; ffi::WORDS]);
        let handle = std::ptr::null_mut();
        let mut made = ffi::MadeObject { handle, owner: port, peer, spare: [0; 4] };
        // SAFETY: the shim reads and writes one structure each of the types of `plain` and `made`, and at most as
        // many bytes as `words` has.
        let answer = unsafe {
            ffi::tidegate_object_create(port, &raw const plain, words.as_mut_ptr(), &raw mut made)
        };
        check(answer).map_err(|error| refusal(&error, &words))?;
        let number = self.number();
        self.objects.insert(number, MadeObject { made, port });
        Ok(ObjectHandle(number))
    }

    /// An object without a device.
    #[cfg(test)]
    pub fn add_for_test(&mut self, port: u16, peer: u16) -> ObjectHandle {
        let handle = std::ptr::null_mut();
        let made = ffi::MadeObject { handle, owner: port, peer, spare: [0; 4] };
        let number = self.number();
        self.objects.insert(number, MadeObject { made, port });
        ObjectHandle(number)
    }

    /// The objects that check packets of a port, or were created through it.
    pub fn objects_of(&self, port: u16) -> BTreeSet<u64> {
        self.objects.iter().filter(|(_, it)| it.is_of(port)).map(|(number, _)| *number).collect()
    }

    /// Removes objects of a port whose rules are gone.
    pub fn remove_objects(&mut self, port: u16, objects: &BTreeSet<u64>) {
        for number in objects {
            let Some(object) = self.objects.get(number) else { continue };
            let destroyed = object.destroy();
            if let Err(words) = &destroyed {
                log::warn!(
                    target: "netdev_offload",
                    "DPDK: cannot remove a connection object of port {port}: {words}"
                );
            }
            // An object created through the port ends with it, and DPDK frees it.
            if destroyed.is_ok() || object.made.owner == port {
                self.objects.remove(number);
            }
        }
    }
}

/// The shim's structure.
pub(super) fn plain(from: &ConnectionObject) -> ffi::Object {
    let direction = |from: &TcpDirection| ffi::Direction {
        sent_end: from.sent_end,
        reply_end: from.reply_end,
        max_win: from.max_win,
        max_ack: from.max_ack,
        scale: from.scale,
        close_initiated: from.close_initiated.into(),
        last_ack_seen: from.last_ack_seen.into(),
        data_unacked: from.data_unacked.into(),
    };
    ffi::Object {
        original: direction(&from.original),
        reply: direction(&from.reply),
        last_seq: from.last_seq,
        last_ack: from.last_ack,
        last_end: from.last_end,
        last_window: from.last_window,
        last_index: from.last_index,
        last_direction: from.last_direction.into(),
        enable: from.enable.into(),
        live_connection: from.live_connection.into(),
        selective_ack: from.selective_ack.into(),
        challenge_ack_passed: from.challenge_ack_passed.into(),
        liberal_mode: from.liberal_mode.into(),
        state: from.state as u8,
        max_ack_window: from.max_ack_window,
        retransmission_limit: from.retransmission_limit,
    }
}

/// The reverse of [`plain`]; `None` if the API does not define the state's number.
pub(super) fn object(from: &ffi::Object) -> Option<ConnectionObject> {
    let direction = |from: &ffi::Direction| TcpDirection {
        sent_end: from.sent_end,
        reply_end: from.reply_end,
        max_win: from.max_win,
        max_ack: from.max_ack,
        scale: from.scale,
        close_initiated: from.close_initiated != 0,
        last_ack_seen: from.last_ack_seen != 0,
        data_unacked: from.data_unacked != 0,
    };
    Some(ConnectionObject {
        original: direction(&from.original),
        reply: direction(&from.reply),
        last_seq: from.last_seq,
        last_ack: from.last_ack,
        last_end: from.last_end,
        last_window: from.last_window,
        last_index: from.last_index,
        last_direction: from.last_direction != 0,
        enable: from.enable != 0,
        live_connection: from.live_connection != 0,
        selective_ack: from.selective_ack != 0,
        challenge_ack_passed: from.challenge_ack_passed != 0,
        liberal_mode: from.liberal_mode != 0,
        state: *ConnectionState::ALL.get(usize::from(from.state))?,
        max_ack_window: from.max_ack_window,
        retransmission_limit: from.retransmission_limit,
    })
}
