//! The datapath features that translation uses: all of them by default; tests disable some
//! (`dpif/set-dp-features`).

use crate::{Ofproto, Outbox};
use base::Instant;
use openflow::{Action, ErrorCode, OfError};

/// The features that translation uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// Megaflows have masks (`upcall/enable-megaflows`).
    pub wildcards: bool,
    /// Datapath actions add the outer headers of tunnels. If false, `set(tunnel(...))` leaves that to the
    /// device.
    pub tunnels: bool,
    /// Packets can be truncated. If false, packets that are truncated go through the slow path.
    pub truncation: bool,
    /// Flows may have debug actions (`--enable-dummy`).
    pub debug_actions: bool,
    /// Actions can depend on a packet's length. If false, packets for which the length matters go through the
    /// slow path.
    pub length_check: bool,
    /// A label can be put in front of an Ethernet header. If false, packets for which `encap` or `decap` of
    /// MPLS does that go through the slow path.
    pub add_mpls: bool,
}

impl Default for Features {
    fn default() -> Self {
        let (wildcards, debug_actions) = (true, false);
        let (tunnels, truncation, length_check) = (true, true, true);
        let add_mpls = true;
        Features { wildcards, tunnels, truncation, debug_actions, length_check, add_mpls }
    }
}

/// Whether some action is a debug action.
fn are_for_tests(actions: &[Action]) -> bool {
    actions.iter().any(|action| match action {
        Action::DebugRecirc | Action::DebugSlow => true,
        Action::Clone(inner) | Action::WriteActions(inner) => are_for_tests(inner),
        _ => false,
    })
}

impl Ofproto {
    /// Debug actions are unknown unless enabled (ovs: `lib/ofp-actions.c`, `ofpact_dummy_enable`).
    pub(crate) fn check_for_tests(&self, actions: &[Action]) -> Result<(), OfError> {
        if self.features.debug_actions || !are_for_tests(actions) {
            return Ok(());
        }
        let reason = "debug_slow and debug_recirc are for tests: start with --enable-dummy";
        Err(OfError::new(ErrorCode::ActionBadVendorType, reason))
    }

    /// Sets the initial features.
    #[must_use]
    pub fn with_features(self, features: Features) -> Self {
        Ofproto { features, is_changed: true, ..self }
    }

    /// The datapath features that translation uses.
    pub fn features(&self) -> Features {
        self.features
    }

    /// Changes the features and deletes all megaflows.
    pub fn set_features(&mut self, features: Features, now: Instant, out: &mut Outbox) {
        self.features = features;
        self.is_changed = true;
        self.publish();
        self.delete_megaflows(now, out);
    }
}
