//! `netdev-dummy/*` and `time/*`: dummy ports and a clock that can be stopped, for tests (ovs:
//! `lib/netdev-dummy.c`, `lib/timeval.c`).

use super::{Answer, add, is_datapath};
use crate::Switch;
use base::PortNo;
use daemon::unixctl::{Commands, Reply};
use ofproto::text::parse_flow;
use port_dummy::{DummyPort, frame};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// How long a frame may take through the socket of a dummy port.
const SOCKET_TIME: Duration = Duration::from_millis(1);
/// Minimum frame length (Ethernet without FCS).
const FRAME_BYTES_MIN: usize = 60;

/// Adds these commands, for a switch that was started with `--enable-dummy`.
pub fn add_all(commands: &mut Commands<Switch>) {
    let usage = "name [--qid queue_id] packet|flow [--len packet_len]";
    add(commands, "netdev-dummy/receive", usage, 2..=usize::MAX, receive);
    add(commands, "netdev-dummy/set-admin-state", "[netdev] up|down", 1..=2, set_admin_state);
    add(
        commands,
        "netdev-dummy/ip4addr",
        "[netdev] ipaddr/mask-prefix-len",
        2..=2,
        set_address::<Ipv4Addr>,
    );
    add(commands, "netdev-dummy/ip6addr", "[netdev] ip6addr", 2..=2, |switch, words| {
        set_address::<Ipv6Addr>(switch, words)
    });
    add(commands, "netdev-dummy/conn-state", "[netdev]", 0..=1, connection_state);
    let usage = "dp port new-number";
    add(commands, "dpif-dummy/change-port-number", usage, 3..=3, change_port_number);
    add(commands, "time/stop", "", 0..=0, |_, _| {
        clock::stop();
        Ok(String::new())
    });
    commands.add("time/warp", "[large_msecs] msecs", 1, 2, warp);
}

fn dummy<'a>(switch: &'a Switch, name: &str) -> Result<&'a DummyPort, String> {
    switch.dummy_port(name).ok_or_else(|| "no such dummy netdev".to_owned())
}

/// Each packet is given in hexadecimal digits, or as a datapath flow from which it is built.
fn receive(switch: &mut Switch, words: &[String]) -> Answer {
    let port = dummy(switch, &words[0])?;
    let mut rest = words[1..].iter();
    let mut queue = 0;
    if words.len() > 3 && words[1] == "--qid" {
        queue =
            words[2].parse().ok().filter(|&it| it < port.rx_queues()).ok_or("bad rx queue id.")?;
        rest = words[3..].iter();
    }
    let mut rest = rest.peekable();
    while let Some(text) = rest.next() {
        let mut bytes = None;
        if rest.next_if(|word| *word == "--len").is_some() {
            let long = |it: &usize| *it >= FRAME_BYTES_MIN;
            let word = rest.next().ok_or("--len needs a number of bytes")?;
            bytes = Some(word.parse().ok().filter(long).ok_or("too small packet len")?);
        }
        // A full queue drops the frame, as a device's does.
        let _ = port.receive(queue, packet(switch, text, bytes)?);
    }
    Ok(String::new())
}

