//! Somebody else's device: whatever stands between two ports that the user names. Every kind of
//! port that a name can mean is opened here.

use super::{Device, Place};
use crate::generate::error::LoadError;
use crate::generate::sides::Link;
use port::PortError;
use port_linux::{Links, PacketPort, TapKind, TapPort};
use serde_json::{Value, json};

/// What is known of it: nothing but the ports.
#[derive(Debug)]
struct External {
    client: Option<String>,
    server: Option<String>,
}

impl Device for External {
    fn describe(&self) -> Value {
        json!({ "kind": "external", "client_port": self.client, "server_port": self.server })
    }

    fn table(&mut self) -> Result<Option<u64>, LoadError> {
        Ok(None)
    }
}

/// The device between these ports.
pub fn outside(client: Option<&str>, server: Option<&str>) -> Result<Place, LoadError> {
    if client.is_some() && client == server {
        let same = "--client and --server name the same port; each side needs one of its own";
        return Err(LoadError::Options(same.to_owned()));
    }
    let device = External { client: client.map(str::to_owned), server: server.map(str::to_owned) };
    Ok(Place {
        device: Box::new(device),
        client: client.map(open).transpose()?,
        server: server.map(open).transpose()?,
    })
}

/// Opens the port of this name: `DEVICE` or `packet:DEVICE`, or `tap:NAME`. Another kind of port
/// is another arm here.
pub fn open(name: &str) -> Result<Link, LoadError> {
    let (kind, device) = name.split_once(':').unwrap_or(("packet", name));
    match kind {
        "packet" => {
            let port = PacketPort::open(device)?;
            must_be_up(device)?;
            Ok(Link { rx: Box::new(port.rx()?), tx: Box::new(port.tx()?) })
        }
        "tap" => {
            let port = TapPort::open(device, TapKind::Tap)?;
            Links::open()?.set_up(device, true)?;
            Ok(Link { rx: Box::new(port.rx()?), tx: Box::new(port.tx()?) })
        }
        _ => Err(LoadError::Options(format!(
            "{name}: there is no kind of port \"{kind}\"; name a network device, packet:DEVICE or \
             tap:NAME"
        ))),
    }
}

fn must_be_up(device: &str) -> Result<(), LoadError> {
    let link = Links::open()?.by_name(device)?;
    if link.admin_up {
        return Ok(());
    }
    let reason = format!("the device is down; bring it up: ip link set {device} up");
    Err(PortError::Invalid { device: device.to_owned(), reason }.into())
}
