//! ZeroMQ's wire protocol, the part that a request socket needs: ZMTP 3.0 (RFC 23 of ZeroMQ) with the NULL
//! mechanism. A request and its answer are an empty frame and the body.

use std::io::{self, Read, Write};

/// More frames of the message follow.
const MORE: u8 = 1;
/// The length has eight bytes.
const LONG: u8 = 2;
/// The frame is a command.
const COMMAND: u8 = 4;
/// The longest answer that is accepted.
const LONGEST: u64 = 64 << 20;
/// Bytes of a greeting: signature, version 3.0, the mechanism's name in 20 bytes, as-server flag, 31 bytes of
/// filler.
const GREETING: usize = 64;

/// A request socket.
#[derive(Debug)]
pub struct Request<S> {
    stream: S,
}

impl<S: Read + Write> Request<S> {
    /// Greets the other side, which must speak ZMTP 3 without encryption.
    pub fn open(mut stream: S) -> io::Result<Request<S>> {
        stream.write_all(&greeting())?;
        let mut theirs = [0; GREETING];
        stream.read_exact(&mut theirs)?;
        let refused = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if theirs[0] != 0xff || theirs[9] & 1 != 1 {
            return Err(refused("does not speak ZeroMQ's protocol"));
        }
        if theirs[10] < 3 {
            return Err(refused("speaks ZMTP before 3.0, which is ZeroMQ before 4.0"));
        }
        if !theirs[12..32].starts_with(b"NULL\0") {
            return Err(refused("wants ZeroMQ's encryption"));
        }
        let mut request = Request { stream };
        request.write_frame(COMMAND, &ready("REQ"))?;
        request.stream.flush()?;
        let (flags, body) = request.read_frame()?;
        if flags & COMMAND == 0 || !body.starts_with(b"\x05READY") {
            return Err(refused("did not say READY"));
        }
        Ok(request)
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, body: &[u8]) -> io::Result<Vec<u8>> {
        self.write_frame(MORE, &[])?;
        self.write_frame(0, body)?;
        self.stream.flush()?;
        loop {
            let (flags, body) = self.read_frame()?;
            // The last frame is the body, after an empty one.
            if flags & (COMMAND | MORE) == 0 {
                return Ok(body);
            }
        }
    }

    fn write_frame(&mut self, flags: u8, body: &[u8]) -> io::Result<()> {
        match u8::try_from(body.len()) {
            Ok(length) => self.stream.write_all(&[flags, length])?,
            Err(_) => {
                self.stream.write_all(&[flags | LONG])?;
                self.stream.write_all(&(body.len() as u64).to_be_bytes())?;
            }
        }
        self.stream.write_all(body)
    }

    fn read_frame(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut flags = [0];
        self.stream.read_exact(&mut flags)?;
        let mut length = [0; 8];
        let start = if flags[0] & LONG != 0 { 0 } else { 7 };
        self.stream.read_exact(length.get_mut(start..).unwrap_or_default())?;
        let length = u64::from_be_bytes(length);
        if length > LONGEST {
            let what = format!("a frame of {length} bytes, which is no answer");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mut body = vec![0; length as usize];
        self.stream.read_exact(&mut body)?;
        Ok((flags[0], body))
    }
}

fn greeting() -> [u8; GREETING] {
    let mut greeting = [0; GREETING];
    (greeting[0], greeting[8], greeting[9], greeting[10]) = (0xff, 1, 0x7f, 3);
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

fn ready(kind: &str) -> Vec<u8> {
    let mut body = b"\x05READY".to_vec();
    for (name, value) in [("Socket-Type", kind), ("Identity", "")] {
        body.push(name.len() as u8);
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&(value.len() as u32).to_be_bytes());
        body.extend_from_slice(value.as_bytes());
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recorded stream: what is read from it, and what was written to it.
    struct Tape(io::Cursor<Vec<u8>>, Vec<u8>);

    impl Read for Tape {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(into)
        }
    }

    impl Write for Tape {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn tape(pieces: &[&[u8]]) -> Tape {
        Tape(io::Cursor::new(pieces.concat()), Vec::new())
    }

    /// A router's handshake, byte for byte as in the protocol's description.
    fn their_greeting() -> Vec<u8> {
        let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
        bytes.extend_from_slice(b"NULL");
        bytes.resize(64, 0);
        bytes.extend_from_slice(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03REP");
        bytes
    }

    #[test]
    fn a_request_and_its_answer() {
        let long = vec![b'a'; 300];
        let mut frame = vec![2, 0, 0, 0, 0, 0, 0, 1, 44];
        frame.extend_from_slice(&long);
        let tape = tape(&[&their_greeting(), b"\x01\0\0\x02hi", b"\x01\0", &frame]);
        let mut request = Request::open(tape).unwrap();
        assert_eq!(request.ask(b"hello").unwrap(), b"hi");
        assert_eq!(request.ask(&long).unwrap(), long);
        let written = &request.stream.1;
        assert_eq!(written[..12], [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0]);
        assert_eq!(written[64..66], [4, 38]);
        assert!(written.windows(9).any(|w| w == b"\x01\0\0\x05hello"), "{written:?}");
        assert!(request.ask(b"more").is_err(), "the stream has ended");
    }

    #[test]
    fn what_does_not_speak_it_is_refused() {
        let mut old = their_greeting();
        old[10] = 2;
        let mut curve = their_greeting();
        curve[12..17].copy_from_slice(b"CURVE");
        let cases: [(&[u8], &str); 5] = [
            (b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n0123456789", "ZeroMQ's"),
            (&old, "before 3.0"),
            (&curve, "encryption"),
            (&[&their_greeting()[..64], &b"\0\x02hi"[..]].concat(), "READY"),
            (&[], "fill"),
        ];
        for (bytes, expected) in cases {
            let error = Request::open(tape(&[bytes])).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let huge = [2, 0xff, 0, 0, 0, 0, 0, 0, 0];
        let mut request = Request::open(tape(&[&their_greeting(), &huge])).unwrap();
        assert!(request.ask(b"x").unwrap_err().to_string().contains("no answer"));
    }
}
