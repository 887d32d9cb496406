//! Manual pages and shell completion, made from the same definition as the help.

use clap::Command;
use clap_complete::Shell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes what a shell has to read to complete our command lines.
pub fn write_completion(shell: Shell, out: &mut dyn Write) -> io::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut super::command(), "tidegate", &mut text);
    out.write_all(&text)
}

/// Writes the page tidegate(1).
pub fn write_page(out: &mut dyn Write) -> io::Result<()> {
    clap_mangen::Man::new(super::command()).render(out)
}

/// Writes a page for the program and one for each verb into `folder`, which is made if it is not
/// there; returns their paths.
pub fn write_pages(folder: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder)?;
    let program = super::command();
    let mut pages = vec![(String::from("tidegate"), program.clone())];
    for verb in program.get_subcommands().filter(|verb| verb.get_name() != "help") {
        let name = format!("tidegate-{}", verb.get_name());
        let line = format!("tidegate {}", verb.get_name());
        let page: Command = verb.clone().display_name(name.clone()).bin_name(line);
        pages.push((name, page));
    }
    let mut paths = Vec::new();
    for (name, page) in pages {
        let path = folder.join(format!("{name}.1"));
        let mut text = Vec::new();
        clap_mangen::Man::new(page).render(&mut text)?;
        std::fs::write(&path, text)?;
        paths.push(path);
    }
    Ok(paths)
}
