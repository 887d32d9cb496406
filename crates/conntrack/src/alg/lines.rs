//! Tracks where lines begin in one direction of a control connection.

use super::ftp;
use super::sequence::is_after;

/// The position up to which a direction was read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lines {
    /// The sequence number after the last byte seen.
    next: Option<u32>,
    /// The last byte seen ended a line.
    at_start: bool,
}

impl Lines {
    /// Reads a segment's payload. Returns whether a line begins with its first byte.
    /// Retransmissions are not read again, and the state after a gap is unknown. The first segment
    /// seen begins no line, since the connection may have been picked up in the middle of one.
    pub fn take(&mut self, seq: u32, payload: &[u8]) -> bool {
        let end = seq.wrapping_add(payload.len() as u32);
        if self.next.is_some_and(|next| is_after(next, seq)) {
            return false;
        }
        let starts_line = self.next == Some(seq) && self.at_start;
        self.next = Some(end);
        self.at_start = payload.last() == Some(&b'\n');
        starts_line
    }
}

/// The first line of a payload without its end, if the line is complete.
pub(super) fn first_whole(payload: &[u8]) -> Option<&[u8]> {
    let end = payload.iter().position(|&byte| byte == b'\n')?;
    let line = &payload[..end];
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

/// Whether all lines that begin in a payload may be a client's commands.
pub(super) fn all_may_be_commands(payload: &[u8], starts_line: bool) -> bool {
    let mut lines = payload.split_inclusive(|&byte| byte == b'\n');
    if !starts_line {
        lines.next();
    }
    lines.all(ftp::may_be_command)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_line_begins_behind_the_end_of_another() {
        let mut lines = Lines::default();
        assert!(!lines.take(100, b"USER joe\r\n"));
        assert!(lines.take(110, b"PASS x"));
        assert!(!lines.take(116, b"y\r\n"));
        assert!(lines.take(119, b"SYST\r\n"));
        // Once more, and then a gap.
        assert!(!lines.take(119, b"SYST\r\n"));
        assert!(!lines.take(130, b"PWD\r\n"));
        assert!(lines.take(135, b"PWD\r\n"));
    }

    #[test]
    fn numbers_wrap() {
        let mut lines = Lines::default();
        lines.take(u32::MAX - 4, b"USER\r\n");
        assert!(lines.take(1, b"PWD\r\n"));
    }

    #[test]
    fn only_lines_that_begin_here_must_be_commands() {
        assert!(all_may_be_commands(b"oe: x\r\nPWD\r\n", false));
        assert!(!all_may_be_commands(b"oe: x\r\nPWD\r\n", true));
        assert!(!all_may_be_commands(b"POST / HTTP/1.1\r\nHost: x\r\n", true));
        assert_eq!(first_whole(b"PWD\r\nPORT"), Some(&b"PWD"[..]));
        assert_eq!(first_whole(b"PWD\nPORT"), Some(&b"PWD"[..]));
        assert_eq!(first_whole(b"PORT 1,2"), None);
    }
}
