//! Manual pages and shell completion, generated from the definition of the help.
//!
//! `clap_mangen` writes the sections that the definition contains. Exit status, files and environment are
//! listed by verb (`sections`), and the end of the help becomes EXAMPLES and NOTES.

mod sections;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use sections::Sections;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes the completion script of a shell.
pub fn write_completion(shell: Shell, out: &mut dyn Write) -> io::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut super::command(), "tidegate", &mut text);
    out.write_all(&text)
}

/// Writes the page tidegate(1).
pub fn write_page(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&page(&program())?)
}

/// Writes a page for the program, each verb and each of their subcommands to `folder`, which is created if
/// necessary. Returns their paths.
pub fn write_pages(folder: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder)?;
    let mut commands = vec![program()];
    let mut paths = Vec::new();
    while let Some(command) = commands.pop() {
        let path = folder.join(format!("{}.1", name(&command)));
        std::fs::write(&path, page(&command)?)?;
        paths.push(path);
        commands.extend(command.get_subcommands().cloned());
    }
    paths.sort();
    Ok(paths)
}

/// Returns the whole command line, without the verb `help`, which has no page.
fn program() -> Command {
    let mut program = super::command().disable_help_subcommand(true);
    program.build();
    program
}

/// Returns `tidegate-bench-rfc` for `tidegate bench rfc`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(&mut text)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let of_verb = Sections::of(name(command));
    section(&mut text, "EXIT STATUS", of_verb.exit_status)?;
    section(&mut text, "FILES", of_verb.files)?;
    section(&mut text, "ENVIRONMENT", of_verb.environment)?;
    let end = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, notes) = match end.strip_prefix("Examples:\n") {
        Some(end) => end.split_once("\n\n").unwrap_or((end, "")),
        None => ("", end.as_str()),
    };
    let mut roff = Roff::new();
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        examples.lines().for_each(|line| _ = roff.text([roman(line)]));
        roff.control("fi", []);
    }
    if !notes.is_empty() {
        roff.control("SH", ["NOTES"]);
        for line in notes.lines() {
            match line {
                "" => roff.control("PP", []),
                line => roff.text([roman(line)]),
            };
        }
    }
    roff.to_writer(&mut text)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut text)?;
    }
    Ok(text)
}

/// Writes a section of terms and explanations; nothing if there are none.
fn section(text: &mut Vec<u8>, title: &str, terms: &[(&str, &str)]) -> io::Result<()> {
    if terms.is_empty() {
        return Ok(());
    }
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (term, meaning) in terms {
        roff.control("TP", []).text([roman(*term)]).text([roman(*meaning)]);
    }
    roff.to_writer(text)
}

#[cfg(test)]
mod tests {
    use super::page;
    use clap::Command;

    #[test]
    fn the_end_of_the_help_becomes_examples_and_notes() {
        for (end, examples, notes) in [
            ("Examples:\n  one\n  two\n\nA note.", Some("  one\n  two\n.fi\n"), Some("A note.\n")),
            ("Examples:\n  one", Some("  one\n.fi\n"), None),
            ("A note.\n\nAnother.", None, Some("A note.\n.PP\nAnother.\n")),
        ] {
            let command = Command::new("tidegate-bench-x").about("x").after_help(end);
            let page = String::from_utf8(page(&command).unwrap()).unwrap();
            let after = |title: &str| page.split_once(title).map(|(_, text)| text);
            for (title, expect) in [(".SH EXAMPLES\n.nf\n", examples), (".SH NOTES\n", notes)] {
                let found = after(title);
                assert_eq!(found.is_some(), expect.is_some(), "{title} in {page}");
                let text = expect.unwrap_or_default();
                assert!(found.unwrap_or_default().starts_with(text), "{text} in {page}");
            }
        }
    }
}
