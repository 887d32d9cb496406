//! How long packets of other zones wait in a whole switch: the times between those of them that it records.

use crate::BenchError;
use std::path::Path;
use std::time::Duration;

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
/// The magic number of files with times in nanoseconds, in this machine's byte order; others have microseconds.
const NANOSECONDS: u32 = 0xa1b2_3c4d;

/// Times since the Unix epoch at which a switch recorded packets. A record that the switch did not finish is left
/// out.
pub fn recorded(file: &Path) -> Result<Vec<Duration>, BenchError> {
    let read = std::fs::read(file);
    let bytes = read.map_err(|source| BenchError::ReadFile { file: file.to_owned(), source })?;
    Ok(times(&bytes))
}

fn times(bytes: &[u8]) -> Vec<Duration> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
        bytes.map(u32::from_ne_bytes)
    };
    let unit = if word(0) == Some(NANOSECONDS) { 1 } else { 1000 };
    let (mut times, mut at) = (Vec::new(), FILE_HEADER);
    while let [Some(seconds), Some(part), Some(len), Some(_)] = [0, 4, 8, 12].map(|n| word(at + n))
    {
        times.push(Duration::new(seconds.into(), part.saturating_mul(unit)));
        at += RECORD_HEADER + len as usize;
    }
    times
}

/// The waits from one packet to the next in a time, in microseconds.
pub fn between(times: &[Duration], begun: Duration, ended: Duration) -> Vec<f64> {
    let within: Vec<&Duration> = times.iter().filter(|at| (begun..=ended).contains(*at)).collect();
    // A clock that is set back makes no wait negative.
    let wait = |pair: &[&Duration]| pair[1].saturating_sub(*pair[0]).as_secs_f64() * 1e6;
    within.windows(2).map(wait).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::pcap::PcapTx;

    #[test]
    fn waits_are_between_the_records_of_a_time() {
        let mut file = Vec::new();
        let mut pcap = PcapTx::new(&mut file, || Duration::ZERO).unwrap();
        let at = |us: u64| Duration::from_secs(7) + Duration::from_micros(us);
        for us in [1, 5, 15, 16, 90] {
            pcap.record(at(us), &[us as u8; 60]).unwrap();
        }
        drop(pcap);
        let all = times(&file);
        assert_eq!(all, [1, 5, 15, 16, 90].map(at));
        assert_eq!(between(&all, at(5), at(20)), [10.0, 1.0]);
        assert_eq!(between(&all, at(17), at(20)), [0.0; 0]);
        // The last record's header is not whole.
        assert_eq!(times(&file[..file.len() - 61]).len(), 4);
        file[..4].copy_from_slice(&0xa1b2_c3d4u32.to_ne_bytes());
        assert_eq!(times(&file)[0].subsec_nanos() % 1000, 0);
        assert_eq!(times(&[]), []);
    }
}
