//! Going to the background: two processes, one of which waits until the other is ready.

use super::{DaemonError, signals};
use base::reason;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

/// Which process this is.
#[derive(Debug)]
pub enum Forked {
    /// The new one; it says through `ready` when it has started.
    Child {
        /// Its voice.
        ready: Ready,
    },
    /// The old one; the child has started.
    Parent {
        /// The child.
        child: Pid,
    },
}

/// How a child tells its parent that it has started.
#[derive(Debug)]
pub struct Ready(File);

impl Ready {
    /// Tells it.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn tell(mut self) -> std::io::Result<()> {
        self.0.write_all(&[0])
    }
}

/// Forks. The parent waits until the child is ready. Where the child exits before with an error,
/// the parent exits with the same status, for its own parent to see.
///
/// Threads would be missing in the child, so that there must be none but this, or only such as
/// hold nothing.
///
/// # Errors
/// A system call failed, or the child died before it was ready.
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

/// None in the child.
fn fork() -> Result<Option<Pid>, DaemonError> {
    // SAFETY: `Daemon::start` made sure that there is one thread, so that no lock is held by a
    // thread which the child does not have, and the child may do all that the parent could.
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

/// Waits for the end of a child.
///
/// # Errors
/// Those of waitpid(2).
pub fn wait_for(child: Pid) -> Result<WaitStatus, DaemonError> {
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(DaemonError::system("waitpid", error)),
        }
    }
}

/// How a process ended (ovs: lib/process.c).
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

/// Puts /dev/null in the place of standard input, output and error.
///
/// # Errors
/// Those of the system calls.
pub fn close_standard_streams() -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for stream in 0..3 {
        // SAFETY: both descriptors are valid, and owners of standard streams in Rust hold
        // them by number, so that no owner is deceived.
        if unsafe { libc::dup2(null.as_raw_fd(), stream) } < 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// How far local time is ahead of UTC at a Unix time, in seconds.
pub fn utc_offset_s(unix_s: i64) -> i32 {
    // SAFETY: `tm` is made of integers and a pointer, for all of which zero is a value, and
    // localtime_r only writes into it. It reads the environment, which no thread of the program
    // changes.
    unsafe {
        let mut date: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&unix_s, &mut date).is_null() {
            return 0;
        }
        i32::try_from(date.tm_gmtoff).unwrap_or(0)
    }
}

/// The threads of this process.
pub fn count_threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}
