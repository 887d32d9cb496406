//! Classic pcap files (draft-ietf-opsawg-pcap): played by a receive queue, recorded by a transmit queue.

use crate::offload;
use crate::queue::{PortError, RxQueue, TxCounters, TxQueue};
use base::limits::FRAME_BYTES;
use packet::{Batch, Pool};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::fd::RawFd;
use std::path::Path;
use std::time::Duration;

const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
const MAGIC_PCAPNG: u32 = 0x0a0d_0d0a;
const LINKTYPE_ETHERNET: u32 = 1;
/// Maximum size of a pcap file.
const CAPTURE_BYTES: u64 = 4 << 30;

/// The Ethernet frames of a pcap file, read and checked completely, so that playing cannot fail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capture {
    bytes: Vec<u8>,
    frames: Vec<(Duration, Range<usize>)>,
}

impl Capture {
    /// Reads a file: micro- or nanosecond times, either byte order, Ethernet only. It uses as much memory as
    /// the file has bytes.
    pub fn open(path: &Path) -> Result<Capture, PortError> {
        let device = path.display().to_string();
        let failed = |source| PortError::System {
            device: device.clone(),
            what: "read the pcap file",
            source,
        };
        let invalid = |reason| PortError::Invalid { device: device.clone(), reason };
        let file = File::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        (&file).take(FILE_HEADER_BYTES as u64).read_to_end(&mut bytes).map_err(failed)?;
        // A device may be endless, but does not begin with this magic number.
        if bytes.len() == FILE_HEADER_BYTES {
            ByteOrder::of(&bytes).map_err(invalid)?;
        }
        file.take(CAPTURE_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 >= CAPTURE_BYTES {
            return Err(invalid(format!("has no end within {CAPTURE_BYTES} bytes")));
        }
        Capture::parse(bytes).map_err(invalid)
    }

    /// Parses a file's contents. The error names the invalid record.
    pub fn parse(bytes: Vec<u8>) -> Result<Capture, String> {
        let header = bytes.get(..FILE_HEADER_BYTES).ok_or_else(|| {
            format!("not a pcap file: {} bytes, the file header alone has 24", bytes.len())
        })?;
        let order = ByteOrder::of(header)?;
        let linktype = order.u32(header, 20) & 0x0fff_ffff;
        if linktype != LINKTYPE_ETHERNET {
            return Err(format!(
                "link type {linktype} is not Ethernet (1); capture on an Ethernet interface"
            ));
        }
        let mut frames = Vec::new();
        let mut at = FILE_HEADER_BYTES;
        while at < bytes.len() {
            let number = frames.len() + 1;
            let record = bytes.get(at..at + RECORD_HEADER_BYTES).ok_or_else(|| {
                format!("record {number} at byte {at}: the file ends inside the record's header")
            })?;
            let seconds = u64::from(order.u32(record, 0));
            let fraction = u64::from(order.u32(record, 4));
            let captured = order.u32(record, 8) as usize;
            if captured > FRAME_BYTES {
                return Err(format!(
                    "record {number} at byte {at}: says it has {captured} bytes, \
                     frames have at most {FRAME_BYTES}"
                ));
            }
            let data = at + RECORD_HEADER_BYTES..at + RECORD_HEADER_BYTES + captured;
            if data.end > bytes.len() {
                return Err(format!(
                    "record {number} at byte {at}: says it has {captured} bytes, \
                     the file has {} more",
                    bytes.len() - data.start
                ));
            }
            let nanos = if order.nanos { fraction } else { fraction * 1000 };
            at = data.end;
            frames.push((Duration::from_secs(seconds) + Duration::from_nanos(nanos), data));
        }
        Ok(Capture { bytes, frames })
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the frames from index `first` on.
    fn frames_from(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        let frames = self.frames.get(first..).unwrap_or_default().iter();
        frames.map(|(_, range)| self.bytes.get(range.clone()).unwrap_or_default())
    }

    /// Returns the frame at `index` and its time since the Unix epoch.
    pub fn frame(&self, index: usize) -> Option<(Duration, &[u8])> {
        let (time, range) = self.frames.get(index)?;
        Some((*time, self.bytes.get(range.clone())?))
    }
}

/// The byte order and time unit given by the magic number.
struct ByteOrder {
    big: bool,
    nanos: bool,
}

impl ByteOrder {
    fn of(header: &[u8]) -> Result<ByteOrder, String> {
        for big in [false, true] {
            match (ByteOrder { big, nanos: false }).u32(header, 0) {
                MAGIC_MICROS => return Ok(ByteOrder { big, nanos: false }),
                MAGIC_NANOS => return Ok(ByteOrder { big, nanos: true }),
                MAGIC_PCAPNG => {
                    return Err("a pcapng file; convert it with 'editcap -F pcap IN OUT'".into());
                }
                _ => {}
            }
        }
        Err("not a pcap file: the magic number is unknown".into())
    }

    /// Returns 0 if the bytes are missing; callers check the length first.
    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        let mut octets = [0; 4];
        if let Some(source) = bytes.get(at..at + 4) {
            octets.copy_from_slice(source);
        }
        if self.big { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) }
    }
}

