//! Tracks where lines begin in one direction of a control connection.

use super::ftp;
use super::sequence::is_after;

/// What is known of a segment's place in its direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The segment's first byte begins a line.
    pub starts_line: bool,
    /// The segment was not read before.
    pub is_new: bool,
    /// The segment follows the last one.
    pub follows: bool,
}

/// The position up to which a direction was read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lines {
    /// The sequence number after the last byte seen.
    next: Option<u32>,
    /// The last byte seen ended a line.
    at_start: bool,
}

impl Lines {
    /// Reads a segment's payload. Retransmissions are not read again, and the state after a gap is unknown. The first
    /// segment seen begins no line, since the connection may have been picked up in the middle of one.
    pub fn take(&mut self, seq: u32, payload: &[u8]) -> Place {
        let end = seq.wrapping_add(payload.len() as u32);
        if self.next.is_some_and(|next| is_after(next, seq)) {
            return Place { starts_line: false, is_new: false, follows: false };
        }
        let follows = self.next == Some(seq);
        let starts_line = follows && self.at_start;
        self.next = Some(end);
        self.at_start = payload.last() == Some(&b'\n');
        Place { starts_line, is_new: true, follows }
    }
}

/// The first line of a payload without its end, if the line is complete.
pub(super) fn first_whole(payload: &[u8]) -> Option<&[u8]> {
    let end = payload.iter().position(|&byte| byte == b'\n')?;
    let line = &payload[..end];
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

/// The lines that begin in a payload, with their ends. The last one may be incomplete.
pub(super) fn beginning(payload: &[u8], starts_line: bool) -> impl Iterator<Item = &[u8]> {
    payload.split_inclusive(|&byte| byte == b'\n').skip(usize::from(!starts_line))
}

/// Whether all lines that begin in a payload may be a client's commands.
pub(super) fn all_may_be_commands(payload: &[u8], starts_line: bool) -> bool {
    beginning(payload, starts_line).all(ftp::may_be_command)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_line_begins_behind_the_end_of_another() {
        let mut lines = Lines::default();
        assert!(!lines.take(100, b"USER joe\r\n").starts_line);
        assert!(lines.take(110, b"PASS x").starts_line);
        assert!(!lines.take(116, b"y\r\n").starts_line);
        assert!(lines.take(119, b"SYST\r\n").starts_line);
        // Once more, and then a gap.
        assert!(!lines.take(119, b"SYST\r\n").starts_line);
        assert!(!lines.take(130, b"PWD\r\n").starts_line);
        assert!(lines.take(135, b"PWD\r\n").starts_line);
    }

    #[test]
    fn numbers_wrap() {
        let mut lines = Lines::default();
        lines.take(u32::MAX - 4, b"USER\r\n");
        assert!(lines.take(1, b"PWD\r\n").starts_line);
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
