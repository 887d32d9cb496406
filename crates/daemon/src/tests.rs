//! Tests of daemons, which are processes: they start the test program again, and an environment variable
//! makes it act as a daemon. It does so in a thread; its main thread only waits for the test's end and holds
//! no lock, so that forking is safe.

use super::signals::FatalSignal;
use super::*;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const FOLDER: &str = "TIDEGATE_TEST_DAEMON_FOLDER";
const OPTIONS: &str = "TIDEGATE_TEST_DAEMON_OPTIONS";

/// The body of the started process. It does nothing in a run of all ignored tests.
#[test]
#[ignore = "played by the processes that the other tests start"]
fn plays_a_daemon() {
    let (Ok(folder), Ok(words)) = (std::env::var(FOLDER), std::env::var(OPTIONS)) else { return };
    let folder = PathBuf::from(folder);
    let asked = |word: &str| words.split(' ').any(|given| given == word);
    vlog::set_subprogram(Some("played"));
    let vlog = vlog::install("tshelld", folder.join("tshelld.log"), utc_offset_s);
    for spec in ["console:off", "syslog:off", "PATTERN:file:%c%T|%p|%m"] {
        vlog.set(spec).unwrap();
    }
    vlog.open_file(None).unwrap();
    let options = DaemonOptions {
        detach: asked("detach"),
        monitor: asked("monitor"),
        overwrite_pidfile: asked("overwrite"),
        pidfile: Some(folder.join("tshelld.pid")),
        user: words.split(' ').find_map(|word| word.strip_prefix("user=").map(String::from)),
        ..DaemonOptions::default()
    };
    let mut daemon = match Daemon::start_in_this_thread(&options) {
        Ok(daemon) => daemon,
        Err(error) => {
            vlog.fatal("daemon_unix", &error.to_string());
            std::process::exit(1);
        }
    };
    if asked("fail") {
        drop(daemon);
        std::process::exit(7);
    }
    if asked("die") {
        std::process::abort();
    }
    abort_on_panic();
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(folder.join("configured"), "").unwrap();
    daemon.ready().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(Duration::from_secs(30), work(&folder)).await };
    match runtime.block_on(limited) {
        Ok(Some(signal)) => die_of(signal),
        Ok(None) => drop(daemon),
        Err(_) => panic!("this daemon was not ended"),
    }
}

/// Answers commands until a signal or the command `exit` arrives.
async fn work(folder: &Path) -> Option<FatalSignal> {
    let mut signals = FatalSignals::listen().unwrap();
    let here = Directories { run: folder.into(), ..Directories::from_environment() };
    let socket = unixctl::path(None, &here, "tshelld").unwrap();
    let mut server = unixctl::Server::bind(&socket).unwrap();
    let mut commands = unixctl::Commands::new("tshelld 1");
    unixctl::add_exit(&mut commands, |exiting: &mut bool, _| {
        *exiting = true;
        unixctl::Reply::done()
    });
    std::fs::write(folder.join("listening"), "").unwrap();
    let mut exiting = false;
    while !exiting {
        tokio::select! {
            signal = signals.next() => return Some(signal),
            call = server.next_call() => commands.answer(&mut exiting, call),
        }
    }
    server.close().await;
    None
}

fn start(folder: &Path, options: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let role = module_path!().split_once("::").unwrap().1;
    command.args(["--ignored", "--nocapture", "--test-threads=1", "--exact"]);
    command.arg(format!("{role}::plays_a_daemon"));
    command.env(FOLDER, folder).env(OPTIONS, options);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    command.spawn().unwrap()
}

/// Starts the program and waits for the started process, not for the daemon.
fn run(folder: &Path, options: &str) -> Output {
    start(folder, options).wait_with_output().unwrap()
}

fn pid_in(folder: &Path) -> i32 {
    std::fs::read_to_string(folder.join("tshelld.pid")).unwrap().trim().parse().unwrap()
}