/// How often a file is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Play {
    /// Once.
    Once,
    /// This many times.
    Rounds(u64),
    /// Endlessly.
    Loop,
}

/// A receive queue of a file's frames, all available at once: times in the file are ignored.
#[derive(Debug)]
pub struct PcapRx {
    capture: Capture,
    play: Play,
    next: usize,
    /// Completed rounds.
    rounds: u64,
}

impl PcapRx {
    /// Reads the file and prepares to play it.
    pub fn open(path: &Path, play: Play) -> Result<PcapRx, PortError> {
        Ok(PcapRx::new(Capture::open(path)?, play))
    }

    /// Plays a capture.
    pub fn new(capture: Capture, play: Play) -> PcapRx {
        PcapRx { capture, play, next: 0, rounds: 0 }
    }

    /// Returns whether the last frame was received.
    pub fn is_over(&self) -> bool {
        let is_last_round = match self.play {
            Play::Once => true,
            Play::Rounds(rounds) => self.rounds + 1 >= rounds,
            Play::Loop => false,
        };
        let is_nothing = self.play == Play::Rounds(0) || self.capture.is_empty();
        is_nothing || (is_last_round && self.next >= self.capture.len())
    }

    /// Returns the current round (from 0) and the capture time of its next frame, relative to the first
    /// frame; `None` after the last round.
    pub fn next_frame(&self) -> Option<(u64, Duration)> {
        if self.is_over() {
            return None;
        }
        let (round, index) = match self.next >= self.capture.len() {
            true => (self.rounds + 1, 0),
            false => (self.rounds, self.next),
        };
        let (first, at) = (self.capture.frame(0)?.0, self.capture.frame(index)?.0);
        Some((round, at.saturating_sub(first)))
    }

    /// Receives one frame into the batch, which is not full.
    pub(crate) fn receive_one(&mut self, pool: &mut Pool, batch: &mut Batch) {
        if self.is_over() {
            return;
        }
        if self.next >= self.capture.len() {
            self.next = 0;
            self.rounds += 1;
        }
        let Some((_, frame)) = self.capture.frame(self.next) else { return };
        self.next += 1;
        let mut packet = pool.take();
        packet.receive_copy(frame);
        batch.push(packet);
    }
}

impl RxQueue for PcapRx {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        while !batch.is_full() && !self.is_over() {
            if self.next >= self.capture.len() {
                self.next = 0;
                self.rounds += 1;
            }
            let count = batch.remaining_capacity();
            for frame in self.capture.frames_from(self.next).take(count) {
                let mut packet = pool.take();
                packet.receive_copy(frame);
                batch.push(packet);
                self.next += 1;
            }
        }
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        None
    }

    fn quiet_for(&self) -> Duration {
        if self.is_over() { Duration::MAX } else { Duration::ZERO }
    }
}

/// A transmit queue that records packets, with complete checksums and large frames segmented.
pub struct PcapTx<W: Write + Send> {
    file: BufWriter<W>,
    clock: Box<dyn FnMut() -> Duration + Send>,
}

impl PcapTx<File> {
    /// Creates the file, or truncates an existing one that is a pcap file or empty: the name comes from the
    /// database, and no other file may be overwritten. `clock` returns the time since the Unix epoch.
    ///
    /// # Errors
    /// The file has another format, or cannot be written.
    pub fn create(
        path: &Path,
        clock: impl FnMut() -> Duration + Send + 'static,
    ) -> Result<Self, PortError> {
        replace(path).and_then(|file| PcapTx::new(file, clock)).map_err(|source| {
            PortError::System {
                device: path.display().to_string(),
                what: "create the pcap file",
                source,
            }
        })
    }
}

