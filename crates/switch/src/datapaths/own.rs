//! Ports of the switch's own datapath that a command takes out or gives another number. They are bridges'
//! ports: the next change of the configuration puts those in again that are out
//! (ovs: `ofproto/ofproto-dpif.c`, `port_run`).

use crate::Switch;
use base::PortNo;

/// Why such a port has no number meanwhile.
const TAKEN_OUT: &str =
    "it was taken out (dpctl/del-if), and comes back when the configuration changes";

impl Switch {
    /// Takes a port out of the switch's own datapath.
    ///
    /// # Errors
    /// It is no port of a bridge.
    pub fn take_out(&mut self, name: &str) -> Result<(), String> {
        let running = self.configured.interfaces.remove(name);
        let mut running = running.ok_or_else(|| format!("no port named {name}"))?;
        self.close_interface(&mut running, false);
        running.device = None;
        running.state = Err(TAKEN_OUT.to_owned());
        self.configured.interfaces.insert(name.to_owned(), running);
        self.configured.taken_out.insert(name.to_owned());
        Ok(())
    }

    /// Puts the ports in again that were taken out.
    pub fn put_back(&mut self) {
        for name in std::mem::take(&mut self.configured.taken_out) {
            let Some(mut running) = self.configured.interfaces.remove(&name) else { continue };
            if running.device.is_none() {
                running.state = self.open_interface(&mut running);
            }
            self.configured.interfaces.insert(name, running);
        }
    }

    /// Opens a port's device anew, under another number of the datapath's, which no port has.
    ///
    /// # Errors
    /// It is no port of a bridge, or cannot be opened.
    pub fn renumber_device(&mut self, name: &str, number: PortNo) -> Result<(), String> {
        let running = self.configured.interfaces.remove(name);
        let mut running = running.ok_or_else(|| "unknown port".to_owned())?;
        self.devices.wish(name, number);
        self.reopen(&mut running);
        let opened = running.state.clone().map(drop);
        self.configured.interfaces.insert(name.to_owned(), running);
        opened
    }
}
