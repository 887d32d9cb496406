//! The dependencies of a translation: a change of one triggers revalidation.

use super::context::Context;
use crate::dependency::Dependency;
use crate::port::Port;
use base::OfPort;

impl<'a> Context<'a> {
    /// A port of the bridge, recorded as a dependency.
    pub fn port(&mut self, port: OfPort) -> Option<&'a Port> {
        let bridge = self.bridge;
        self.depend(Dependency::Port { bridge: bridge.id, port });
        bridge.port(port)
    }

    /// Records a dependency on the bridge's set of ports.
    pub fn look_at_ports(&mut self) {
        self.depend(Dependency::Ports { bridge: self.bridge.id });
    }

    /// Records a dependency.
    pub fn depend(&mut self, on: Dependency) {
        // A dependency on all ports of a bridge covers each of them.
        let all = match on {
            Dependency::Port { bridge, .. } => Dependency::Ports { bridge },
            other => other,
        };
        if !self.dependencies.iter().any(|it| *it == on || *it == all) {
            self.dependencies.push(on);
        }
    }
}
