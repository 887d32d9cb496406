use super::*;
use std::path::Path;

fn quiet(folder: &Path) -> (Vlog, PathBuf) {
    let path = folder.join("ovs-vswitchd.log");
    let vlog = Vlog::new("ovs-vswitchd", path.clone(), |_| 0);
    vlog.set("console:off").unwrap();
    vlog.set("syslog:off").unwrap();
    vlog.set("PATTERN:file:%c|%p|%m").unwrap();
    (vlog, path)
}

fn say(vlog: &Vlog, target: &str, level: log::Level, text: &str) {
    let args = format_args!("{text}");
    log::Log::log(vlog, &log::Record::builder().target(target).level(level).args(args).build());
}

#[test]
fn each_module_has_its_levels() {
    let folder = tempfile::tempdir().unwrap();
    let (vlog, path) = quiet(folder.path());
    vlog.open_file(None).unwrap();
    vlog.set("dpif:file:dbg").unwrap();
    vlog.set("bridge:off").unwrap();
    say(&vlog, "dpif", log::Level::Debug, "heard");
    say(&vlog, "conntrack", log::Level::Debug, "not heard");
    say(&vlog, "bridge", log::Level::Error, "not heard");
    say(&vlog, "control::reconnect", log::Level::Warn, "two\nlines\n");
    say(&vlog, "tide", log::Level::Info, "a module of our own");
    vlog.set("tide:file:warn").unwrap();
    say(&vlog, "tide", log::Level::Info, "not heard");
    let expect = format!(
        "vlog|INFO|opened log file {}\ndpif|DBG|heard\nreconnect|WARN|two\nlines\n\
         tide|INFO|a module of our own\n",
        path.display()
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expect);
}

#[test]
fn lists_are_those_of_open_vswitch() {
    let folder = tempfile::tempdir().unwrap();
    let (vlog, _) = quiet(folder.path());
    assert!(vlog.set_rate_limits(Some("bfd"), false));
    let expect = concat!(
        "                 console    syslog    file\n",
        "                 -------    ------    ------\n",
        "backtrace          OFF        OFF       INFO\n",
        "bfd                OFF        OFF       INFO    (rate limiting disabled)\n",
        "bond               OFF        OFF       INFO\n",
    );
    assert!(vlog.list().starts_with(expect), "{}", vlog.list());
    assert!(vlog.list().ends_with("vswitchd           OFF        OFF       INFO\n"));

    let vlog = Vlog::new("ovs-vswitchd", PathBuf::new(), |_| 0);
    let expect = concat!(
        "         prefix                            format\n",
        "         ------                            ------\n",
        "SYSLOG   <%B> %D{%h %e %T} %E %A:          ovs|%05N|%c%T|%p|%m\n",
        "CONSOLE  none                              %D{%Y-%m-%dT%H:%M:%SZ}|%05N|%c%T|%p|%m\n",
        "FILE     none                              %D{%Y-%m-%dT%H:%M:%S.###Z}|%05N|%c%T|%p|%m\n",
    );
    assert_eq!(vlog.list_patterns(), expect);
}

#[test]
fn a_rotated_file_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let (vlog, path) = quiet(folder.path());
    assert!(matches!(vlog.reopen_file(), Err(None)));
    vlog.open_file(None).unwrap();
    vlog.reopen_file().unwrap();
    let moved = folder.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    say(&vlog, "bridge", log::Level::Info, "to the old file");
    vlog.reopen_file().unwrap();
    say(&vlog, "bridge", log::Level::Info, "to the new file");
    vlog.close_file();
    say(&vlog, "bridge", log::Level::Info, "to no one");
    vlog.reopen_file().unwrap();

    let opened = format!("vlog|INFO|opened log file {}\n", path.display());
    let old = format!("{opened}bridge|INFO|to the old file\nvlog|INFO|closing log file\n");
    assert_eq!(std::fs::read_to_string(&moved).unwrap(), old);
    let new = format!("{opened}bridge|INFO|to the new file\n{opened}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), new);
}

#[test]
fn options_take_effect_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let (vlog, path) = quiet(folder.path());
    let nowhere = folder.path().join("no/such/folder");
    let options = [
        LogOption::SyslogMethod("null".into()),
        LogOption::LogFile(None),
        LogOption::Verbose(Some("file:err".into())),
    ];
    vlog.apply(&options).unwrap();
    say(&vlog, "bridge", log::Level::Warn, "not heard");
    vlog.apply(&[LogOption::Verbose(None), LogOption::Verbose(Some("console:off".into()))])
        .unwrap();
    say(&vlog, "bridge", log::Level::Debug, "heard");
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written.ends_with("log\nbridge|DBG|heard\n"), "{written}");

    let wrong = |option| vlog.apply(&[option]).unwrap_err().to_string();
    assert_eq!(
        wrong(LogOption::Verbose(Some("foo:bar".into()))),
        "processing \"foo:bar\": no destination, level, or module \"foo\""
    );
    assert_eq!(wrong(LogOption::SyslogMethod("tcp:x".into())), "unsupported syslog method 'tcp:x'");
    assert_eq!(
        wrong(LogOption::LogFile(Some(nowhere.clone()))),
        format!(
            "{}: cannot open the log file (No such file or directory); check --log-file",
            nowhere.display()
        )
    );
}

#[test]
fn the_system_log_gets_each_line() {
    let folder = tempfile::tempdir().unwrap();
    let (vlog, _) = quiet(folder.path());
    let path = folder.path().join("syslog");
    let receiver = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    receiver.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    vlog.apply(&[LogOption::SyslogMethod(format!("unix:{}", path.display()))]).unwrap();
    vlog.set("bridge:syslog:warn").unwrap();
    vlog.set("PATTERN:syslog:ovs|%c|%m").unwrap();
    vlog.set("FACILITY:local1").unwrap();
    say(&vlog, "bridge", log::Level::Warn, "one\n\ntwo");
    for expect in ["<140>ovs|bridge|one", "<140>two"] {
        let mut buffer = [0; 100];
        let length = receiver.recv(&mut buffer).unwrap();
        assert_eq!(std::str::from_utf8(&buffer[..length]), Ok(expect));
    }
}

#[test]
fn threads_number_their_messages() {
    let folder = tempfile::tempdir().unwrap();
    let (vlog, path) = quiet(folder.path());
    vlog.set("PATTERN:file:%05N|%c%T|%m").unwrap();
    std::thread::scope(|scope| {
        let work = || {
            vlog.open_file(None).unwrap();
            say(&vlog, "bridge", log::Level::Info, "a");
            set_subprogram(Some("monitor"));
            say(&vlog, "bridge", log::Level::Info, "b");
        };
        std::thread::Builder::new().name("handler1".into()).spawn_scoped(scope, work).unwrap();
    });
    let written = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = written.lines().skip(1).collect();
    assert_eq!(lines, ["00002|bridge(handler1)|a", "00003|bridge(monitor)|b"]);
}
