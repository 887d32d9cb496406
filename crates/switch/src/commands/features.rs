//! `dpif/set-dp-features`: disables features of the datapath for translation, for tests (ovs:
//! `ofproto/ofproto-dpif.c`, `dpif_set_support`).

use super::{Answer, add};
use crate::Switch;
use crate::dummy::Dummy;
use crate::{capabilities, secret};
use daemon::unixctl::Commands;
use ofproto::{Config, Features, Ofproto};
use std::fmt::Write;

/// Adds the command.
pub fn add_all(commands: &mut Commands<Switch>) {
    let usage = "bridge [feature] [value]";
    add(commands, "dpif/set-dp-features", usage, 1..=3, set);
}

/// Returns an empty `Ofproto`. Actions for tests are enabled with dummy ports.
pub fn begin(dummy: Dummy) -> Ofproto {
    let features = Features { debug_actions: dummy.is_enabled(), ..Features::default() };
    Ofproto::new(Config::default()).of_run(secret::secret()).with_features(features)
}

/// Returns a feature that translation can do without.
fn place<'a>(features: &'a mut Features, name: &str) -> Option<&'a mut bool> {
    match name {
        "tnl_push_pop" => Some(&mut features.tunnels),
        "trunc" => Some(&mut features.truncation),
        "check_pkt_len" => Some(&mut features.length_check),
        "add_mpls" => Some(&mut features.add_mpls),
        _ => None,
    }
}

fn set(switch: &mut Switch, words: &[String]) -> Answer {
    switch.ofproto().bridges().named(&words[0]).ok_or("no such bridge")?;
    let mut features = switch.ofproto().features();
    let known = capabilities::all();
    let Some(name) = words.get(1) else {
        let lines = known.iter().map(|(name, title, boot)| line(&mut features, name, title, boot));
        return Ok(lines.collect());
    };
    let Some((name, title, boot)) = known.iter().find(|(known, ..)| known == name) else {
        return Ok("Unexpected support field".to_owned());
    };
    let Some(value) = words.get(2) else {
        return Ok(line(&mut features, name, title, boot));
    };
    if let Some(refused) = refusal(value, boot) {
        return Ok(refused.to_owned());
    }
    match place(&mut features, name) {
        Some(place) => *place = value.eq_ignore_ascii_case("true"),
        None if value.eq_ignore_ascii_case(boot) => return Ok(String::new()),
        None => return Err(format!("{name}: this switch does not do without it")),
    }
    switch.set_features(features);
    Ok(String::new())
}

/// Returns why a feature cannot have this value, if so.
fn refusal(value: &str, boot: &str) -> Option<&'static str> {
    if matches!(boot, "true" | "false") {
        return match value.to_ascii_lowercase().as_str() {
            "false" => None,
            "true" if boot == "true" => None,
            "true" => Some("Can not enable features not supported by the datapth"),
            _ => Some("Boolean value expected"),
        };
    }
    match (value.parse::<i32>(), boot.parse::<i32>()) {
        (Ok(..=-1), _) => Some("Negative number not expected"),
        (Ok(value), Ok(most)) if value <= most => None,
        (Ok(_), _) => Some("Can not set value beyond the datapath capability"),
        (Err(_), _) => Some("Integer number expected"),
    }
}

fn line(features: &mut Features, name: &str, title: &str, boot: &str) -> String {
    let now = place(features, name).map_or_else(|| boot.to_owned(), |place| place.to_string());
    let mut text = String::new();
    let _ = writeln!(text, "{name} ({title}) : [run time]:{now}, [boot time]:{boot}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_a_feature_cannot_have_is_refused() {
        let beyond = Some("Can not set value beyond the datapath capability");
        for (value, boot, expect) in [
            ("true", "true", None),
            ("False", "true", None),
            ("true", "false", Some("Can not enable features not supported by the datapth")),
            ("yes", "true", Some("Boolean value expected")),
            ("2", "2", None),
            ("3", "2", beyond),
            ("-1", "2", Some("Negative number not expected")),
            ("x", "2", Some("Integer number expected")),
        ] {
            assert_eq!(refusal(value, boot), expect, "{value} of {boot}");
        }
    }

    #[test]
    fn a_feature_is_told_as_it_is_and_as_it_could_be() {
        let mut features = Features { truncation: false, ..Features::default() };
        let text = line(&mut features, "trunc", "Truncate action", "true");
        assert_eq!(text, "trunc (Truncate action) : [run time]:false, [boot time]:true\n");
        let text = line(&mut features, "recirc", "Recirc", "true");
        assert_eq!(text, "recirc (Recirc) : [run time]:true, [boot time]:true\n");
    }
}
