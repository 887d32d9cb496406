//! Detaching: a fork whose parent waits until the child is ready.

use super::{DaemonError, signals};
use base::reason;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

/// The process in which a fork returns.
#[derive(Debug)]
pub enum Forked {
    /// The child, which reports through `ready` that it has started.
    Child {
        /// The pipe to the parent.
        ready: Ready,
    },
    /// The parent; the child has started.
    Parent {
        /// The child.
        child: Pid,
    },
}

/// The pipe through which a child reports to its parent that it has started.
#[derive(Debug)]
pub struct Ready(File);

impl Ready {
    /// Reports it.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn tell(mut self) -> std::io::Result<()> {
        self.0.write_all(&[0])
    }
}

/// Forks. The parent waits until the child is ready. If the child exits early with an error, the parent exits
/// with the same status, which its own parent sees.
///
/// The child has only the calling thread, so the process must have no other thread that holds a lock.
///
/// # Errors
/// A system call failed, or the child was killed before it was ready.
pub fn fork_and_wait() -> Result<Forked, DaemonError> {
    let (reader, writer) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|error| DaemonError::system("pipe", error))?;
    match fork()? {
        None => {
            drop(reader);
            Ok(Forked::Child { ready: Ready(writer.into()) })
        }
        Some(child) => {
            drop(writer);
            wait_until_ready(child, reader)?;
            Ok(Forked::Parent { child })
        }
    }
}

/// Returns `None` in the child.
fn fork() -> Result<Option<Pid>, DaemonError> {
    // SAFETY: `Daemon::start` checked that there is one thread, so no lock is held by a thread that the child
    // lacks, and the child may do everything that the parent could.
    match unsafe { libc::fork() } {
        -1 => {
            let error = std::io::Error::last_os_error();
            Err(DaemonError::System { call: "fork", reason: reason(&error) })
        }
        pid => Ok(Pid::from_raw(pid)),
    }
}

fn wait_until_ready(child: Pid, reader: OwnedFd) -> Result<(), DaemonError> {
    if File::from(reader).read_exact(&mut [0]).is_ok() {
        return Ok(());
    }
    let status = wait_for(child)?;
    match status.exit_status() {
        Some(code) if code != 0 => std::process::exit(code),
        _ => {
            let how = describe(status);
            log::error!(target: "daemon_unix", "fork child died before signaling startup ({how})");
            Err(DaemonError::ChildDied)
        }
    }
}

/// Waits until a child ends.
///
/// # Errors
/// As waitpid(2).
pub fn wait_for(child: Pid) -> Result<WaitStatus, DaemonError> {
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(DaemonError::system("waitpid", error)),
        }
    }
}

/// Describes how a process ended (ovs: lib/process.c).
pub fn describe(status: WaitStatus) -> String {
    let how = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => match signals::name(signal) {
            Some(name) => format!("killed ({name})"),
            None => format!("killed (signal {signal})"),
        },
        (None, None) => format!("terminated abnormally ({:x})", status.as_raw()),
    };
    let core = if libc::WCOREDUMP(status.as_raw()) { ", core dumped" } else { "" };
    how + core
}

/// Redirects standard input, output and error to /dev/null.
///
/// # Errors
/// A system call failed.
pub fn close_standard_streams() -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for stream in 0..3 {
        // SAFETY: both descriptors are valid, and Rust's standard streams refer to them by number, so no
        // owner is invalidated.
        if unsafe { libc::dup2(null.as_raw_fd(), stream) } < 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Returns the offset of local time to UTC at a Unix time, in seconds.
pub fn utc_offset_s(unix_s: i64) -> i32 {
    // SAFETY: `tm` consists of integers and a pointer, for which zero is valid, and localtime_r only writes
    // to it. It reads the environment, which no thread of the program changes.
    unsafe {
        let mut date: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&unix_s, &mut date).is_null() {
            return 0;
        }
        i32::try_from(date.tm_gmtoff).unwrap_or(0)
    }
}

/// Returns the number of threads of this process.
pub fn count_threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}
