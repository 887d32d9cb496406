//! The output of `ovs-vswitchd --help`.

use super::Id;
use super::getopt::{Opt, Takes};
use daemon::Directories;

/// The column of explanations.
const COLUMN: usize = 34;

/// Returns the help of `program`, with its default paths here.
pub fn text(program: &str, options: &[Opt<Id>], directories: &Directories) -> String {
    let mut out = format!(
        "{program}: Tidegate, a stateful software switch, in Open vSwitch's place\n\
         usage: {program} [OPTIONS] [DATABASE]\n\n\
         DATABASE is where ovsdb-server listens: unix:FILE, tcp:HOST:PORT or ssl:HOST:PORT\n\
         (default: {}).\n\nOptions:\n",
        directories.database()
    );
    for option in options {
        let name = name(option);
        let gap = " ".repeat(COLUMN.saturating_sub(name.len()).max(1));
        out.push_str(&format!("{name}{gap}{}", option.help));
        match option.id {
            Id::Pidfile => {
                let path = directories.pidfile(None, program);
                out.push_str(&format!(" (default: {})", path.display()));
            }
            Id::LogFile => {
                let path = directories.log_file(program);
                out.push_str(&format!(" (default: {})", path.display()));
            }
            _ => {}
        }
        out.push('\n');
    }
    out.push_str(
        "\n`tidegate switch` takes these too, and a configuration file in place of DATABASE.\n",
    );
    out
}

fn name(option: &Opt<Id>) -> String {
    let short = option.short.map_or("    ".to_owned(), |letter| format!("-{letter}, "));
    let argument = match option.takes {
        Takes::Nothing => String::new(),
        Takes::Maybe(argument) => format!("[={argument}]"),
        Takes::Argument(argument) => format!("={argument}"),
    };
    format!("  {short}--{}{argument}", option.long)
}
