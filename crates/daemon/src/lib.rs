//! The life cycle of a daemon, like Open vSwitch's daemons (ovs: lib/daemon-unix.c).
//!
//! The order matters: [`Daemon::start`] forks, so it comes before the first thread and before the tokio
//! runtime; [`Daemon::ready`] comes after the first configuration is applied.

pub mod bounded;
mod directories;
mod exit_file;
mod fork;
pub mod memory;
mod monitor;
mod pidfile;
mod signals;
mod socket;
pub mod unixctl;
mod user;

/// The name of the daemon's pidfile, control socket and log file, under which the stock tools find it.
pub const PROGRAM: &str = "ovs-vswitchd";

/// The version of Open vSwitch whose behaviour this program reproduces.
pub const OVS_VERSION: &str = "3.1.0";

pub use directories::Directories;
pub use exit_file::ExitFile;
pub use fork::utc_offset_s;
pub use signals::{FatalSignals, abort_on_panic, die_of};
pub use socket::listen_unix;

use fork::{Forked, Ready, close_standard_streams, count_threads, fork_and_wait};
use pidfile::Pidfile;
use std::path::{Path, PathBuf};

/// The daemon options of the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DaemonOptions {
    /// `--detach`: run in the background.
    pub detach: bool,
    /// `--monitor`: restart after a crash.
    pub monitor: bool,
    /// `--no-chdir`: stay in the current directory. Otherwise a detached daemon changes to `/`.
    pub no_chdir: bool,
    /// `--no-self-confinement`: allow sockets anywhere. They are always allowed; the option is accepted.
    pub no_self_confinement: bool,
    /// `--pidfile[=FILE]`, absolute.
    pub pidfile: Option<PathBuf>,
    /// `--overwrite-pidfile`: start even if another process holds the pidfile.
    pub overwrite_pidfile: bool,
    /// `--user=USER[:GROUP]`.
    pub user: Option<String>,
}

/// Why a daemon cannot start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Each message says it.
pub enum DaemonError {
    #[error("{}: already running as pid {pid}, aborting", .path.display())]
    AlreadyRunning { path: PathBuf, pid: i32 },
    #[error("{}: pidfile check failed ({reason}), aborting", .path.display())]
    PidfileCheck { path: PathBuf, reason: String },
    #[error("{}: {what} failed ({reason})", .path.display())]
    File { path: PathBuf, what: &'static str, reason: String },
    #[error("failed to rename \"{}\" to \"{}\" ({reason})", .from.display(), .to.display())]
    Rename { from: PathBuf, to: PathBuf, reason: String },
    #[error("{call} failed ({reason})")]
    System { call: &'static str, reason: String },
    #[error("cannot go to the background: threads were started before Daemon::start")]
    Threads,
    #[error("the child process died before it was ready")]
    ChildDied,
    #[error("could not detach from foreground session")]
    Detach,
    #[error("could not initiate process monitoring")]
    Monitor,
    #[error("{0}")]
    User(String),
}

impl DaemonError {
    fn file(path: &Path, what: &'static str, error: &std::io::Error) -> Self {
        DaemonError::File { path: path.to_path_buf(), what, reason: base::reason(error) }
    }

    fn system(call: &'static str, error: rustix::io::Errno) -> Self {
        DaemonError::System { call, reason: base::reason(&error.into()) }
    }
}

/// A running daemon. It removes its pidfile when dropped.
#[derive(Debug)]
#[must_use]
pub struct Daemon {
    _pidfile: Option<Pidfile>,
    ready: Option<Ready>,
    detach: bool,
    chdir: bool,
}

impl Daemon {
    /// Detaches if requested, and creates the pidfile. Returns in the process that does the work; the waiting
    /// parent and the monitor never return.
    ///
    /// The process must have one thread.
    ///
    /// # Errors
    /// The caller reports them with [`vlog::Vlog::fatal`] under the module `daemon_unix`, and exits with
    /// status 1.
    pub fn start(options: &DaemonOptions) -> Result<Self, DaemonError> {
        if (options.detach || options.monitor) && count_threads() > 1 {
            return Err(DaemonError::Threads);
        }
        Daemon::start_in_this_thread(options)
    }

    fn start_in_this_thread(options: &DaemonOptions) -> Result<Self, DaemonError> {
        if let Some(user) = &options.user {
            user::User::look_up(user)?.become_for_good()?;
        }
        let mut ready = None;
        if options.detach {
            match fork_and_wait().map_err(|error| error.or(DaemonError::Detach))? {
                // The daemon runs: the shell may continue.
                Forked::Parent { .. } => std::process::exit(0),
                Forked::Child { ready: to_shell } => ready = Some(to_shell),
            }
            // It fails only for the leader of a process group, which a new process is not.
            let _ = rustix::process::setsid();
        }
        if options.monitor {
            match fork_and_wait().map_err(|error| error.or(DaemonError::Monitor))? {
                Forked::Parent { child } => {
                    tell(ready.take())?;
                    if options.detach {
                        close_standard_streams().map_err(|error| {
                            DaemonError::file("/dev/null".as_ref(), "dup2", &error)
                        })?;
                    }
                    ready = Some(monitor::watch(child)?);
                }
                Forked::Child { ready: to_monitor } => ready = Some(to_monitor),
            }
            signals::let_crashes_through();
        }
        let overwrite = options.overwrite_pidfile;
        let pidfile = options.pidfile.as_deref().map(|path| Pidfile::create(path, overwrite));
        let chdir = !options.no_chdir;
        Ok(Daemon { _pidfile: pidfile.transpose()?, ready, detach: options.detach, chdir })
    }

    /// Lets the waiting parent exit, so that `--detach` returns to the shell. A detached daemon then leaves
    /// its directory and closes its standard streams. A second call does nothing.
    ///
    /// # Errors
    /// The parent is gone, or a system call failed.
    pub fn ready(&mut self) -> Result<(), DaemonError> {
        let Some(ready) = self.ready.take() else { return Ok(()) };
        tell(Some(ready))?;
        if self.detach {
            if self.chdir {
                // A daemon can run in its old directory too.
                let _ = std::env::set_current_dir("/");
            }
            close_standard_streams()
                .map_err(|error| DaemonError::file("/dev/null".as_ref(), "dup2", &error))?;
        }
        Ok(())
    }
}

impl DaemonError {
    /// Returns `general` for a child that died, because the log has the details.
    fn or(self, general: DaemonError) -> Self {
        if matches!(self, DaemonError::ChildDied) { general } else { self }
    }
}

fn tell(ready: Option<Ready>) -> Result<(), DaemonError> {
    match ready.map(Ready::tell) {
        Some(Err(error)) => {
            Err(DaemonError::System { call: "pipe write", reason: base::reason(&error) })
        }
        _ => Ok(()),
    }
}

/// `--mlockall`: locks all current and future memory of the process. As in Open vSwitch, a failure is only
/// logged.
pub fn lock_memory() {
    use rustix::mm::{MlockAllFlags, mlockall};
    if let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
        log::error!(target: "vswitchd", "mlockall failed: {}", base::reason(&error.into()));
    }
}

#[cfg(test)]
mod tests;
