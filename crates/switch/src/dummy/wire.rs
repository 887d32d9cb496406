//! Connections between dummy ports over sockets, perhaps of several switches: one listens
//! (`options:pstream`), others connect to it (`options:stream`). Each frame is preceded by its length in two
//! bytes (ovs: `lib/netdev-dummy.c`, `dummy_packet_stream_run`).

use crate::stream::{Admission, Listener, Stream, Target, TlsSettings};
use port_dummy::{DummyPort, Wire};
use std::io;
use std::ops::Deref;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::{AbortHandle, JoinSet};

/// Most frames that wait to be written to one connection; further ones are dropped.
const WAITING_MAX: usize = 100;
/// Minimum frame length: an Ethernet header.
const FRAME_BYTES_MIN: usize = 14;
/// The first wait between two connection attempts; it doubles up to the maximum.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// The wait after a failed accept: the process is out of descriptors for some time.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A dummy port with its connections.
pub struct Connected {
    port: DummyPort,
    /// Ends with the port.
    _connections: Option<Connections>,
}

impl Connected {
    /// Connects a port according to its options. A listening socket exists on return.
    pub fn new(name: &str, port: DummyPort) -> Self {
        let _connections = connect(name, &port);
        Connected { port, _connections }
    }
}

impl Deref for Connected {
    type Target = DummyPort;

    fn deref(&self) -> &DummyPort {
        &self.port
    }
}

/// The connections of a port, which end with this.
struct Connections(AbortHandle);

impl Drop for Connections {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn connect(name: &str, port: &DummyPort) -> Option<Connections> {
    let text = match &port.options().wire {
        Wire::None => return None,
        Wire::Both => {
            log::warn!(
                target: "netdev_dummy",
                "{name}: options:pstream and options:stream exclude each other; neither has an effect"
            );
            return None;
        }
        Wire::Listens(text) | Wire::Connects(text) => text,
    };
    let target = match Target::parse(text, 0) {
        Ok(target) => target,
        Err(error) => {
            log::warn!(target: "netdev_dummy", "{name}: {error}");
            return None;
        }
    };
    let port = port.clone();
    if matches!(port.options().wire, Wire::Connects(_)) {
        let task = tokio::task::spawn_local(keep_connected(port, target));
        return Some(Connections(task.abort_handle()));
    }
    match Listener::bind(&target, &TlsSettings::default()) {
        Ok(listener) => {
            let task = tokio::task::spawn_local(accept(port, listener));
            Some(Connections(task.abort_handle()))
        }
        Err(error) => {
            log::warn!(target: "netdev_dummy", "{text}: open failed ({})", base::reason(&error));
            None
        }
    }
}

async fn accept(port: DummyPort, listener: Listener) {
    // The connections end with this task.
    let mut connections = JoinSet::new();
    let (admission, tls) = (Admission::default(), TlsSettings::default());
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok(incoming) => {
                if let Ok(stream) = incoming.finish(&admission, &tls).await {
                    connections.spawn_local(serve(port.clone(), stream));
                }
            }
            Err(error) => {
                vlog::limited!(
                    (5, 5), clock::now(), target: "netdev_dummy", log::Level::Warn,
                    "cannot accept: {error}"
                );
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn keep_connected(port: DummyPort, target: Target) {
    let mut wait = BACKOFF_MIN;
    loop {
        if let Ok(stream) = Stream::connect(&target, &TlsSettings::default()).await {
            port.set_connected(true);
            wait = BACKOFF_MIN;
            serve(port.clone(), stream).await;
            port.set_connected(false);
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(BACKOFF_MAX);
    }
}

/// Carries frames in both directions, until the peer closes the connection or sends an invalid frame.
async fn serve<S: AsyncRead + AsyncWrite>(port: DummyPort, stream: S) {
    let (sender, sent) = mpsc::channel(WAITING_MAX);
    port.attach(Box::new(move |frame| {
        !matches!(sender.try_send(frame.to_vec()), Err(TrySendError::Closed(_)))
    }));
    let (reader, writer) = tokio::io::split(stream);
    let ended = tokio::select! {
        ended = read(&port, reader) => ended,
        ended = write(writer, sent) => ended,
    };
    if let Err(error) = ended {
        log::debug!(target: "netdev_dummy", "closing connection ({error})");
    }
}

async fn read(port: &DummyPort, mut reader: impl AsyncRead + Unpin) -> io::Result<()> {
    loop {
        let bytes = usize::from(reader.read_u16().await?);
        if bytes < FRAME_BYTES_MIN {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too short"));
        }
        let mut frame = vec![0; bytes];
        reader.read_exact(&mut frame).await?;
        // A full queue drops the frame, as a device's does.
        let _ = port.receive(0, frame);
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut sent: Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(frame) = sent.recv().await {
        let Ok(bytes) = u16::try_from(frame.len()) else { continue };
        writer.write_u16(bytes).await?;
        writer.write_all(&frame).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Batch, Pool};
    use port::{RxQueue, TxQueue};
    use port_dummy::DummyOptions;
    use tokio::task::LocalSet;

    fn open(name: &str, option: &str, target: &str) -> DummyPort {
        let options = [(option.to_owned(), target.to_owned())].into();
        DummyPort::open(name, DummyOptions::parse(&options, false), || Duration::ZERO).unwrap()
    }

    /// Sends a frame from a port.
    fn send(port: &DummyPort, first: u8) {
        let (mut pool, mut batch) = (Pool::new(1), Batch::new());
        let mut packet = pool.take();
        packet.receive_copy(&[first; 60]);
        batch.push(packet);
        assert_eq!(port.tx().send(&mut pool, &mut batch).packets, 1);
    }

    /// Returns the first byte of the next frame received.
    async fn received(port: &DummyPort) -> u8 {
        let (mut pool, mut batch) = (Pool::new(1), Batch::new());
        loop {
            port.rx()[0].receive(&mut pool, &mut batch).unwrap();
            if let Some(packet) = batch.first() {
                return packet.data()[0];
            }
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn frames_go_both_ways_and_a_port_connects_again() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("p1.sock");
        let (passive, active) =
            (format!("punix:{}", socket.display()), format!("unix:{}", socket.display()));
        let (p1, p2) = (open("p1", "pstream", &passive), open("p2", "stream", &active));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let connects = connect("p2", &p2);
            assert!(connects.is_some() && p2.is_connected() == Some(false));
            for round in 0..2 {
                // The port that connects waits for the other one, also after that was gone.
                let listens = connect("p1", &p1);
                assert!(listens.is_some());
                while p2.is_connected() != Some(true) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                send(&p2, 2 + round);
                assert_eq!(received(&p1).await, 2 + round);
                send(&p1, 8 + round);
                assert_eq!(received(&p2).await, 8 + round);
                drop(listens);
                while p2.is_connected() != Some(false) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
    }

    #[test]
    fn a_length_that_no_frame_has_ends_the_connection() {
        let port = open("p1", "pcap", "/dev/null");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (bytes, kind) in [
            (&[0, 13, 1][..], io::ErrorKind::InvalidData),
            (&[0, 60, 1], io::ErrorKind::UnexpectedEof),
        ] {
            let ended = runtime.block_on(read(&port, bytes)).unwrap_err();
            assert_eq!(ended.kind(), kind, "{bytes:?}");
        }
    }
}
