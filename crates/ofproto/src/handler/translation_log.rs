//! Logs packets whose translation met an error in the flow tables, such as a stack underflow
//! (ovs: `ofproto/ofproto-dpif-xlate.c`, `xlate_report_error`; `ofproto/ofproto-dpif-upcall.c`, `upcall_xlate`).

use crate::text::{PortNames, format_key};
use crate::trace::{failure, write_notes};
use crate::translate::{Keys, Memory, Note, NoteKind, Notes, World, translate};
use base::Instant;
use flow::{DropReason, FlowKey};
use std::time::Duration;

/// A thread logs the errors of at most one packet per interval, since it translates that packet again to find
/// them.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of logged errors per packet. Flow tables can be made such that a packet meets thousands.
const ERRORS_MAX: usize = 16;

/// The module of errors.
const XLATE: &str = "ofproto_dpif_xlate";

/// Limits how often errors are logged.
#[derive(Debug, Default)]
pub(super) struct TranslationLog {
    quiet_until: Option<Instant>,
}

impl TranslationLog {
    /// Whether errors may be logged now; if so, the next ones only after [`PAUSE`].
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.quiet_until.is_none_or(|until| now >= until);
        if is_due {
            self.quiet_until = Some(now + PAUSE);
        }
        is_due
    }
}

/// Logs the errors of a packet's translation; `key` has the datapath's port numbers. After a resubmit loop,
/// logs the whole trace.
pub(super) fn tell(world: World<'_>, key: &FlowKey) {
    for (target, text) in describe(world, key) {
        // Each of the two has a rate limit of its own.
        match target {
            XLATE => log::warn!(target: XLATE, "{text}"),
            _ => log::warn!(target: "ofproto_dpif_upcall", "{text}"),
        }
    }
}

fn describe(world: World<'_>, key: &FlowKey) -> Vec<(&'static str, String)> {
    let notes = Notes::On { names: false, learns: true };
    let translation = translate(world, key, notes, Memory::default(), &mut Keys::default());
    let packet_key = translation.packet_key.as_deref().unwrap_or(key);
    let flow = format_key(packet_key, PortNames::default());
    let (mut told, mut more) = (Vec::new(), 0);
    errors(&translation.notes, "", &mut |bridge, error| {
        if told.len() == ERRORS_MAX {
            more += 1;
            return;
        }
        let text = format!("{error} on bridge {bridge} while processing {flow}");
        told.push((XLATE, text));
    });
    if more > 0 {
        told.push((XLATE, format!("{more} more errors while processing {flow}")));
    }
    if let Some(error @ (DropReason::ResubmitDepth | DropReason::Resubmits)) = translation.error {
        let mut text = format!("Flow: {flow}\n");
        write_notes(&mut text, &translation.notes, 0);
        text += &format!("\nTranslation failed ({}), packet is dropped.", failure(error));
        told.push(("ofproto_dpif_upcall", text));
    }
    told
}

/// Calls `each` for every error, with the bridge in which it occurred.
fn errors(notes: &[Note], bridge: &str, each: &mut impl FnMut(&str, &str)) {
    for note in notes {
        let inner = match note.kind {
            NoteKind::Bridge => note.text.split('"').nth(1).unwrap_or(bridge),
            NoteKind::Error => {
                each(bridge, &note.text);
                bridge
            }
            _ => bridge,
        };
        errors(&note.below, inner, each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_with_their_bridges_and_not_too_often() {
        let note = |kind, text: &str, below| Note { kind, text: text.to_owned(), below };
        let inner = vec![note(NoteKind::Error, "stack underflow", vec![])];
        let patch = note(NoteKind::Bridge, "bridge(\"br1\")", inner);
        let table = note(NoteKind::Table, "0. ip, priority 5", vec![patch]);
        let after = note(NoteKind::Error, "over max translation depth 64", vec![]);
        let outer = note(NoteKind::Bridge, "bridge(\"br0\")", vec![table, after]);
        let mut told = Vec::new();
        errors(&[outer], "", &mut |bridge, error| told.push(format!("{bridge}: {error}")));
        assert_eq!(told, ["br1: stack underflow", "br0: over max translation depth 64"]);
        let mut log = TranslationLog::default();
        let due = [0, 999, 1000, 1500, 2000].map(|ms| log.is_due(Instant::from_millis(ms)));
        assert_eq!(due, [true, false, true, false, true]);
    }
}
