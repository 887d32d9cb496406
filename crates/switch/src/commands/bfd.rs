//! `bfd/*` (ovs: `lib/bfd.c`, `bfd_init`).

use super::{Answer, add};
use crate::Switch;
use daemon::unixctl::Commands;
use std::collections::BTreeMap;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    add(commands, "bfd/show", "[interface]", 0..=1, show);
    add(commands, "bfd/set-forwarding", "[interface] normal|false|true", 1..=2, set_forwarding);
}

fn show(switch: &mut Switch, words: &[String]) -> Answer {
    let now = clock::now();
    let mut sessions = BTreeMap::new();
    switch.monitoring.each(|monitor| {
        if let Some(bfd) = monitor.bfd() {
            sessions.insert(monitor.name().to_owned(), bfd.show(now));
        }
    });
    match words.first() {
        Some(name) => sessions.remove(name).ok_or_else(|| "no such bfd object".to_owned()),
        None => {
            Ok(sessions.iter().map(|(name, text)| format!("---- {name} ----\n{text}")).collect())
        }
    }
}

fn set_forwarding(switch: &mut Switch, words: &[String]) -> Answer {
    let (word, names) = words.split_last().ok_or("unknown fault string")?;
    let forced = match word.to_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        "normal" => None,
        _ => return Err("unknown fault string".to_owned()),
    };
    let name = names.first().map(String::as_str);
    if !switch.monitoring.force_bfd(name, forced) && name.is_some() {
        return Err("no such BFD object".to_owned());
    }
    switch.monitors_changed();
    Ok("OK".to_owned())
}
