//! Ports of a further datapath: parsed from commands, opened, changed and closed.

use super::{Class, Datapath};
use crate::Dummy;
use crate::device_kind::DeviceKind;
use crate::processors::first_of_each_node;
use crate::settings::Settings;
use crate::worker_messages::WorkerMode;
use base::PortNo;
use control::{Interface, InterfaceKind};
use std::collections::BTreeMap;

/// The number of a datapath's own port, which always exists.
const LOCAL: PortNo = PortNo(0);

/// A port as requested by a command: `vif1.0,type=dummy,port_no=5,n_rxq=2`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortRequest {
    /// The device's name.
    pub name: String,
    /// Its type, if given.
    pub kind: Option<String>,
    /// Its number, if given.
    pub number: Option<PortNo>,
    /// Other options.
    pub options: BTreeMap<String, String>,
}

impl PortRequest {
    /// Parses a request.
    ///
    /// # Errors
    /// The name is missing, an option is repeated, or a number is invalid; in Open vSwitch's words.
    pub fn read(text: &str) -> Result<PortRequest, String> {
        let mut parts = text.split(',').filter(|part| !part.is_empty());
        let name = parts.next();
        let name = name.ok_or_else(|| format!("{text} is not a valid network device name"))?;
        let mut request = PortRequest { name: name.to_owned(), ..PortRequest::default() };
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match key {
                "type" => request.kind = Some(value.to_owned()),
                "port_no" => {
                    let number = value.parse().map_err(|_| {
                        format!("{name}: \"{value}\" is no port number (Invalid argument)")
                    })?;
                    request.number = Some(PortNo(number));
                }
                _ if request.options.contains_key(key) => {
                    return Err(format!("duplicate \"{key}\" option"));
                }
                _ => drop(request.options.insert(key.to_owned(), value.to_owned())),
            }
        }
        Ok(request)
    }
}

impl Datapath {
    /// Opens the datapath's own port, which has its name.
    pub fn open_local(&mut self, name: &str, settings: &Settings) -> Result<(), String> {
        let kind = match self.class {
            Class::Netdev => "tap",
            Class::Dummy => "dummy-internal",
        };
        let request = PortRequest {
            name: name.to_owned(),
            kind: Some(kind.to_owned()),
            number: Some(LOCAL),
            ..PortRequest::default()
        };
        self.open(request, settings)
    }

    /// Opens a port.
    ///
    /// # Errors
    /// The reason, without the port's name.
    pub fn open(&mut self, request: PortRequest, settings: &Settings) -> Result<(), String> {
        if self.devices.number_of(&request.name).is_some() {
            return Err("File exists".to_owned());
        }
        if request.number.is_some_and(|number| self.devices.get(number).is_some()) {
            return Err("Device or resource busy".to_owned());
        }
        let (interface, kind) = interface_of(&request, settings.dummy)?;
        if kind == DeviceKind::DummyPmd && self.workers.len() == 1 {
            self.start_workers(&polling(settings)).map_err(|error| error.to_string())?;
        }
        let opened = self.devices.open_at(request.number, &interface, kind, None, &self.workers);
        let number = opened.map_err(|error| error.to_string())?;
        if let Err(error) = self.devices.set_up(&request.name, true) {
            log::warn!(target: "dpif_netdev", "{}: failed bringing interface up ({error})", request.name);
        }
        self.requests.insert(number, request);
        Ok(())
    }

    /// Returns the number and type of a port, as in `dpctl/show`.
    pub fn port(&self, name: &str) -> Option<(PortNo, &'static str)> {
        let number = self.devices.number_of(name)?;
        let kind = self.devices.get(number)?.kind;
        Some((number, kind.label().unwrap_or("system")))
    }