fn send(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn eventually(what: &str, mut test: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !test() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie that its parent has not reaped yet counts as dead.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn logged(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("tshelld.log")).unwrap()
}

#[test]
fn detach_returns_when_the_daemon_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "detach");
    assert!(output.status.success(), "{output:?}");
    assert!(folder.path().join("configured").exists());
    let pid = pid_in(folder.path());
    assert!(is_alive(pid));
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), Path::new("/"));
    for stream in 0..3 {
        let target = std::fs::read_link(format!("/proc/{pid}/fd/{stream}")).unwrap();
        assert_eq!(target, Path::new("/dev/null"));
    }

    let second = run(folder.path(), "detach");
    assert_eq!(second.status.code(), Some(1));
    let expect = format!(
        "tshelld: {}: already running as pid {pid}, aborting",
        folder.path().join("tshelld.pid").display()
    );
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.lines().any(|line| line == expect), "{said}");
    assert_eq!(pid_in(folder.path()), pid);

    eventually("signals are listened to", || folder.path().join("listening").exists());
    send(pid, rustix::process::Signal::TERM);
    eventually("the daemon ends", || !is_alive(pid));
    assert!(!folder.path().join("tshelld.pid").exists());
    assert!(!folder.path().join("tshelld.pid.tmp").exists());
    assert!(
        logged(folder.path())
            .ends_with("fatal_signal(played)|WARN|terminating with signal 15 (Terminated)\n")
    );
}

/// `ovs-appctl` accepts the pidfile only if it is locked, and finds the socket by its process id.
#[test]
fn the_real_ovs_appctl_finds_a_daemon_by_its_pidfile() {
    let folder = tempfile::tempdir().unwrap();
    let appctl = |args: &[&str]| {
        let mut command = Command::new("ovs-appctl");
        command.args(["-t", "tshelld"]).args(args).env("OVS_RUNDIR", folder.path()).output()
    };
    if appctl(&["--version"]).is_err() {
        println!("SKIPPED: the real ovs-appctl: not installed (openvswitch-common)");
        return;
    }
    assert!(run(folder.path(), "detach").status.success());
    eventually("commands are listened to", || folder.path().join("listening").exists());
    let pid = pid_in(folder.path());
    let version = appctl(&["version"]).unwrap();
    assert_eq!(version.stdout, b"tshelld 1\n", "{version:?}");
    let exit = appctl(&["exit"]).unwrap();
    assert!(exit.status.success(), "{exit:?}");
    eventually("the daemon ends", || !is_alive(pid));
    let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    left.retain(|file| file.file_name() != "tshelld.log");
    let left: Vec<_> = left.iter().map(std::fs::DirEntry::file_name).collect();
    assert_eq!(left.len(), 2, "only the two marks of this test: {left:?}");
}

#[test]
fn detach_tells_of_a_daemon_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), "detach fail").status.code(), Some(7));
    assert_eq!(run(folder.path(), "detach monitor fail").status.code(), Some(7));
    let output = run(folder.path(), "detach die");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("tshelld: could not detach from foreground session\n"), "{said}");
    let log = logged(folder.path());
    assert!(log.contains("|fork child died before signaling startup (killed (Aborted)"), "{log}");
    let output = run(folder.path(), "user=no-such-user");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("tshelld: user no-such-user not found, aborting.\n"), "{said}");
}

#[test]
fn a_monitored_daemon_comes_back_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), "detach monitor").status.success());
    let first = pid_in(folder.path());
    send(first, rustix::process::Signal::SEGV);
    eventually("a new daemon", || {
        let text = std::fs::read_to_string(folder.path().join("tshelld.pid")).unwrap_or_default();
        text.trim().parse().is_ok_and(|pid: i32| pid != first && is_alive(pid))
    });
    let second = pid_in(folder.path());
    // The second daemon creates the file again: the first one's must not count.
    std::fs::remove_file(folder.path().join("listening")).ok();
    eventually("signals are listened to", || folder.path().join("listening").exists());
    send(second, rustix::process::Signal::TERM);
    eventually("the daemon ends", || !is_alive(second));
    let end =
        format!("daemon_unix(monitor)|INFO|pid {second} died, killed (Terminated), exiting\n");
    eventually("the monitor ends", || logged(folder.path()).ends_with(&end));
    let log = logged(folder.path());
    let crash = format!(
        "daemon_unix(monitor)|ERR|1 crashes: pid {first} died, killed (Segmentation fault)"
    );
    assert!(log.contains(&crash), "{log}");
    assert!(!folder.path().join("tshelld.pid").exists());
}

