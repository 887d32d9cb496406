//! The rules, and the packet files that ports play.

use super::{ESTABLISHED, FlowSetupArgs, NEW, NEW_SINK, OLD, OLD_SINK};
use crate::BenchError;
use crate::packets::{self, TEMPLATE};
use port::pcap::PcapTx;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testbed::namespaces::FOLDER;

/// The files.
pub struct Files {
    pub new: PathBuf,
    pub old: PathBuf,
    pub rules: PathBuf,
    /// The same rules, but packets that need a flow return to their port.
    pub echo_rules: PathBuf,
}

impl Files {
    /// Writes them.
    pub fn write(args: &FlowSetupArgs) -> Result<Files, BenchError> {
        let folder = Path::new(FOLDER);
        let files = Files {
            new: folder.join("new.pcap"),
            old: folder.join("old.pcap"),
            rules: folder.join("flow-setup.rules"),
            echo_rules: folder.join("flow-setup-echo.rules"),
        };
        play(&files.new, 0..args.flows, args.rate)?;
        let last = args.flows + ESTABLISHED;
        play(&files.old, args.flows..last, Some(args.established_rate))?;
        for (file, to) in
            [(&files.rules, NEW_SINK.to_string()), (&files.echo_rules, "in_port".into())]
        {
            std::fs::write(file, rules(&to))
                .map_err(|source| BenchError::WriteFile { file: file.clone(), source })?;
        }
        Ok(files)
    }
}

/// Twenty rules, two of which need a flow per packet; new packets go to this port.
fn rules(new_to: &str) -> String {
    let exact = |from: u16, to: &str| {
        format!(
            "priority=200,udp,in_port={from},actions=move:NXM_OF_IP_SRC[]->NXM_NX_REG0[],\
             move:NXM_OF_UDP_SRC[]->NXM_NX_REG1[0..15],output:{to}\n"
        )
    };
    let others =
        (0..18).map(|n| format!("priority={},tcp,tp_dst={},actions=drop\n", 100 + n, 8000 + n));
    [exact(NEW, new_to), exact(OLD, &OLD_SINK.to_string())].into_iter().chain(others).collect()
}

/// Writes a file of 60-byte packets, one per connection, at a rate.
fn play(
    path: &Path,
    connections: std::ops::Range<u32>,
    rate: Option<u32>,
) -> Result<(), BenchError> {
    let failed = |source| BenchError::WriteFile { file: path.to_owned(), source };
    let mut file =
        File::create(path).and_then(|file| PcapTx::new(file, || Duration::ZERO)).map_err(failed)?;
    let mut frame = [0; 60];
    frame[..TEMPLATE.len()].copy_from_slice(&TEMPLATE);
    for (at, number) in connections.enumerate() {
        packets::set_connection(&mut frame, number);
        let ns = rate.map_or(0, |rate| at as u64 * 1_000_000_000 / u64::from(rate));
        file.record(Duration::from_nanos(ns), &frame).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::pcap::Capture;

    #[test]
    fn each_packet_is_of_a_connection_of_its_own_and_paced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pcap");
        play(&path, 32_760..32_780, Some(1_000_000)).unwrap();
        let capture = Capture::open(&path).unwrap();
        let frames: std::collections::HashSet<_> =
            (0..20).map(|n| capture.frame(n).unwrap().1.to_vec()).collect();
        assert_eq!((capture.len(), frames.len()), (20, 20));
        assert_eq!(capture.frame(3).unwrap().0, Duration::from_micros(3));
        assert_eq!(rules("2").lines().count(), 20);
    }
}
