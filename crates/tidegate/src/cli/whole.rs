//! A command line with all its defaults, for results: it repeats the run even if defaults change.

use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::OsString;

/// Returns the whole line; if the program rejects it, the line as typed.
pub fn line(args: &[OsString]) -> String {
    let typed = || args.iter().map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>();
    let command = super::command();
    let Ok(matches) = command.clone().try_get_matches_from(args) else { return typed().join(" ") };
    let mut words = vec![command.get_name().to_owned()];
    of_verb(&command, &matches, &mut words);
    words.join(" ")
}

fn of_verb(command: &Command, matches: &ArgMatches, words: &mut Vec<String>) {
    let named = command.get_arguments().filter(|arg| !arg.is_positional());
    let mut positional: Vec<_> = command.get_positionals().collect();
    positional.sort_by_key(|arg| arg.get_index());
    named.chain(positional).for_each(|arg| of_arg(arg, matches, words));
    if let Some((verb, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(verb)
    {
        words.push(verb.to_owned());
        of_verb(command, matches, words);
    }
}

fn of_arg(arg: &Arg, matches: &ArgMatches, words: &mut Vec<String>) {
    // Options that were not given and have no default are omitted.
    let Ok(Some(values)) = matches.try_get_raw(arg.get_id().as_str()) else { return };
    let values: Vec<String> = values.map(|value| value.to_string_lossy().into_owned()).collect();
    let name = arg.get_long().map(|long| format!("--{long}"));
    let name = name.or_else(|| arg.get_short().map(|short| format!("-{short}")));
    let Some(name) = name else {
        words.extend(values.iter().map(|value| quoted(value)));
        return;
    };
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        words.extend((values == ["true"]).then_some(name));
    } else if arg.is_require_equals_set() {
        words.extend(values.iter().map(|value| format!("{name}={}", quoted(value))));
    } else if let Some(delimiter) = arg.get_value_delimiter() {
        words.extend([name, quoted(&values.join(&delimiter.to_string()))]);
    } else {
        words.extend(values.iter().flat_map(|value| [name.clone(), quoted(value)]));
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+:,./@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(words: &[&str]) -> String {
        line(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn defaults_stand_in_it_and_it_says_the_same_again() {
        let cases: &[(&[&str], &[&str])] = &[
            (
                &["tidegate", "cps-ndr", "-m", "2.4k", "-c", "ssh fw 'x'", "--json"],
                &["--min-cps 2.4k ", "--sample-time 1 ", "--seed 1", " --json", "--goals 0.5 "],
            ),
            (&["tidegate", "generate", "--rate", "10k"], &["--rate 10k ", "--seconds 10"]),
            (
                &["tidegate", "bench", "rfc", "rfc2544-latency", "--frame-sizes", "64,128"],
                &["tidegate bench rfc ", "--frame-sizes 64,128 ", " rfc2544-latency"],
            ),
            (&["tidegate", "bench", "conntrack", "1", "64", "32"], &["--seed 1", " 1 64 32"]),
            (&["tidegate", "bench", "matrix", "my results"], &["'my results'", "--precision 2"]),
        ];
        for (typed, pieces) in cases {
            let line = whole(typed);
            for piece in *pieces {
                assert!(line.contains(piece), "{line}: no {piece}");
            }
            assert!(!line.contains("--list") && !line.contains("true"), "{line}");
            // A shell parses the line, and no further defaults are added.
            let script = format!("printf '%s\\n' {line}");
            let out = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            let words = String::from_utf8(out.stdout).unwrap();
            assert_eq!(whole(&words.lines().collect::<Vec<_>>()), line);
        }
        assert_eq!(whole(&["tidegate", "nosuch", "a b"]), "tidegate nosuch 'a b'");
    }
}
