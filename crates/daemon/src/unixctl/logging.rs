//! The commands `vlog/*`.

use super::{Commands, Reply};
use vlog::{Level, Vlog};

/// Adds the commands `vlog/*` for `vlog`.
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
        Err(Some(error)) => Reply::Error(base::reason(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_answer_as_open_vswitch_does() {
        let folder = tempfile::tempdir().unwrap();
        // Commands live as long as the program, so the test leaks its log.
        let vlog = Vlog::new("ovs-vswitchd", folder.path().join("ovs-vswitchd.log"), |_| 0);
        for quiet in ["console:off", "syslog:off", "PATTERN:file:%c|%p|%m"] {
            vlog.set(quiet).unwrap();
        }
        let vlog: &'static Vlog = Box::leak(Box::new(vlog));
        let mut commands = Commands::new("x 1\n");
        add_commands(&mut commands, vlog);
        let run = |name: &str, args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            match commands.run(&mut (), name, &args) {
                Reply::Text(text) => Ok(text),
                Reply::Error(text) => Err(text),
                other => Err(format!("{other:?}")),
            }
        };
        let error = |text: &str| Err(text.to_owned());
        assert_eq!(run("vlog/reopen", &[]), error("Logging to file not configured"));
        assert_eq!(run("vlog/set", &["dpif:file:dbg", "bridge:warn"]), Ok(String::new()));
        assert!(
            run("vlog/list", &[])
                .unwrap()
                .contains("\ndpif               OFF        OFF        DBG\n")
        );
        assert_eq!(run("vlog/set", &["x"]), error("no destination, level, or module \"x\""));
        assert_eq!(run("vlog/disable-rate-limit", &["bridge", "nosuch"]), error("unknown module"));
        assert!(!vlog.honors_rate_limits("bridge"));
        assert_eq!(run("vlog/enable-rate-limit", &[]), Ok(String::new()));
        assert!(vlog.honors_rate_limits("bridge"));
        assert_eq!(run("vlog/close", &[]), Ok(String::new()));
        assert_eq!(
            run("vlog/list", &["x"]),
            error("\"vlog/list\" command takes at most 0 arguments")
        );
        assert_eq!(run("vlog/set", &[]), Ok(String::new()));
        assert!(!run("vlog/list", &[]).unwrap().contains("INFO"));
    }
}
