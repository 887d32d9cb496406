//! The commands `vlog/*`.

use super::{Level, Vlog};
use crate::unixctl::{Commands, Reply};

/// Adds the commands `vlog/*`, which change `vlog`.
pub fn add_commands<C>(commands: &mut Commands<C>, vlog: &'static Vlog) {
    const MANY: usize = usize::MAX;
    let spec = "{spec | PATTERN:destination:pattern}";
    commands.add("vlog/set", spec, 0, MANY, move |_, args| set(vlog, args));
    commands.add("vlog/list", "", 0, 0, move |_, _| vlog.list());
    commands.add("vlog/list-pattern", "", 0, 0, move |_, _| vlog.list_patterns());
    commands.add("vlog/enable-rate-limit", "[module]...", 0, MANY, move |_, args| {
        set_rate_limits(vlog, args, true)
    });
    commands.add("vlog/disable-rate-limit", "[module]...", 0, MANY, move |_, args| {
        set_rate_limits(vlog, args, false)
    });
    commands.add("vlog/reopen", "", 0, 0, move |_, _| reopen(vlog));
    commands.add("vlog/close", "", 0, 0, move |_, _| {
        vlog.close_file();
        Reply::done()
    });
}

fn set(vlog: &Vlog, args: &[String]) -> Reply {
    if args.is_empty() {
        vlog.set_all_levels(Level::Dbg);
    }
    match args.iter().try_for_each(|spec| vlog.set(spec)) {
        Ok(()) => Reply::done(),
        Err(error) => Reply::Error(error.to_string()),
    }
}

fn set_rate_limits(vlog: &Vlog, args: &[String], honor: bool) -> Reply {
    let every = [String::from("ANY")];
    for name in if args.is_empty() { &every } else { args } {
        let module = (!name.eq_ignore_ascii_case("ANY")).then_some(name.as_str());
        if !vlog.set_rate_limits(module, honor) {
            return Reply::Error("unknown module".into());
        }
    }
    Reply::done()
}

fn reopen(vlog: &Vlog) -> Reply {
    match vlog.reopen_file() {
        Ok(()) => Reply::done(),
        Err(None) => Reply::Error("Logging to file not configured".into()),
        Err(Some(error)) => Reply::Error(crate::daemon::reason(&error)),
    }
}
