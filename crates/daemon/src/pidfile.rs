//! The pidfile, locked as `ovs-appctl` requires.
//!
//! `ovs-appctl` accepts a pidfile only while a process holds a write lock on it, and uses the process id of
//! the lock's holder (ovs: lib/daemon-unix.c, `read_pidfile__`). Such a lock belongs to the process, not to
//! the descriptor: closing any other descriptor of the same file releases it, so the daemon never opens its
//! pidfile twice.

use super::{DaemonError, ExitFile};
use base::reason;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A pidfile of this process, removed when this is dropped.
#[derive(Debug)]
pub struct Pidfile {
    /// Kept open because it holds the lock.
    _locked: File,
    _file: ExitFile,
}

impl Pidfile {
    /// Creates the pidfile. It is written under another name and renamed, so that it never exists without its
    /// lock and its process id.
    ///
    /// # Errors
    /// Another process holds the pidfile (unless `overwrite`), or a system call failed.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, DaemonError> {
        let pid = std::process::id();
        let mut name = path.as_os_str().to_owned();
        // Without --overwrite-pidfile all starting daemons use the same temporary name, and its lock admits
        // one of them.
        name.push(if overwrite { format!(".tmp{pid}") } else { ".tmp".into() });
        let temporary = PathBuf::from(name);
        let failed = |what, error: io::Error| DaemonError::file(&temporary, what, &error);

        let mut file = File::options()
            .read(true)
            .append(true)
            .create(true)
            // Other users may read it, whatever the umask. A symbolic link in its place is not followed.
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&temporary)
            .map_err(|error| failed("create", error))?;
        lock(&file).map_err(|error| failed("fcntl(F_SETLK)", error.into()))?;
        let guard = ExitFile::new(temporary.clone());
        if !overwrite {
            check_already_running(path)?;
        }
        file.set_len(0).map_err(|error| failed("truncate", error))?;
        writeln!(file, "{pid}").map_err(|error| failed("write", error))?;
        std::fs::rename(&temporary, path).map_err(|error| DaemonError::Rename {
            from: temporary.clone(),
            to: path.to_path_buf(),
            reason: reason(&error),
        })?;
        // From here on the temporary name may belong to another starting daemon.
        guard.keep();
        Ok(Pidfile { _locked: file, _file: ExitFile::new(path.to_path_buf()) })
    }
}

fn lock(file: &File) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| fcntl_lock(file, FlockOperation::NonBlockingLockExclusive))
}

/// Returns an error if another process holds `path`. Removes a pidfile that no process holds.
fn check_already_running(path: &Path) -> Result<(), DaemonError> {
    let check = |what: &str, error: io::Error| {
        log::warn!(target: "daemon_unix", "{}: {what}: {}", path.display(), reason(&error));
        DaemonError::PidfileCheck { path: path.to_path_buf(), reason: reason(&error) }
    };
    let mut file = match File::options().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(check("open", error)),
    };
    let wish = Flock::from(FlockType::WriteLock);
    let Some(holder) = fcntl_getlk(&file, &wish).map_err(|error| check("fcntl", error.into()))?
    else {
        return remove_stale(path, &file).map_err(|(what, error)| check(what, error));
    };
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| check("read", error))?;
    let written = text.lines().next().and_then(|line| line.trim().parse().ok());
    match holder.pid.map(|pid| pid.as_raw_nonzero().get()) {
        Some(pid) if Some(pid) == written => {
            Err(DaemonError::AlreadyRunning { path: path.to_path_buf(), pid })
        }
        // The holder of the lock has another process id: it is about to remove the stale file.
        _ => Err(check("stale pidfile being deleted", Errno::SRCH.into())),
    }
}

/// Removes a stale pidfile. It first takes the file's lock and checks that the name still refers to the locked
/// file; otherwise two starting daemons could remove each other's.
fn remove_stale(path: &Path, file: &File) -> Result<(), (&'static str, io::Error)> {
    lock(file).map_err(|error| ("lost race to lock pidfile", error.into()))?;
    let identity = |data: std::fs::Metadata| (data.dev(), data.ino());
    let named = std::fs::metadata(path).map(identity).ok();
    if named.is_none() || named != file.metadata().map(identity).ok() {
        return Err(("lost race to delete pidfile", Errno::ALREADY.into()));
    }
    std::fs::remove_file(path).map_err(|error| ("failed to delete stale pidfile", error))?;
    log::debug!(target: "daemon_unix", "{}: deleted stale pidfile", path.display());
    Ok(())
}
