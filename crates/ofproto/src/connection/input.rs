//! What a peer has sent and what is not handled yet.

use openflow::{Framer, OfError};
use std::collections::VecDeque;

/// OFPT_ECHO_REQUEST
const ECHO_REQUEST: u8 = 2;

/// Messages that wait, and the bytes after them.
#[derive(Debug, Default)]
pub(super) struct Input {
    queue: VecDeque<Vec<u8>>,
    queued_bytes: usize,
    framer: Framer,
}

impl Input {
    pub fn push(&mut self, bytes: &[u8]) {
        self.framer.push(bytes);
    }

    /// The oldest message.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, OfError> {
        let Some(message) = self.queue.pop_front() else { return self.framer.next_message() };
        self.queued_bytes -= message.len();
        Ok(Some(message))
    }

    /// Lets a message wait before all others.
    pub fn put_back(&mut self, message: Vec<u8>) {
        self.queued_bytes += message.len();
        self.queue.push_front(message);
    }

    /// The next echo request that arrived. The messages before it wait.
    pub fn next_echo(&mut self) -> Result<Option<Vec<u8>>, OfError> {
        while let Some(message) = self.framer.next_message()? {
            if message.get(1) == Some(&ECHO_REQUEST) {
                return Ok(Some(message));
            }
            self.queued_bytes += message.len();
            self.queue.push_back(message);
        }
        Ok(None)
    }

    pub fn has_message(&self) -> bool {
        !self.queue.is_empty() || self.framer.has_message()
    }

    /// The number of bytes that are not handled.
    pub fn pending(&self) -> usize {
        self.queued_bytes + self.framer.pending()
    }
}
