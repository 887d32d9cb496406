//! Splits a byte stream into OpenFlow messages by the length in each header.

use crate::error::{ErrorCode, OfError};

/// Bytes in the header of every message: version, type, length (16 bits), transaction id (32 bits).
pub const HEADER_LEN: usize = 8;

/// Collects received bytes and returns complete messages.
#[derive(Debug, Default)]
pub struct Framer {
    buffer: Vec<u8>,
    start: usize,
}

impl Framer {
    /// An empty framer.
    pub fn new() -> Self {
        Framer::default()
    }

    /// Appends what the peer sent.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete message with its header, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// The peer does not speak OpenFlow (version 0 or above 0x06), or a length is less than a header. The
    /// stream is then unusable: close the connection.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, OfError> {
        let Some(message) = self.first()?.map(<[u8]>::to_vec) else { return Ok(None) };
        self.start += message.len();
        Ok(Some(message))
    }

    /// Whether a complete message waits.
    pub fn has_message(&self) -> bool {
        matches!(self.first(), Ok(Some(_)))
    }

    fn first(&self) -> Result<Option<&[u8]>, OfError> {
        let bytes = &self.buffer[self.start..];
        let &[version, _, high, low, ..] = bytes else {
            return match bytes.first() {
                Some(&version) => check_version(version).map(|()| None),
                None => Ok(None),
            };
        };
        check_version(version)?;
        let len = usize::from(u16::from_be_bytes([high, low]));
        if len < HEADER_LEN {
            let reason = format!("a message says it is {len} bytes long, less than its header");
            return Err(OfError::new(ErrorCode::BadLen, reason));
        }
        Ok(bytes.get(..len))
    }

    /// Returns the number of bytes of an incomplete message.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }
}

fn check_version(version: u8) -> Result<(), OfError> {
    if (1..=6).contains(&version) {
        return Ok(());
    }
    let reason = format!("{version:#04x} is no version of OpenFlow (0x01 to 0x06)");
    Err(OfError::new(ErrorCode::BadVersion, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_however_the_bytes_arrive() {
        let stream = [
            &[1u8, 2, 0, 8, 0, 0, 0, 1][..],
            &[4, 2, 0, 11, 0, 0, 0, 2, 7, 8, 9],
            &[6, 18, 0, 8, 0, 0, 0, 3],
        ];
        let bytes = stream.concat();
        for step in 1..=bytes.len() {
            let mut framer = Framer::new();
            let mut got = Vec::new();
            for chunk in bytes.chunks(step) {
                framer.push(chunk);
                while framer.has_message() {
                    got.extend(framer.next_message().unwrap());
                }
                assert_eq!(framer.next_message().unwrap(), None);
            }
            assert_eq!(got, stream, "in steps of {step}");
            assert_eq!(framer.pending(), 0);
        }
    }

    #[test]
    fn a_stream_that_is_not_openflow_is_refused() {
        let cases: [(&[u8], ErrorCode); 4] = [
            (b"GET / HTTP/1.1\r\n", ErrorCode::BadVersion),
            (&[0], ErrorCode::BadVersion),
            (&[7, 0, 0, 8], ErrorCode::BadVersion),
            (&[4, 0, 0, 7], ErrorCode::BadLen),
        ];
        for (bytes, code) in cases {
            let mut framer = Framer::new();
            framer.push(bytes);
            assert_eq!(framer.next_message().unwrap_err().code, code, "{bytes:?}");
        }
    }
}
