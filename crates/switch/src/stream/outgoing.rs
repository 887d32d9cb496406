//! Bytes on their way to a peer. A peer that does not read must not keep its task from its timers, from closing the
//! connection, and from connecting anew, so that writing is one branch of a `select!`.

use std::io;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Bytes that are being written.
#[derive(Debug, Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    /// Whether everything is written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The number of bytes that are not written yet.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self.is_empty() {
            true => self.bytes = bytes,
            false => self.bytes.extend_from_slice(&bytes),
        }
    }

    /// Writes what the peer takes at once, and waits until it takes something; without bytes, it waits forever.
    /// Cancellation-safe: no byte is lost or written twice.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn advance(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let rest = self.bytes.get(self.written..).unwrap_or_default();
        if !rest.is_empty() {
            let written = writer.write(rest).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.written += written;
        } else if !self.bytes.is_empty() {
            // TLS holds back what the socket did not take.
            writer.flush().await?;
            (self.bytes, self.written) = (Vec::new(), 0);
        } else {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    /// Writes everything.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn finish(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        while !self.is_empty() {
            self.advance(writer).await?;
        }
        Ok(())
    }
}
