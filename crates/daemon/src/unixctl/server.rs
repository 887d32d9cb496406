//! The server: accepts clients and collects their calls.

use super::Call;
use super::clients::{CLIENTS, Clients, Place};
use super::connection::{CallQueue, End, serve};
use crate::{ExitFile, listen_unix};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

/// The owner and the group may connect.
const SOCKET_MODE: u32 = 0o770;

/// Calls that wait for the main loop; a client whose call does not fit waits.
const CALLS: usize = 16;

/// How long the last replies may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A listening control socket. Its file is removed on drop, or when the program exits.
#[derive(Debug)]
pub struct Server {
    _file: ExitFile,
    calls: mpsc::Receiver<Call>,
    busy: Arc<Semaphore>,
    accept: JoinHandle<()>,
}

impl Server {
    /// Listens at `path`. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::from_std(listen_unix(path, SOCKET_MODE)?)?;
        let (sender, calls) = mpsc::channel(CALLS);
        let busy = Arc::new(Semaphore::new(CLIENTS));
        let queue = CallQueue { calls: sender, busy: Arc::clone(&busy) };
        let accept = tokio::spawn(accept(listener, queue));
        Ok(Server { _file: ExitFile::new(path.to_path_buf()), calls, busy, accept })
    }

    /// Waits for the next call of any client. Cancellation-safe: no call is lost.
    pub async fn next_call(&mut self) -> Call {
        match self.calls.recv().await {
            Some(call) => call,
            // The accepting task holds the sender and never ends by itself.
            None => std::future::pending().await,
        }
    }

    /// Stops accepting clients, and waits briefly until the replies so far are written, above all the one to
    /// `exit`. Unanswered calls are dropped.
    pub async fn close(mut self) {
        self.accept.abort();
        self.calls.close();
        while self.calls.try_recv().is_ok() {}
        let all_done = self.busy.acquire_many(CLIENTS as u32);
        // A client that does not read its reply must not keep the program from exiting.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, all_done).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accept.abort();
    }
}

async fn accept(listener: UnixListener, queue: CallQueue) {
    let clients = Clients::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (queue, place) = (queue.clone(), clients.enter().await);
                let number = place.number();
                let task = tokio::spawn(async move {
                    match serve(stream, queue, &place).await {
                        End::Closed | End::Exiting => {}
                        end => vlog::limited!(
                            (5, 5), clock::now(), target: "unixctl", log::Level::Warn,
                            "control connection: {end}"
                        ),
                    }
                });
                Place::served_by(&clients, number, task.abort_handle());
            }
            Err(error) => {
                let reason = base::reason(&error);
                vlog::limited!(
                    (5, 5), clock::now(), target: "unixctl", log::Level::Warn,
                    "control socket: accept failed: {reason}"
                );
                // Most likely the process is out of file descriptors, which takes time to pass.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}
