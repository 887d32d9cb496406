//! Where the control socket is, and how it is made.

use crate::Directories;
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Waiting clients; more are refused by the kernel.
const BACKLOG: i32 = 64;

/// The path of the control socket: `option` as given with `--unixctl`, under the run directory
/// unless it is absolute, or `PROGRAM.PID.ctl` there. None for "none", which asks for no socket.
///
/// To be called after the program went to the background, because the process id counts.
pub fn path(option: Option<&str>, directories: &Directories, program: &str) -> Option<PathBuf> {
    match option {
        Some("none") => None,
        Some(path) => Some(directories.in_run(path)),
        None => Some(directories.in_run(format!("{program}.{}.ctl", std::process::id()))),
    }
}

/// A socket listening at `path`, for the owner and the group, not blocking. A file that stands
/// there already is removed.
///
/// # Errors
/// Those of the system calls.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // On Linux the mode of the socket limits the mode of its file, so that nobody else can
    // connect even for a moment.
    rustix::fs::fchmod(&socket, Mode::RWXU | Mode::RWXG)?;
    match SocketAddrUnix::new(path) {
        Ok(address) => rustix::net::bind(&socket, &address)?,
        // The path is too long for an address (108 bytes): go there through its folder.
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
