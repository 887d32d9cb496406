//! The socket between a port and a front-end: connecting, listening, and whole messages. No call blocks.

use crate::fault::Fault;
use crate::message::{HEADER_BYTES, Header, PAYLOAD_MAX, TABLE_REGIONS_MAX};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, send,
    socket_with,
};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4;
/// Bytes for the descriptors of one message.
const FILES_SPACE: usize = rustix::cmsg_space!(ScmRights(TABLE_REGIONS_MAX));

/// A connection, and the message that arrives on it.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    bytes: Vec<u8>,
    files: Vec<OwnedFd>,
}

/// A message.
#[derive(Debug)]
pub struct Message {
    /// Its header.
    pub header: Header,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Its descriptors.
    pub files: Vec<OwnedFd>,
}

/// Why no message was received.
#[derive(Debug)]
pub enum Ended {
    /// The front-end closed the connection.
    Closed,
    /// It sent an invalid message.
    Faulty(Fault),
}

impl Connection {
    fn new(socket: OwnedFd) -> Connection {
        Connection { socket, bytes: Vec::with_capacity(HEADER_BYTES + PAYLOAD_MAX), files: vec![] }
    }

    /// Connects to a socket of the front-end.
    ///
    /// # Errors
    /// There is none, or its queue of connections is full.
    pub fn connect(path: &Path) -> Result<Connection, Errno> {
        let (socket, address) = (new_socket()?, SocketAddrUnix::new(path)?);
        connect(&socket, &address)?;
        Ok(Connection::new(socket))
    }

    /// The socket, to wait for it.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Receives the next message, if all of it is there.
    ///
    /// # Errors
    /// The connection was closed, or the message is invalid.
    pub fn receive(&mut self) -> Result<Option<Message>, Ended> {
        loop {
            let wanted = match self.bytes.first_chunk::<HEADER_BYTES>() {
                None => HEADER_BYTES,
                Some(bytes) => {
                    let header = Header::read(bytes).map_err(Ended::Faulty)?;
                    if self.bytes.len() == HEADER_BYTES + header.size {
                        let payload = self.bytes[HEADER_BYTES..].to_vec();
                        self.bytes.clear();
                        let files = std::mem::take(&mut self.files);
                        return Ok(Some(Message { header, payload, files }));
                    }
                    HEADER_BYTES + header.size
                }
            };
            if !self.receive_to(wanted)? {
                return Ok(None);
            }
        }
    }

    /// Receives up to this length of the message. Returns false if nothing is there.
    fn receive_to(&mut self, length: usize) -> Result<bool, Ended> {
        let before = self.bytes.len();
        self.bytes.resize(length, 0);
        let mut space = [MaybeUninit::uninit(); FILES_SPACE];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut self.bytes[before..])];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.socket, &mut parts, &mut ancillary, flags);
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        let got = received.as_ref().map_or(0, |received| received.bytes);
        self.bytes.truncate(before + got);
        match received {
            Ok(received) if received.flags.contains(ReturnFlags::CTRUNC) => {
                Err(Ended::Faulty(Fault::protocol("a message has too many files")))
            }
            Ok(received) if received.bytes == 0 => Err(Ended::Closed),
            Ok(_) if self.files.len() > TABLE_REGIONS_MAX => {
                Err(Ended::Faulty(Fault::protocol("a message has too many files")))
            }
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(_) => Err(Ended::Closed),
        }
    }

    /// Sends a reply to a request.
    ///
    /// # Errors
    /// The front-end does not take it: it closed the connection, or sends requests without reading replies.
    pub fn reply(&mut self, request: u32, payload: &[u8]) -> Result<(), Ended> {
        let mut bytes = Header::reply(request, payload.len()).to_vec();
        bytes.extend_from_slice(payload);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match send(&self.socket, &bytes, flags) {
            Ok(sent) if sent == bytes.len() => Ok(()),
            Ok(_) | Err(Errno::AGAIN) => {
                Err(Ended::Faulty(Fault::protocol("it does not read replies")))
            }
            Err(_) => Err(Ended::Closed),
        }
    }
}

/// Creates the socket of a port to which front-ends connect. One that a killed process left is removed.
///
/// # Errors
/// The path is in use, has another kind of file, or cannot be created; in words with the path.
pub fn listen_at(path: &Path) -> Result<OwnedFd, String> {
    let shown = path.display();
    if let Ok(found) = rustix::fs::lstat(path) {
        if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
            return Err(format!("{shown} exists and is not a socket; remove it"));
        }
        // With AGAIN, the other program has not accepted earlier connections yet.
        if matches!(Connection::connect(path), Ok(_) | Err(Errno::AGAIN)) {
            return Err(format!("{shown} is another program's socket"));
        }
        std::fs::remove_file(path).map_err(|error| format!("cannot remove {shown}: {error}"))?;
    }
    let listening = || {
        let (socket, address) = (new_socket()?, SocketAddrUnix::new(path)?);
        bind(&socket, &address)?;
        listen(&socket, BACKLOG)?;
        Ok(socket)
    };
    listening().map_err(|error: Errno| format!("cannot create {shown}: {error}"))
}

/// Accepts a connection, if there is one.
pub fn accept(listener: &OwnedFd) -> Option<Connection> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    accept_with(listener, flags).ok().map(Connection::new)
}

/// Why no front-end can be at this path; `None` if it may still come.
pub fn problem_of(path: &Path, error: Errno) -> Option<String> {
    let shown = path.display();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match (error, path.symlink_metadata()) {
        (Errno::NOENT, _) => {
            let is_missing = folder.is_some_and(|folder| !folder.is_dir());
            is_missing.then(|| format!("the folder of {shown} does not exist"))
        }
        (Errno::CONNREFUSED, Ok(found))
            if !std::os::unix::fs::FileTypeExt::is_socket(&found.file_type())
                && !found.is_symlink() =>
        {
            let kind = if found.is_dir() { "a folder" } else { "a file" };
            Some(format!("{shown} is {kind}, not a socket"))
        }
        (Errno::CONNREFUSED | Errno::AGAIN, _) => None,
        (error, _) => Some(format!("cannot connect to {shown}: {error}")),
    }
}

fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}
