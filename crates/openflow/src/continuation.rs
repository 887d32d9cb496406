//! Continuations: the remaining processing of a packet that a controller has paused. Controllers return them
//! in NXT_RESUME as they received them in NXT_PACKET_IN2 (ovs: `lib/ofp-packet.c`,
//! `ofputil_put_packet_in_private`).

use crate::actions::{ActionForm, put_actions, take_actions};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::message::{Continuation, ContinuedActions};
use crate::oxm::Proto;
use crate::version::Version;
use base::{PortNo, TableId};
use flow::Wide;

/// NXCPT_*
const BRIDGE: u16 = 0x8000;
const STACK: u16 = 0x8001;
const MIRRORS: u16 = 0x8002;
const CONNTRACKED: u16 = 0x8003;
const TABLE_ID: u16 = 0x8004;
const COOKIE: u16 = 0x8005;
const ACTIONS: u16 = 0x8006;
const ACTION_SET: u16 = 0x8007;
const ODP_PORT: u16 = 0x8008;
/// The oldest version in which actions are written: earlier ones have no `encap` and `decap`.
const ACTIONS_VERSION: Version = Version::V13;

/// Writes the property of a packet-in or of NXT_RESUME.
pub(crate) fn put(out: &mut Vec<u8>, version: Version, continuation: &Continuation) {
    property(out, BRIDGE, |out| out.put_uint(continuation.bridge, 16));
    for &value in continuation.stack.iter().rev() {
        let bytes = value.to_bytes(value.byte_len().max(1));
        property(out, STACK, |out| out.put(&bytes));
    }
    if continuation.mirrors != 0 {
        property(out, MIRRORS, |out| out.put_u32(continuation.mirrors));
    }
    if continuation.conntracked {
        property(out, CONNTRACKED, |_| {});
    }
    // Both start at 0 and are written when they change.
    let (mut table, mut cookie) = (TableId(0), 0);
    for part in &continuation.rest {
        if part.table != table {
            table = part.table;
            property(out, TABLE_ID, |out| out.put_u8(table.0));
        }
        if part.cookie != cookie {
            cookie = part.cookie;
            property(out, COOKIE, |out| {
                out.put_zeros(4);
                out.put_u64(cookie);
            });
        }
        put_list(out, ACTIONS, version, &part.actions);
    }
    put_list(out, ACTION_SET, version, &continuation.action_set);
    if continuation.port != PortNo(0) {
        property(out, ODP_PORT, |out| out.put_u32(continuation.port.0));
    }
}

fn property(out: &mut Vec<u8>, kind: u16, value: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_u16(kind);
    out.put_u16(0);
    value(out);
    let len = out.len() - start;
    out.set_u16(start + 2, len);
    out.pad8(start);
}

fn put_list(out: &mut Vec<u8>, kind: u16, version: Version, actions: &[crate::Action]) {
    if !actions.is_empty() {
        property(out, kind, |out| {
            out.put_zeros(4);
            let version = version.max(ACTIONS_VERSION);
            put_actions(out, actions, ActionForm { version, proto: Proto::default() });
        });
    }
}

/// Reads a continuation that [`put`] wrote.
pub(crate) fn take(input: &mut Input<'_>, version: Version) -> Result<Continuation, OfError> {
    let mut out = Continuation::default();
    let (mut table, mut cookie) = (TableId(0), 0);
    while !input.is_empty() {
        let (kind, mut value) = input.property()?;
        match kind {
            BRIDGE => out.bridge = value.uint(16)?,
            STACK if value.len() <= 128 => out.stack.insert(0, Wide::from_bytes(value.rest())),
            MIRRORS => out.mirrors = value.u32()?,
            CONNTRACKED => out.conntracked = true,
            TABLE_ID => table = TableId(value.u8()?),
            COOKIE => {
                value.skip(4)?;
                cookie = value.u64()?;
            }
            ACTIONS => {
                value.skip(4)?;
                let actions = take_actions(value.rest(), version.max(ACTIONS_VERSION))?;
                out.rest.push(ContinuedActions { table, cookie, actions });
            }
            ACTION_SET => {
                value.skip(4)?;
                out.action_set = take_actions(value.rest(), version.max(ACTIONS_VERSION))?;
            }
            ODP_PORT => out.port = PortNo(value.u32()?),
            _ => {
                let reason = format!("a continuation's property {kind:#x} can't be");
                return Err(OfError::new(ErrorCode::PropertyBadType, reason));
            }
        }
    }
    Ok(out)
}