    /// Changes options of a port; an empty value removes the option.
    pub fn set_options(
        &mut self,
        number: PortNo,
        changes: &BTreeMap<String, String>,
        settings: &Settings,
    ) -> Result<(), String> {
        let Some(old) = self.requests.get(&number).cloned() else { return Ok(()) };
        let mut new = PortRequest { number: Some(number), ..old.clone() };
        for (key, value) in changes {
            match value.as_str() {
                "" => drop(new.options.remove(key)),
                _ => drop(new.options.insert(key.clone(), value.clone())),
            }
        }
        if new.options == old.options {
            return Ok(());
        }
        self.close(number);
        let number = new.number;
        self.open(new, settings).inspect_err(|_| {
            // The previous options worked before.
            let _ = self.open(PortRequest { number, ..old }, settings);
        })
    }

    /// Changes the number of a port to a free one.
    pub fn renumber(
        &mut self,
        old: PortNo,
        new: PortNo,
        settings: &Settings,
    ) -> Result<(), String> {
        let Some(request) = self.requests.get(&old).cloned() else { return Ok(()) };
        self.close(old);
        self.open(PortRequest { number: Some(new), ..request }, settings)
    }

    /// Closes a port by command.
    ///
    /// # Errors
    /// The port does not exist, or is the datapath's own.
    pub fn remove(&mut self, number: PortNo) -> Result<(), &'static str> {
        match number {
            LOCAL => Err("Invalid argument"),
            number if self.devices.get(number).is_none() => Err("No such device"),
            number => {
                self.close(number);
                Ok(())
            }
        }
    }

    /// Closes a port.
    pub(super) fn close(&mut self, number: PortNo) {
        self.requests.remove(&number);
        self.upcalls.remove_port(number);
        self.devices.close(number, true, &self.workers);
        self.devices.remove_doomed();
    }
}

/// Returns the interface and kind for a request.
fn interface_of(request: &PortRequest, dummy: Dummy) -> Result<(Interface, DeviceKind), String> {
    let name = &request.name;
    let kind = request.kind.as_deref().unwrap_or("system");
    let warn = |words| log::warn!(target: "dpif_netdev", "{name}: {words}");
    let of_type = InterfaceKind::from_type(kind, name, &request.options, warn);
    let mut interface = Interface::new(name, of_type);
    interface.options = request.options.clone();
    let is_local = kind == "dummy-internal";
    let kind = match DeviceKind::of(&interface, is_local, dummy)? {
        // The device is removed with the switch, because no database contains it.
        Some(DeviceKind::Internal) => DeviceKind::Tap,
        Some(DeviceKind::Dpdk | DeviceKind::Vhost(_)) | None => {
            return Err("Operation not supported".to_owned());
        }
        Some(kind) => kind,
    };
    Ok((interface, kind))
}

/// Returns workers for dummy ports that are polled: one on the first processor of each node.
fn polling(settings: &Settings) -> Vec<WorkerMode> {
    let cores = first_of_each_node(&settings.processors.all());
    let mode = |(cpu, numa)| WorkerMode::Polling { cpu: usize::from(cpu), numa, pretends: true };
    cores.into_iter().map(mode).chain([WorkerMode::Sleeping]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_asked_for_in_words() {
        let request = PortRequest::read("vif1.0,type=dummy,port_no=5,n_rxq=2,x").unwrap();
        assert_eq!((request.name.as_str(), request.number), ("vif1.0", Some(PortNo(5))));
        assert_eq!(request.kind.as_deref(), Some("dummy"));
        let options =
            [("n_rxq", "2"), ("x", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(request.options, BTreeMap::from(options));
        assert_eq!(PortRequest::read(",type=dummy").unwrap().name, "type=dummy");
        for (text, expect) in [
            ("", " is not a valid network device name"),
            ("p1,port_no=x", "p1: \"x\" is no port number (Invalid argument)"),
            ("p1,a=1,a=2", "duplicate \"a\" option"),
        ] {
            assert_eq!(PortRequest::read(text).unwrap_err(), expect);
        }
    }
}
