//! What translation may ask of the datapath: all that it can do, or less, which tests want
//! (`dpif/set-dp-features`).

use crate::{Ofproto, Outbox};
use base::Instant;
use openflow::{Action, ErrorCode, OfError};

/// What translation uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// Megaflows have masks (`upcall/enable-megaflows`).
    pub wildcards: bool,
    /// The outer headers of tunnels are put on by steps; otherwise a device is told to do it.
    pub tunnels: bool,
    /// Packets can be cut. Otherwise no megaflow stands for a packet that is.
    pub truncation: bool,
    /// Flows may have actions that are for tests only (`--enable-dummy`).
    pub debug_actions: bool,
    /// Steps can depend on a packet's length. Otherwise no megaflow stands for a packet for which that
    /// matters.
    pub length_check: bool,
    /// A label can be put in front of a frame. Otherwise no megaflow stands for a packet for which `encap` or
    /// `decap` of MPLS does that.
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

/// Whether actions are for tests.
fn are_for_tests(actions: &[Action]) -> bool {
    actions.iter().any(|action| match action {
        Action::DebugRecirc | Action::DebugSlow => true,
        Action::Clone(inner) | Action::WriteActions(inner) => are_for_tests(inner),
        _ => false,
    })
}

impl Ofproto {
    /// Actions for tests are unknown where there are no tests
    /// (ovs: `lib/ofp-actions.c`, `ofpact_dummy_enable`).
    pub(crate) fn check_for_tests(&self, actions: &[Action]) -> Result<(), OfError> {
        if self.features.debug_actions || !are_for_tests(actions) {
            return Ok(());
        }
        let reason = "debug_slow and debug_recirc are for tests: start with --enable-dummy";
        Err(OfError::new(ErrorCode::ActionBadVendorType, reason))
    }

    /// Begins with other features.
    #[must_use]
    pub fn with_features(self, features: Features) -> Self {
        Ofproto { features, is_changed: true, ..self }
    }

    /// What translation uses of the datapath.
    pub fn features(&self) -> Features {
        self.features
    }

    /// Changes that. The megaflows that are there go.
    pub fn set_features(&mut self, features: Features, now: Instant, out: &mut Outbox) {
        self.features = features;
        self.is_changed = true;
        self.publish();
        self.delete_megaflows(now, out);
    }
}
