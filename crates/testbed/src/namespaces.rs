//! Runs the program in namespaces of its own, which isolate it from the machine and are removed with it.
//!
//! The program starts itself again through `unshare` in new network, mount and process namespaces (and a user
//! namespace if it is not root). When the first process inside ends, the kernel kills the others and removes
//! their devices and mounts. `setpriv --pdeathsig` and `unshare --kill-child` end that first process together
//! with the outer program, even after `kill -9`. Files are on a private tmpfs over `/run`, where the stock
//! tools look for sockets.

use std::env;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::TestbedError;
use crate::programs;
use crate::screen::Screen;
use crate::stock::Stock;

/// The directory of the test bed's files, on the private tmpfs.
pub const FOLDER: &str = "/run/tidegate";
/// The directory in which Open vSwitch's tools look for sockets and pidfiles.
pub const RUN_FOLDER: &str = "/run/openvswitch";

/// The variable that passes the outer namespaces to the inner program.
const OUTSIDE: &str = "TIDEGATE_DEMO_OUTSIDE";
const KINDS: &[&str] = &["mnt", "net", "pid"];
const UNSHARE: &[&str] =
    &["--fork", "--kill-child=KILL", "--pid", "--net", "--mount", "--propagation", "private"];

/// Where the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the user's namespaces.
    Outside,
    /// In namespaces of its own, started by the outer process.
    Inside,
}

/// Returns where the process runs. Any user can set the variable, and the process inside mounts over `/run`, so
/// the namespaces must also differ from the outer ones.
pub fn place() -> Place {
    let Ok(outside) = env::var(OUTSIDE) else { return Place::Outside };
    let outside: Vec<&str> = outside.split(' ').collect();
    let apart = KINDS.len() == outside.len()
        && own_namespaces().iter().zip(outside).all(|(own, outer)| own != "?" && own != outer);
    if apart { Place::Inside } else { Place::Outside }
}

fn own_namespaces() -> Vec<String> {
    let name = |kind: &&str| match fs::read_link(format!("/proc/self/ns/{kind}")) {
        Ok(target) => target.to_string_lossy().into_owned(),
        Err(_) => "?".to_owned(),
    };
    KINDS.iter().map(name).collect()
}

/// Starts this program again with the same arguments inside, and waits for its end or for a signal.
pub fn run_again_inside(screen: &Screen) -> Result<ExitCode, TestbedError> {
    run_again(screen, Duration::ZERO)
}

/// As [`run_again_inside`], but after a signal the inner program gets SIGINT and may take `grace` to end by
/// itself.
pub fn run_again(screen: &Screen, grace: Duration) -> Result<ExitCode, TestbedError> {
    check_allowed()?;
    let program = env::current_exe().map_err(TestbedError::io("find this program's own file"))?;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare"]).args(unshare_options());
    command.arg(program).args(env::args_os().skip(1));
    command.env(OUTSIDE, own_namespaces().join(" "));
    command.env("PATH", programs::search_path());
    command.env("OVS_RUNDIR", RUN_FOLDER).env("OVS_LOGDIR", FOLDER).env("OVS_DBDIR", FOLDER);
    command.env("OVS_SYSCONFDIR", FOLDER);
    if !env::args_os().any(|arg| arg == "--shell") {
        // Otherwise Ctrl-C at the terminal would also reach the tools inside.
        command.process_group(0);
    }
    // The parent-death signal depends on the thread that started the child, so it must be this one, which
    // does not end before.
    let child = command.spawn().map_err(TestbedError::io("start setpriv"))?;
    supervise(child, screen, grace)
}

fn unshare_options() -> Vec<&'static str> {
    let mut options = UNSHARE.to_vec();
    if !rustix::process::geteuid().is_root() {
        options.extend(["--user", "--map-root-user"]);
    }
    options
}

fn check_allowed() -> Result<(), TestbedError> {
    let mut attempt = Command::new("unshare");
    attempt.args(unshare_options()).arg("true").env("PATH", programs::search_path());
    let output = attempt.output().map_err(TestbedError::io("run unshare"))?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(TestbedError::NoNamespaces { reason })
}

fn supervise(mut child: Child, screen: &Screen, grace: Duration) -> Result<ExitCode, TestbedError> {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return Err(TestbedError::Io {
            what: "wait for unshare".into(),
            error: rustix::io::Errno::SRCH.into(),
        });
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(TestbedError::io("wait for signals"))?;
    let (sender, mut ended) = oneshot::channel();
    thread::spawn(move || sender.send(child.wait()));
    runtime.block_on(async move {
        let listen = |kind| signal(kind).map_err(TestbedError::io("wait for signals"));
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut terminate = listen(SignalKind::terminate())?;
        let mut hang_up = listen(SignalKind::hangup())?;
        let by = tokio::select! {
            status = &mut ended => return Ok(status.map_or(ExitCode::FAILURE, exit_code)),
            _ = interrupt.recv() => 2,
            _ = terminate.recv() => 15,
            _ = hang_up.recv() => 1,
        };
        if !grace.is_zero() {
            // The first process of a namespace has no default action for signals.
            let _ = kill_process(first_inside(pid).unwrap_or(pid), Signal::INT);
            if let Ok(status) = tokio::time::timeout(grace, &mut ended).await {
                return Ok(status.map_or(ExitCode::FAILURE, exit_code));
            }
        }
        let _ = kill_process(first_inside(pid).unwrap_or(pid), Signal::KILL);
        let _ = ended.await;
        screen.problem("interrupted; everything that was started is gone");
        Ok(ExitCode::from(128 + by))
    })
}

/// Returns the first process inside, which is the only child of `unshare`. When it ends, all others end, and
/// `unshare` ends after it, so no process is left when `unshare` has ended.
fn first_inside(unshare: Pid) -> Option<Pid> {
    let pid = unshare.as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
}

fn exit_code(status: std::io::Result<ExitStatus>) -> ExitCode {
    let Ok(status) = status else { return ExitCode::FAILURE };
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    number.and_then(|n| u8::try_from(n).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Mounts a private tmpfs over `/run`, and a `/proc` of the new process namespace.
pub fn make_private() -> Result<(), TestbedError> {
    Stock::new("mount -t tmpfs -o mode=0755 tidegate /run").run()?;
    // Some containers forbid it. Without it, `ps` shows other process ids.
    Stock::new("mount -t proc proc /proc").ask()?;
    for folder in [FOLDER, RUN_FOLDER] {
        fs::create_dir_all(folder).map_err(TestbedError::io(format!("create {folder}")))?;
    }
    Ok(())
}

/// Runs an interactive shell inside. `hosts` describes the hosts to the user.
pub fn open_shell(screen: &Screen, hosts: &str) -> Result<(), TestbedError> {
    screen.title("A shell inside; the stock tools find the switch here, `exit` removes everything");
    screen.say(hosts);
    let mut shell = Command::new("bash");
    shell.args(["--norc", "-i"]).env("PS1", "inside$ ").env_remove(OUTSIDE).stdin(Stdio::inherit());
    shell.status().map(drop).map_err(TestbedError::io("start bash"))
}
