//! The commands and replies of a control connection, as far as they decide whether both ends agreed on a data
//! connection (RFC 959 sections 4.2 and 5.4, RFC 2428).

/// What both sides said.
#[derive(Debug, Default)]
pub(super) struct Dialogue {
    /// The client sent PASV or EPSV, and no 227 or 229 answered it.
    asks_passive: bool,
    /// The code of a reply of several lines whose last line has not come.
    unfinished: Option<[u8; 3]>,
}

/// What a reply says of a port that the client announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// Nothing.
    Other,
    Accepts,
    /// The server refuses a command. The client waits for the answer to an announcement, so that this is one.
    Refuses,
}

impl Dialogue {
    /// Reads a line of the client.
    pub fn command(&mut self, line: &[u8]) {
        let verb = line.split(|byte| !byte.is_ascii_alphabetic()).next().unwrap_or_default();
        self.asks_passive |= [b"PASV", b"EPSV"].iter().any(|it| verb.eq_ignore_ascii_case(*it));
    }

    /// Reads a line of the server, perhaps cut at its end. Lines within a longer reply answer nothing.
    pub fn reply(&mut self, line: &[u8]) -> Answer {
        let Some((&code, rest)) = line.split_first_chunk::<3>() else { return Answer::Other };
        if !code.iter().all(u8::is_ascii_digit) || self.unfinished.is_some_and(|it| it != code) {
            return Answer::Other;
        }
        match rest.first() {
            Some(b'-') => self.unfinished = Some(code),
            Some(b' ' | b'\r' | b'\n') => {
                self.unfinished = None;
                return match code {
                    [b'2', b'0', b'0'] => Answer::Accepts,
                    [b'4' | b'5', ..] => Answer::Refuses,
                    _ => Answer::Other,
                };
            }
            _ => {}
        }
        Answer::Other
    }

    /// Segments are missing: whether a reply continues is unknown.
    pub fn skip(&mut self) {
        self.unfinished = None;
    }

    /// Whether the next line of the server begins a reply.
    pub fn begins_reply(&self) -> bool {
        self.unfinished.is_none()
    }

    /// Whether a 227 or 229 answers the client. It answers once.
    pub fn take_passive(&mut self) -> bool {
        std::mem::take(&mut self.asks_passive)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_line_of_a_reply_answers() {
        use Answer::{Accepts, Other, Refuses};
        for (lines, expect) in [
            (&["200 ok\r\n"][..], &[Accepts][..]),
            (&["200\r\n"], &[Accepts]),
            (&["200ok\r\n", "20", ""], &[Other; 3]),
            (&["500 no\r\n", "425 no\r\n"], &[Refuses; 2]),
            (&["150 soon\r\n", "227 x\r\n"], &[Other; 2]),
            (
                &["200-a\r\n", "500 b\r\n", " 200 c\r\n", "200 d\r\n"],
                &[Other, Other, Other, Accepts],
            ),
            (&["230-a\r\n", "200 b\r\n", "230-\r\n", "230 c\r\n", "200 d\r\n"], {
                &[Other, Other, Other, Other, Accepts]
            }),
        ] {
            let mut dialogue = Dialogue::default();
            let answers: Vec<_> =
                lines.iter().map(|line| dialogue.reply(line.as_bytes())).collect();
            assert_eq!(answers, expect, "{lines:?}");
        }
    }

    #[test]
    fn a_request_is_answered_once() {
        for (line, expect) in [
            ("PASV\r\n", true),
            ("epsv 1\r\n", true),
            ("PASVX\r\n", false),
            ("SIZE PASV\r\n", false),
            ("", false),
        ] {
            let mut dialogue = Dialogue::default();
            dialogue.command(line.as_bytes());
            assert_eq!(dialogue.take_passive(), expect, "{line:?}");
            assert!(!dialogue.take_passive(), "{line:?}");
        }
    }
}