/// Opens a file for writing from its beginning. An existing file must be empty or a pcap file.
fn replace(path: &Path) -> io::Result<File> {
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    let mut magic = Vec::new();
    if file.metadata()?.is_file() {
        (&mut file).take(4).read_to_end(&mut magic)?;
    }
    let is_pcap = <[u8; 4]>::try_from(magic.as_slice()).is_ok_and(|magic| {
        let magic = [u32::from_le_bytes(magic), u32::from_be_bytes(magic)];
        magic.iter().any(|magic| matches!(*magic, MAGIC_NANOS | MAGIC_MICROS))
    });
    if !magic.is_empty() && !is_pcap {
        let text = "it is there already and is not a pcap file; name another or remove it";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    if file.metadata()?.is_file() {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
    }
    Ok(file)
}

impl<W: Write + Send> PcapTx<W> {
    /// Records into `file`, with nanosecond times from `clock`, which returns the time since the Unix epoch.
    /// Every batch is flushed, so that other programs can follow.
    pub fn new(file: W, clock: impl FnMut() -> Duration + Send + 'static) -> io::Result<PcapTx<W>> {
        let mut file = BufWriter::with_capacity(1 << 17, file);
        let mut header = [0; FILE_HEADER_BYTES];
        header[..4].copy_from_slice(&MAGIC_NANOS.to_le_bytes());
        header[4] = 2;
        header[6] = 4;
        header[16..20].copy_from_slice(&(FRAME_BYTES as u32).to_le_bytes());
        header[20..].copy_from_slice(&LINKTYPE_ETHERNET.to_le_bytes());
        file.write_all(&header)?;
        file.flush()?;
        Ok(PcapTx { file, clock: Box::new(clock) })
    }

    /// Continues recording in a file that has its header.
    pub fn more(file: W, clock: impl FnMut() -> Duration + Send + 'static) -> PcapTx<W> {
        PcapTx { file: BufWriter::with_capacity(1 << 17, file), clock: Box::new(clock) }
    }

    /// Writes one frame with the current time and flushes it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn record_now(&mut self, frame: &[u8]) -> io::Result<()> {
        let now = (self.clock)();
        self.record(now, frame)?;
        self.file.flush()
    }

    /// Writes one frame that needs no offload.
    pub fn record(&mut self, time: Duration, frame: &[u8]) -> io::Result<()> {
        let mut header = [0; RECORD_HEADER_BYTES];
        let len = frame.len() as u32;
        // Seconds have 32 bits in this format (until 2106).
        header[..4].copy_from_slice(&(time.as_secs() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&time.subsec_nanos().to_le_bytes());
        header[8..12].copy_from_slice(&len.to_le_bytes());
        header[12..].copy_from_slice(&len.to_le_bytes());
        self.file.write_all(&header)?;
        self.file.write_all(frame)
    }
}

impl<W: Write + Send> TxQueue for PcapTx<W> {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut counters = TxCounters::default();
        let now = (self.clock)();
        let mut ready = Vec::with_capacity(batch.len());
        for packet in batch.drain(..) {
            if !offload::finish(packet, pool, |packet| ready.push(packet)) {
                counters.errors += 1;
            }
        }
        for packet in ready {
            match self.record(now, packet.data()) {
                Ok(()) => {
                    counters.packets += 1;
                    counters.bytes += packet.len() as u64;
                }
                Err(_) => counters.errors += 1,
            }
            pool.give(packet);
        }
        // A failure (a full disk) recurs at the next record, where it is counted.
        let _ = self.file.flush();
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Checksum, Packet};

    /// A file as another program would write it.
    fn file(big: bool, magic: u32, records: &[(u32, u32, &[u8])]) -> Vec<u8> {
        let word = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
        let half = |v: u16| if big { v.to_be_bytes() } else { v.to_le_bytes() };
        let mut out = Vec::new();
        out.extend(word(magic));
        out.extend([half(2), half(4)].concat());
        out.extend([word(0), word(0), word(65535), word(1)].concat());
        for (seconds, fraction, frame) in records {
            let len = frame.len() as u32;
            out.extend([word(*seconds), word(*fraction), word(len), word(len)].concat());
            out.extend(*frame);
        }
        out
    }

    #[test]
    fn every_flavour_is_read() {
        let records: &[(u32, u32, &[u8])] = &[(5, 7, &[1; 60]), (6, 8, &[2; 70])];
        for big in [false, true] {
            for (magic, nanos) in [(MAGIC_MICROS, 7000), (MAGIC_NANOS, 7)] {
                let capture = Capture::parse(file(big, magic, records)).unwrap();
                assert_eq!(capture.len(), 2);
                assert_eq!(capture.frame(0), Some((Duration::new(5, nanos), &[1u8; 60][..])));
                assert_eq!(capture.frame(1).unwrap().1, [2; 70]);
                assert_eq!(capture.frame(2), None);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let good = file(false, MAGIC_MICROS, &[(0, 0, &[1; 60]), (0, 0, &[2; 60])]);
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        let cases: [(Vec<u8>, &str); 8] = [
            (vec![], "not a pcap file: 0 bytes"),
            (good[..23].to_vec(), "not a pcap file: 23 bytes"),
            (changed(0, 0), "the magic number is unknown"),
            (changed(20, 113), "link type 113 is not Ethernet"),
            (good[..110].to_vec(), "record 2 at byte 100: the file ends inside"),
            (good[..170].to_vec(), "record 2 at byte 100: says it has 60 bytes, the file has 54"),
            (changed(34, 2), "record 1 at byte 24: says it has 131132 bytes, frames have at most"),
            ([&[0x0a, 0x0d, 0x0d, 0x0a][..], &[0; 40]].concat(), "pcapng"),
        ];
        for (bytes, expect) in cases {
            let said = Capture::parse(bytes).unwrap_err();
            assert!(said.contains(expect), "{said:?} lacks {expect:?}");
        }
        let missing = PcapRx::open(Path::new("/nonexistent/x.pcap"), Play::Once).unwrap_err();
        assert!(missing.to_string().starts_with("/nonexistent/x.pcap: could not read"));
        // A truncated file is an error or has fewer records; parsing never panics.
        for len in 0..good.len() {
            if let Ok(capture) = Capture::parse(good[..len].to_vec()) {
                assert!(capture.len() < 2);
            }
        }
    }

    #[test]
    fn what_was_recorded_plays_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.pcap");
        let mut pool = Pool::new(8);
        let mut ticks = 0;
        let mut tx = PcapTx::create(&path, move || {
            ticks += 1;
            Duration::new(1_700_000_000, ticks)
        })
        .unwrap();
        let mut batch = Batch::new();
        batch.push(Packet::from_bytes(&[1; 60]));
        // UDP of zeros.
        let mut zeros = [0; 60];
        zeros[12..18].copy_from_slice(&[0x08, 0, 0x45, 0, 0, 46]);
        zeros[14 + 9] = 17;
        let mut partial = Packet::from_bytes(&zeros);
        partial.offload.checksum = Checksum::Partial;
        batch.push(partial);
        let sent = tx.send(&mut pool, &mut batch);
        assert_eq!((sent.packets, sent.bytes, sent.errors), (2, 120, 0));

        let capture = Capture::open(&path).unwrap();
        assert_eq!(capture.frame(0), Some((Duration::new(1_700_000_000, 1), &[1u8; 60][..])));
        assert_eq!(capture.frame(1).unwrap().1[40..42], [0xff, 0xff], "the checksum was finished");

        let mut once = PcapRx::open(&path, Play::Once).unwrap();
        once.receive(&mut pool, &mut batch).unwrap();
        assert_eq!(batch.len(), 2);
        assert!(once.is_over());
        let mut looped = PcapRx::new(capture, Play::Loop);
        batch.clear();
        looped.receive(&mut pool, &mut batch).unwrap();
        assert_eq!(batch.len(), 32);
        assert_eq!(batch[30].data(), [1; 60]);
        let mut empty =
            PcapRx::new(Capture::parse(file(true, MAGIC_NANOS, &[])).unwrap(), Play::Loop);
        batch.clear();
        empty.receive(&mut pool, &mut batch).unwrap();
        assert!(batch.is_empty() && empty.is_over());
    }

    #[test]
    fn only_recordings_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let create = |path: &Path| PcapTx::create(path, || Duration::ZERO).map(|_| ());
        for (there, is_replaced) in [
            (&b""[..], true),
            (&MAGIC_MICROS.to_be_bytes(), true),
            (&MAGIC_NANOS.to_le_bytes(), true),
            (b"root:x:0:0", false),
            (b"ab", false),
        ] {
            std::fs::write(&path, there).unwrap();
            assert_eq!(create(&path).is_ok(), is_replaced, "{there:?}");
            let now = std::fs::read(&path).unwrap();
            assert_eq!(now.len() == FILE_HEADER_BYTES, is_replaced, "{there:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(create(&path).is_ok());
    }

    #[test]
    fn a_device_without_an_end_is_refused_by_its_first_bytes() {
        let error = Capture::open(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("/dev/zero") && error.contains("magic number"), "{error}");
    }
}