#[test]
fn pidfiles_are_locked_and_stale_ones_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pid");
    // A stale pidfile, which no process holds.
    std::fs::write(&path, "1\n").unwrap();
    let pidfile = Pidfile::create(&path, false).unwrap();
    // Another process sees the lock and its holder.
    let other = Command::new("python3")
        .args([
            "-c",
            "import fcntl, struct, sys; f = open(sys.argv[1], 'r+'); \
            l = fcntl.fcntl(f, fcntl.F_GETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)); \
            print(struct.unpack('hhqqi4x', l)[4])",
        ])
        .arg(&path)
        .output();
    match other {
        Ok(output) => {
            let holder = String::from_utf8(output.stdout).unwrap();
            assert_eq!(holder.trim(), std::process::id().to_string());
        }
        Err(_) => println!("SKIPPED: the lock as another process sees it: no python3"),
    }
    // Reading it in this process releases the lock, so this comes last.
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
    drop(pidfile);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    let nowhere = folder.path().join("no/such/x.pid");
    let error = Pidfile::create(&nowhere, false).unwrap_err().to_string();
    let expect = format!("{}.tmp: create failed (No such file or directory)", nowhere.display());
    assert_eq!(error, expect);
}

#[test]
fn another_user_has_only_the_rights_of_a_switch() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: --user: only root can use it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let output = run(folder.path(), "detach user=nobody:daemon");
    assert!(output.status.success(), "{output:?}");
    let pid = pid_in(folder.path());
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().split_whitespace().map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(field("Uid:"), ["65534"; 4]);
    assert_eq!(field("Gid:"), ["1"; 4]);
    assert!(field("Groups:").is_empty());
    // CAP_NET_BIND_SERVICE, _BROADCAST, _ADMIN, _RAW and CAP_IPC_LOCK: bits 10 to 14.
    let rights = u64::from_str_radix(&field("CapEff:")[0], 16).unwrap();
    assert_eq!(rights & !0x7c00, 0, "{rights:x}");
    let owner = std::fs::metadata(folder.path().join("tshelld.log")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&owner), 65534);
    send(pid, rustix::process::Signal::KILL);
    eventually("the daemon ends", || !is_alive(pid));
}

#[test]
fn a_process_with_threads_does_not_fork() {
    let options = DaemonOptions { detach: true, ..DaemonOptions::default() };
    assert!(matches!(Daemon::start(&options), Err(DaemonError::Threads)));
}

#[test]
fn overwriting_takes_the_pidfile_of_a_running_daemon() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), "detach").status.success());
    let first = pid_in(folder.path());
    assert!(run(folder.path(), "detach overwrite").status.success());
    let second = pid_in(folder.path());
    assert_ne!(first, second);
    for pid in [first, second] {
        send(pid, rustix::process::Signal::KILL);
        eventually("the daemon ends", || !is_alive(pid));
    }
}

#[test]
#[allow(clippy::zombie_processes)] // They are reaped by process id.
fn errors_have_the_words_of_the_c_library() {
    let error = std::io::Error::from_raw_os_error(libc::ENOENT);
    assert_eq!(base::reason(&error), "No such file or directory");
    assert_eq!(base::reason(&std::io::Error::other("as said")), "as said");
    for (script, expect) in [
        ("exit 0", "exit status 0"),
        ("exit 7", "exit status 7"),
        ("kill -TERM $$", "killed (Terminated)"),
        ("kill -40 $$", "killed (signal 40)"),
    ] {
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        assert_eq!(fork::describe(fork::wait_for(pid).unwrap()), expect, "{script}");
    }
}
