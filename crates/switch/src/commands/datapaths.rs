//! `dpctl/add-dp`, `del-dp`, `add-if`, `set-if` and `del-if`: further datapaths and their ports (ovs:
//! `lib/dpctl.c`, `dpctl.man`).

use super::{Answer, add, is_datapath};
use crate::Switch;
use crate::datapaths::{Class, Datapath, PortRequest};
use base::PortNo;
use daemon::unixctl::Commands;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    const ANY: usize = usize::MAX;
    add(commands, "dpctl/add-dp", "dp [iface...]", 1..=ANY, add_datapath);
    add(commands, "dpctl/del-dp", "dp", 1..=1, delete_datapath);
    add(commands, "dpctl/add-if", "dp iface...", 2..=ANY, |switch, words| {
        each(switch, words, add_port)
    });
    add(commands, "dpctl/set-if", "dp iface...", 2..=ANY, |switch, words| {
        each(switch, words, set_port)
    });
    add(commands, "dpctl/del-if", "dp iface...", 2..=ANY, |switch, words| match words {
        [name, ports @ ..] if is_own(name) => take_out(switch, ports),
        _ => each(switch, words, delete_port),
    });
}

/// The error of a command that would change ports of the switch's own datapath.
const OWN: &str = "Operation not supported: its ports are those of bridges, for ovs-vsctl";

/// Returns whether this is the switch's own datapath.
fn is_own(name: &str) -> bool {
    name.split_once('@').is_some_and(|(kind, name)| is_datapath(kind, name))
}

fn add_datapath(switch: &mut Switch, words: &[String]) -> Answer {
    let [name, ports @ ..] = words else { return Ok(String::new()) };
    let failed = |why: &str| format!("add_dp ({why})");
    let class = Class::of(name, switch.settings.dummy).map_err(failed)?;
    if is_own(name) || switch.datapaths().contains_key(name) {
        return Err(failed("File exists"));
    }
    let mut datapath = Datapath::new(class).map_err(|error| failed(&error.to_string()))?;
    let local = name.split_once('@').map_or(name.as_str(), |(_, local)| local);
    datapath.open_local(local, &switch.settings).map_err(|why| failed(&why))?;
    switch.datapaths_mut().insert(name.clone(), datapath);
    match ports {
        [] => Ok(String::new()),
        _ => each(switch, words, add_port),
    }
}

fn delete_datapath(switch: &mut Switch, words: &[String]) -> Answer {
    let [name] = words else { return Ok(String::new()) };
    if is_own(name) {
        return Err("del_dp (Device or resource busy)".to_owned());
    }
    match switch.datapaths_mut().remove(name) {
        Some(_) => Ok(String::new()),
        None => Err(missing(switch, name)),
    }
}

/// Returns the error for a datapath that does not exist.
fn missing(switch: &Switch, name: &str) -> String {
    let why = Class::of(name, switch.settings.dummy).err().unwrap_or("No such device");
    format!("opening datapath ({why})")
}

/// Applies a command to each port named after the datapath. Failures do not stop the others.
fn each(
    switch: &mut Switch,
    words: &[String],
    act: fn(&mut Datapath, &str, &str, &crate::Settings) -> Result<(), String>,
) -> Answer {
    let [name, ports @ ..] = words else { return Ok(String::new()) };
    if is_own(name) {
        return Err(format!("changing ports of {name} failed ({OWN})"));
    }
    let why = missing(switch, name);
    let settings = switch.settings.clone();
    let datapath = switch.datapaths_mut().get_mut(name).ok_or(why)?;
    let act = |port: &String| act(datapath, name, port, &settings).err();
    let failed: Vec<String> = ports.iter().filter_map(act).collect();
    if failed.is_empty() { Ok(String::new()) } else { Err(failed.join("\n")) }
}

fn add_port(
    datapath: &mut Datapath,
    name: &str,
    port: &str,
    settings: &crate::Settings,
) -> Result<(), String> {
    let request = PortRequest::read(port)?;
    let device = request.name.clone();
    datapath.open(request, settings).map_err(|why| {
        vlog::limited!(
            (60, 5), clock::now(), target: "dpif", log::Level::Warn,
            "{name}: failed to add {device} as port: {why}"
        );
        format!("adding {device} to {name} failed ({why})")
    })
}

fn set_port(
    datapath: &mut Datapath,
    name: &str,
    port: &str,
    settings: &crate::Settings,
) -> Result<(), String> {
    let request = PortRequest::read(port)?;
    let device = request.name.as_str();
    let known = datapath.port(device);
    let missing = || format!("{device}: failed to query port in {name} (No such device)");
    let (number, kind) = known.ok_or_else(missing)?;
    if let Some(wanted) = request.kind.filter(|wanted| wanted != kind) {
        return Err(format!("{device}: can't change type from {kind} to {wanted}"));
    }
    if let Some(wanted) = request.number.filter(|wanted| *wanted != number) {
        return Err(format!("{device}: can't change port number from {number} to {wanted}"));
    }
    datapath
        .set_options(number, &request.options, settings)
        .map_err(|why| format!("{device}: Error updating configuration ({why})"))
}

fn delete_port(
    datapath: &mut Datapath,
    name: &str,
    port: &str,
    _: &crate::Settings,
) -> Result<(), String> {
    let number = port.parse().ok().map(PortNo);
    let number = number.or_else(|| Some(datapath.port(port)?.0));
    let number = number.ok_or_else(|| format!("no port named {port}"))?;
    datapath.remove(number).map_err(|why| {
        vlog::limited!(
            (60, 5), clock::now(), target: "dpif", log::Level::Warn,
            "{name}: port_del failed ({why})"
        );
        format!("deleting port {port} from {name} failed ({why})")
    })
}

/// Removes ports of bridges from the switch's own datapath.
fn take_out(switch: &mut Switch, ports: &[String]) -> Answer {
    let mut failed = Vec::new();
    for port in ports {
        let number = port.parse().ok().map(PortNo);
        let device = number.and_then(|number| switch.devices().get(number));
        let name = device.map_or_else(|| port.clone(), |device| device.name.clone());
        failed.extend(switch.take_out(&name).err());
    }
    if failed.is_empty() { Ok(String::new()) } else { Err(failed.join("\n")) }
}
