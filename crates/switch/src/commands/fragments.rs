//! `dpctl/ipf-*` commands: fragments that wait for reassembly in connection tracking (ovs: `lib/dpctl.c`,
//! `dpctl.man`).

use super::{Answer, Arguments, add};
use crate::Switch;
use conntrack::IpVersion;
use daemon::unixctl::Commands;

/// Adds the commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    add(commands, "dpctl/ipf-set-enabled", "[dp] v4|v6", 1..=2, |switch, words| {
        set_enabled(switch, words, true)
    });
    add(commands, "dpctl/ipf-set-disabled", "[dp] v4|v6", 1..=2, |switch, words| {
        set_enabled(switch, words, false)
    });
    add(commands, "dpctl/ipf-set-min-frag", "[dp] v4|v6 minfragment", 2..=3, set_min_bytes);
    add(commands, "dpctl/ipf-set-max-nfrags", "[dp] maxfrags", 1..=2, set_fragments_max);
    add(commands, "dpctl/ipf-get-status", "[-m | --more] [dp]", 0..=2, status);
}

fn set_enabled(switch: &mut Switch, words: &[String], enabled: bool) -> Answer {
    let mut arguments = Arguments::read(words)?;
    let version = version(&mut arguments, "parameter missing: 'v4' for IPv4 or 'v6' for IPv6")?;
    arguments.end()?;
    switch.conntrack().fragments().set_enabled(version, enabled);
    let done = if enabled { "enabling" } else { "disabling" };
    Ok(format!("{done} fragmentation reassembly successful"))
}

fn set_min_bytes(switch: &mut Switch, words: &[String]) -> Answer {
    let mut arguments = Arguments::read(words)?;
    let version = version(&mut arguments, "parameter missing: v4 for IPv4 or v6 for IPv6")?;
    let bytes = number(&mut arguments, "parameter missing for minimum fragment size")?;
    arguments.end()?;
    switch.conntrack().fragments().set_min_bytes(version, bytes).map_err(|_| {
        "requested minimum fragment size too small; see documentation (Unknown error 1)".to_owned()
    })?;
    Ok("setting minimum fragment size successful".to_owned())
}

fn set_fragments_max(switch: &mut Switch, words: &[String]) -> Answer {
    let mut arguments = Arguments::read(words)?;
    let fragments = number(&mut arguments, "parameter missing for maximum fragments")?;
    arguments.end()?;
    let refused = |_| "setting maximum fragments failed (Unknown error 1)".to_owned();
    switch.conntrack().fragments().set_fragments_max(fragments).map_err(refused)?;
    Ok("setting maximum fragments successful".to_owned())
}

fn status(switch: &mut Switch, words: &[String]) -> Answer {
    let mut arguments = Arguments::read(words)?;
    let more = arguments.flag("-m") | arguments.flag("--more");
    arguments.end()?;
    Ok(switch.conntrack().fragments().status().display(more).to_string())
}

fn version(arguments: &mut Arguments, missing: &str) -> Result<IpVersion, String> {
    match arguments.next().as_deref() {
        Some(word) if word.starts_with("v4") => Ok(IpVersion::V4),
        Some(word) if word.starts_with("v6") => Ok(IpVersion::V6),
        _ => Err(format!("{missing} (Invalid argument)")),
    }
}

fn number(arguments: &mut Arguments, missing: &str) -> Result<u32, String> {
    let number = arguments.next().and_then(|word| word.parse().ok());
    number.ok_or_else(|| format!("{missing} (Invalid argument)"))
}
