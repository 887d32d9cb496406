//! Unix domain sockets that the daemon listens on.

use crate::Directories;
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Length of the queue of clients that wait; the kernel refuses further ones.
const BACKLOG: i32 = 64;

/// Returns the path of the control socket: `option` as given to `--unixctl`, relative to the run directory,
/// or `PROGRAM.PID.ctl` there. Returns `None` for "none", which disables the socket.
///
/// Must be called after detaching, because the path contains the process id.
pub fn control_socket_path(
    option: Option<&str>,
    directories: &Directories,
    program: &str,
) -> Option<PathBuf> {
    match option {
        Some("none") => None,
        Some(path) => Some(directories.in_run(path)),
        None => Some(directories.in_run(format!("{program}.{}.ctl", std::process::id()))),
    }
}

/// Returns a non-blocking socket that listens at `path`. Its file gets at most the permissions `mode`,
/// whatever the umask. A stale socket is replaced.
///
/// # Errors
/// There is a file at `path` that is not a socket (it is kept), or a system call failed.
pub fn listen_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => std::fs::remove_file(path)?,
        Ok(_) => {
            let text = format!("{} is there already and is not a socket", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // On Linux the mode of the socket limits the mode of its file, so no other user can connect even for a
    // moment.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode))?;
    match SocketAddrUnix::new(path) {
        Ok(address) => rustix::net::bind(&socket, &address)?,
        // The path is too long for an address (108 bytes): open its folder and use a path through that
        // descriptor.
        Err(rustix::io::Errno::NAMETOOLONG) => {
            let (folder, name) = (path.parent(), path.file_name());
            let (folder, name) = folder.zip(name).ok_or(rustix::io::Errno::NAMETOOLONG)?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = rustix::fs::open(folder, flags, Mode::empty())?;
            let number = std::os::fd::AsRawFd::as_raw_fd(&folder);
            let short = Path::new("/proc/self/fd").join(number.to_string()).join(name);
            rustix::net::bind(&socket, &SocketAddrUnix::new(&short)?)?;
        }
        Err(error) => return Err(error.into()),
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_not_a_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        std::fs::write(&path, "text").unwrap();
        let error = listen_unix(&path, 0o700).unwrap_err();
        assert!(error.to_string().contains("not a socket"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(listen_unix(&link, 0o700).is_err());
        assert!(path.exists() && link.is_symlink());
    }

    #[test]
    fn a_socket_left_behind_is_replaced_and_the_mode_holds_whatever_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("br0.mgmt");
        drop(UnixListener::bind(&path).unwrap());
        // The umask belongs to the process, which tests share, so only the socket's own mode is checked; the
        // kernel combines it with the umask.
        let _listener = listen_unix(&path, 0o750).unwrap();
        let found = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(found & !0o750, 0, "{found:o}");
        assert_eq!(found & 0o700, 0o700, "{found:o}");
    }
}
