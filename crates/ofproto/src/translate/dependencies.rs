//! What a translation asked, so that it is done again when the answer changes.

use super::context::Context;
use crate::port::Port;
use crate::revalidate::Dependency;
use base::OfPort;

impl<'a> Context<'a> {
    /// A port of the bridge, which the translation then depends on.
    pub fn port(&mut self, port: OfPort) -> Option<&'a Port> {
        let bridge = self.bridge;
        self.depend(Dependency::Port { bridge: bridge.id, port });
        bridge.port(port)
    }

    /// The translation depends on which ports the bridge has.
    pub fn look_at_ports(&mut self) {
        self.depend(Dependency::Ports { bridge: self.bridge.id });
    }

    /// Remembers that something was asked.
    pub fn depend(&mut self, on: Dependency) {
        // A change of a port is one of all ports of its bridge, so that a flood depends on these alone.
        let all = match on {
            Dependency::Port { bridge, .. } => Dependency::Ports { bridge },
            other => other,
        };
        if !self.dependencies.iter().any(|it| *it == on || *it == all) {
            self.dependencies.push(on);
        }
    }
}