fn packet(switch: &Switch, text: &str, bytes: Option<usize>) -> Result<Vec<u8>, String> {
    if let Some(packet) = from_hexadecimal(text) {
        return Ok(packet);
    }
    let device = |name: &str| switch.devices().number_of(name).or(Some(PortNo(0)));
    let (key, _) = parse_flow(text, &device).map_err(|error| error.to_string())?;
    frame::compose(&key, bytes).ok_or_else(|| "the flow's headers are longer than that".to_owned())
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16))
        .collect::<Option<_>>()?;
    let is_even = digits.len().is_multiple_of(2) && !digits.is_empty();
    is_even.then(|| digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

fn set_admin_state(switch: &mut Switch, words: &[String]) -> Answer {
    let (word, names) = words.split_last().ok_or("Invalid Admin State")?;
    let is_up = match word.to_lowercase().as_str() {
        "up" => true,
        "down" => false,
        _ => return Err("Invalid Admin State".to_owned()),
    };
    let of_name = |name: &String| names.is_empty() || names[0] == *name;
    let devices = switch.devices().iter();
    let chosen: Vec<(PortNo, String)> = devices
        .filter(|(_, device)| device.kind.is_dummy() && of_name(&device.name))
        .map(|(number, device)| (number, device.name.clone()))
        .collect();
    if chosen.is_empty() && !names.is_empty() {
        return Err("Unknown Dummy Interface".to_owned());
    }
    for (number, _) in chosen {
        switch.set_device_up(number, is_up);
    }
    Ok("OK".to_owned())
}

/// Returns whether ports that connect to others are connected.
fn connection_state(switch: &mut Switch, words: &[String]) -> Answer {
    let text = |name: &str, state: Option<bool>| {
        let state = state.map_or("unknown", |it| if it { "connected" } else { "disconnected" });
        format!("{name}: {state}\n")
    };
    if let Some(name) = words.first() {
        let port = switch.dummy_port(name);
        return Ok(text(name, port.and_then(DummyPort::is_connected)));
    }
    let ports = switch.devices().iter();
    let known = ports.filter_map(|(_, device)| Some((device, device.dummy()?.is_connected()?)));
    Ok(known.map(|(device, state)| text(&device.name, Some(state))).collect())
}

fn set_address<A>(switch: &mut Switch, words: &[String]) -> Answer
where
    A: std::str::FromStr + Into<IpAddr>,
{
    let (address, len) = words[1].split_once('/').unwrap_or((&words[1], ""));
    let address: IpAddr = address.parse::<A>().map_err(|_| "Invalid parameter".to_owned())?.into();
    let most = if address.is_ipv4() { 32 } else { 128 };
    let len = if len.is_empty() { Some(most) } else { len.parse().ok().filter(|len| *len <= most) };
    let len = len.ok_or("Invalid parameter")?;
    switch.devices().dummy(&words[0]).ok_or("Unknown Dummy Interface")?;
    switch.add_dummy_address(&words[0], address, len);
    Ok("OK".to_owned())
}

/// Changes the number of a datapath's port, as if it had been removed and added again.
fn change_port_number(switch: &mut Switch, words: &[String]) -> Answer {
    let [datapath, port, number] = words else { return Ok(String::new()) };
    let unknown = || "unknown datapath or not a dummy".to_owned();
    let other = match is_datapath("dummy", datapath) {
        true => None,
        false => Some(switch.other_named(datapath).ok_or_else(unknown)?.to_owned()),
    };
    let view = switch.view(other.as_deref());
    let old = view.port_number(port).ok_or("unknown port")?;
    let number = number.parse().ok().filter(|number| *number > 0).map(PortNo);
    let number = number.ok_or("bad port number")?;
    if view.devices().get(number).is_some() {
        return Err("port number already in use".to_owned());
    }
    let settings = switch.settings.clone();
    match other.and_then(|name| switch.datapaths_mut().get_mut(&name)) {
        Some(datapath) => datapath.renumber(old, number, &settings)?,
        None => switch.renumber_device(port, number)?,
    }
    Ok(String::new())
}

/// Advances the clock in steps, with the work that is due after each step. In between, frames pass through the sockets of
/// dummy ports.
fn warp(switch: &mut Switch, words: &[String]) -> Reply {
    let number = |word: &String| word.parse::<u64>().ok();
    let (total, step) = match words {
        [step] => (number(step), number(step)),
        [total, step, ..] => (number(total), number(step)),
        [] => (None, None),
    };
    let (Some(total), Some(step @ 1..)) = (total, step) else {
        return Reply::Error("invalid MSECS".to_owned());
    };
    let (reply, place) = Reply::later();
    let shared = switch.weak.upgrade();
    tokio::task::spawn_local(async move {
        let Some(shared) = shared else { return };
        let mut left = total;
        while left > 0 {
            let now = left.min(step);
            clock::warp(Duration::from_millis(now));
            left -= now;
            {
                let mut switch = shared.borrow_mut();
                switch.run_monitors();
                switch.let_workers_turn();
                switch.tick();
            }
            tokio::time::sleep(SOCKET_TIME).await;
        }
        place.give(Ok("warped".to_owned()));
    });
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_may_be_hexadecimal() {
        assert_eq!(from_hexadecimal("00aB 10"), Some(vec![0, 0xab, 0x10]));
        assert_eq!(from_hexadecimal("in_port(1)"), None);
        assert_eq!(from_hexadecimal("abc"), None);
    }
}
