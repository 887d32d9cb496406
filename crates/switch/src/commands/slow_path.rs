//! `upcall/*` and `revalidator/*`: the slow path (ovs: `ofproto/ofproto-dpif-upcall.c`).

use super::{Answer, add};
use crate::Switch;
use daemon::unixctl::{Commands, Reply};
use ofproto::Features;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    add(commands, "upcall/show", "", 0..=0, |switch, _| Ok(switch.describe_upcalls()));
    add(commands, "upcall/set-flow-limit", "flow-limit-number", 1..=1, set_flow_limit);
    add(commands, "upcall/disable-megaflows", "", 0..=0, |switch, _| {
        switch.set_wildcards(false);
        Ok("megaflows disabled\n".to_owned())
    });
    add(commands, "upcall/enable-megaflows", "", 0..=0, |switch, _| {
        switch.set_wildcards(true);
        Ok("megaflows enabled\n".to_owned())
    });
    add(commands, "upcall/disable-ufid", "", 0..=0, |switch, _| {
        switch.uses_ufid = false;
        Ok("Datapath dumping tersely using UFID disabled\n".to_owned())
    });
    add(commands, "upcall/enable-ufid", "", 0..=0, |switch, _| {
        switch.uses_ufid = true;
        Ok("Datapath dumping tersely using UFID enabled\n".to_owned())
    });
    add(commands, "revalidator/purge", "", 0..=0, |switch, _| {
        switch.delete_flows(None);
        Ok(String::new())
    });
    add(commands, "revalidator/pause", "", 0..=0, |switch, _| {
        switch.ofproto_mut().pause_upkeep(true);
        Ok(String::new())
    });
    add(commands, "revalidator/resume", "", 0..=0, |switch, _| {
        switch.ofproto_mut().pause_upkeep(false);
        switch.settle();
        Ok(String::new())
    });
    commands.add("revalidator/wait", "", 0, 0, |switch, _| {
        let (reply, place) = Reply::later();
        switch.when_fresh(move |switch| {
            switch.upkeep_waits.push(place);
            switch.settle();
        });
        switch.settle();
        reply
    });
}

impl Switch {
    /// Sets whether a megaflow covers all packets that are treated alike, or only those with one key.
    fn set_wildcards(&mut self, wildcards: bool) {
        self.set_features(Features { wildcards, ..self.ofproto.features() });
    }

    /// Sets the datapath features that translation uses.
    pub(super) fn set_features(&mut self, features: Features) {
        self.ofproto.set_features(features, clock::now(), &mut self.outbox);
        self.settle();
    }

    /// Answers `revalidator/wait` once no work on megaflows is left. While revalidators are paused the
    /// clients wait, as Open vSwitch's do (`ofproto/ofproto-dpif-upcall.c`, `udpif_run`). Removed flows wait for
    /// revalidators, too. `has_more` says whether this thread has work left.
    pub(crate) fn answer_upkeep_waits(&mut self, has_more: bool) {
        let awaits = self.ofproto.awaits_revalidators() || !self.upkeep_waits.is_empty();
        if !awaits || has_more || self.ofproto.is_upkeep_paused() {
            return;
        }
        // Set before the check, so that the revalidator that finishes after it notifies this thread.
        self.handler_shared.await_revalidation();
        if !self.ofproto.needs_revalidation() {
            self.upkeep_waits.drain(..).for_each(|place| place.give(Ok(String::new())));
            if self.ofproto.awaits_revalidators() {
                self.upkeep_wake.notify_one();
            }
        }
    }
}

/// Sets the maximum number of megaflows, until `other_config:flow-limit` changes.
fn set_flow_limit(switch: &mut Switch, words: &[String]) -> Answer {
    let word = &words[0];
    let limit: u32 = word.parse().map_err(|_| format!("{word}: flow limit is not a number"))?;
    switch.ofproto_mut().set_flow_limit(limit as usize);
    Ok(format!("set flow_limit to {limit}\n"))
}
