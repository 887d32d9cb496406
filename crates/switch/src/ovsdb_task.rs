//! The socket of the database connection.

use super::Shared;
use crate::stream::{Outgoing, Stream, Target};
use log::Level;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// Bytes read from the database at once.
const READ_BYTES: usize = 64 * 1024;
/// Longest sleep of the task, so that queued output is sent.
const TURN: Duration = Duration::from_secs(5);

/// With more bytes than this to write, none are read: a server that asks without reading is probed and left.
const OUTPUT_LIMIT: usize = 16 << 20;

/// Logs the beginning or the end of a connection.
macro_rules! log_end {
    ($($words:tt)+) => {
        vlog::limited!((10, 25), clock::now(), target: "reconnect", Level::Info, $($words)+)
    };
}

/// Maintains the database connection forever: connects, reconnects with back-off, and passes received data to
/// the switch.
pub async fn run(shared: Shared, target: Target) {
    let wake = Rc::clone(&shared.borrow().database_wake);
    loop {
        wait_for_turn(&shared).await;
        let tls = shared.borrow().tls().clone();
        match Stream::connect(&target, &tls).await {
            Ok(stream) => {
                log_end!("{target}: connected");
                shared.borrow_mut().database_event(|session| session.connected(clock::now()));
                let why = converse(&shared, stream, &wake).await;
                log_end!("{target}: connection dropped ({why})");
            }
            Err(error) => {
                log_end!("{target}: connection attempt failed ({error})");
            }
        }
        shared.borrow_mut().database_event(|session| session.disconnected(clock::now()));
    }
}

/// Waits until the session's back-off permits another attempt.
async fn wait_for_turn(shared: &Shared) {
    loop {
        let at = shared.borrow().database_connect_at();
        let wait = at.map_or(TURN, |at| at - clock::now());
        if wait.is_zero() {
            return;
        }
        tokio::time::sleep(wait.min(TURN)).await;
        shared.borrow_mut().database_event(|session| session.tick(clock::now()));
    }
}

/// Reads and writes until the connection ends. Returns why it did.
async fn converse(shared: &Shared, stream: Stream, wake: &tokio::sync::Notify) -> String {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut buffer = vec![0; READ_BYTES];
    let mut outgoing = Outgoing::default();
    loop {
        outgoing.push(shared.borrow_mut().database_output());
        let timeout = shared.borrow().database_timeout();
        let wait = timeout.map_or(TURN, |at| at - clock::now()).min(TURN);
        tokio::select! {
            read = reader.read(&mut buffer), if outgoing.len() <= OUTPUT_LIMIT => match read {
                Ok(0) => return "closed by the server".to_owned(),
                Ok(n) => shared
                    .borrow_mut()
                    .database_event(|session| session.receive(clock::now(), &buffer[..n])),
                Err(error) => return error.to_string(),
            },
            written = outgoing.advance(&mut writer) => if let Err(error) = written {
                return error.to_string();
            },
            () = wake.notified() => {}
            () = tokio::time::sleep(wait) => {
                shared.borrow_mut().database_event(|session| session.tick(clock::now()));
            }
        }
        if let Some(why) = shared.borrow_mut().take_database_failure() {
            return why;
        }
    }
}
