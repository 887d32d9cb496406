//! Ports of the switch's own datapath that a command removes or renumbers. They are ports of bridges: the
//! next change of the configuration adds removed ones again (ovs: `ofproto/ofproto-dpif.c`, `port_run`).

use crate::Switch;
use base::PortNo;

/// The error of such a port until then.
const TAKEN_OUT: &str =
    "it was taken out (dpctl/del-if), and comes back when the configuration changes";

impl Switch {
    /// Removes a port from the switch's own datapath.
    ///
    /// # Errors
    /// It is not a port of a bridge.
    pub fn take_out(&mut self, name: &str) -> Result<(), String> {
        let running = self.configured.interfaces.remove(name);
        let mut running = running.ok_or_else(|| format!("no port named {name}"))?;
        self.close_interface(&mut running, false);
        running.device = None;
        running.state = Err(TAKEN_OUT.to_owned());
        self.configured.interfaces.insert(name.to_owned(), running);
        self.configured.taken_out.insert(name.to_owned());
        self.limit_upcalls();
        Ok(())
    }

    /// Adds removed ports again.
    pub fn put_back(&mut self) {
        for name in std::mem::take(&mut self.configured.taken_out) {
            let Some(mut running) = self.configured.interfaces.remove(&name) else { continue };
            if running.device.is_none() {
                running.state = self.open_interface(&mut running);
            }
            self.configured.interfaces.insert(name, running);
        }
    }

    /// Reopens a port's device under another datapath number, which is free.
    ///
    /// # Errors
    /// It is not a port of a bridge, or cannot be opened.
    pub fn renumber_device(&mut self, name: &str, number: PortNo) -> Result<(), String> {
        let running = self.configured.interfaces.remove(name);
        let mut running = running.ok_or_else(|| "unknown port".to_owned())?;
        self.devices.wish(name, number);
        self.reopen(&mut running);
        let opened = running.state.clone().map(drop);
        self.configured.interfaces.insert(name.to_owned(), running);
        self.limit_upcalls();
        opened
    }
}
