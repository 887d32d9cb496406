//! `--monitor`: a process that restarts the daemon when it crashes.

use super::DaemonError;
use super::fork::{Forked, Ready, describe, fork_and_wait, wait_for};
use rustix::process::{Pid, Resource, Rlimit, WaitStatus, setrlimit};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Minimum time between restarts.
const RESTART_INTERVAL: Duration = Duration::from_secs(10);

/// Signals that count as a crash and not as a request to exit (ovs-vswitchd(8), "--monitor").
const CRASHES: [i32; 9] = [
    libc::SIGABRT,
    libc::SIGALRM,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGPIPE,
    libc::SIGSEGV,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// Monitors `daemon` and its successors. Returns only in a restarted daemon, and exits when a daemon ended
/// without a crash.
///
/// # Errors
/// As waitpid(2).
pub fn watch(mut daemon: Pid) -> Result<Ready, DaemonError> {
    vlog::set_subprogram(Some("monitor"));
    // The name in the process table, which is cosmetic.
    let _ = rustix::thread::set_name(c"monitor");
    let mut crashes = 0;
    let mut last_restart: Option<Instant> = None;
    loop {
        let status = wait_with_closed_log(daemon)?;
        let pid = daemon.as_raw_nonzero();
        let how = describe(status);
        if !status.terminating_signal().is_some_and(|signal| CRASHES.contains(&signal)) {
            log::info!(target: "daemon_unix", "pid {pid} died, {how}, exiting");
            std::process::exit(0);
        }
        if libc::WCOREDUMP(status.as_raw()) {
            // One core dump is enough; more would fill the disk.
            let none = Rlimit { current: Some(0), maximum: Some(0) };
            let _ = setrlimit(Resource::Core, none);
        }
        // A daemon that dies before it is ready is another crash.
        daemon = loop {
            crashes += 1;
            let what = format!("{crashes} crashes: pid {pid} died, {how}");
            pause(last_restart, &what);
            last_restart = Some(Instant::now());
            log::error!(target: "daemon_unix", "{what}, restarting");
            match fork_and_wait() {
                Ok(Forked::Child { ready }) => {
                    vlog::set_subprogram(None);
                    let _ = rustix::thread::set_name(c"tidegate");
                    return Ok(ready);
                }
                Ok(Forked::Parent { child }) => break child,
                Err(DaemonError::ChildDied) => {}
                Err(error) => return Err(error),
            }
        };
    }
}

/// Waits until a process ends, with the log file closed, because it may be rotated meanwhile.
fn wait_with_closed_log(daemon: Pid) -> Result<WaitStatus, DaemonError> {
    let vlog = vlog::installed();
    let path: Option<PathBuf> = vlog.and_then(|vlog| vlog.file());
    if let Some(vlog) = vlog {
        vlog.forget_file();
    }
    let status = wait_for(daemon)?;
    if let (Some(vlog), Some(path)) = (vlog, path) {
        // A failure was logged by `open_file`.
        let _ = vlog.open_file(Some(&path));
    }
    Ok(status)
}

fn pause(last_restart: Option<Instant>, what: &str) {
    let since = last_restart.map_or(RESTART_INTERVAL, |last| last.elapsed());
    let left = RESTART_INTERVAL.saturating_sub(since);
    if !left.is_zero() {
        let interval_s = RESTART_INTERVAL.as_secs();
        log::warn!(
            target: "daemon_unix",
            "{what}, waiting until {interval_s} seconds since last restart"
        );
        std::thread::sleep(left);
    }
}
