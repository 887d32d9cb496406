//! The messages of the front-end: from bytes to types, and replies to bytes (QEMU: `docs/interop/vhost-user.rst`).

use crate::fault::Fault;
use crate::memory::RegionPlace;

/// Bytes of a message's header: request, flags, payload size.
pub const HEADER_BYTES: usize = 12;
/// Maximum number of regions in one table, and of descriptors with one message.
pub const TABLE_REGIONS_MAX: usize = 8;
/// Longest payload: a table of regions.
pub const PAYLOAD_MAX: usize = 8 + 32 * TABLE_REGIONS_MAX;

/// Flags of a header: the version, and that it is a reply or wants one.
const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;
/// In the number of a ring: no descriptor comes with the message.
const NO_FILE: u64 = 1 << 8;

/// The header of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The request's number.
    pub request: u32,
    /// Whether it wants to know if it succeeded.
    pub wants_reply: bool,
    /// Bytes of the payload.
    pub size: usize,
}

/// The addresses of a ring, in the front-end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingAddresses {
    /// The descriptors.
    pub table: u64,
    /// What the guest writes.
    pub driver: u64,
    /// What the switch writes.
    pub device: u64,
}

/// The shared memory for descriptors in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inflight {
    /// Its bytes.
    pub size: u64,
    /// Where it is in its file.
    pub offset: u64,
    /// The number of rings.
    pub rings: u16,
    /// Entries of each ring.
    pub entries: u16,
}

/// A request of the front-end.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Request {
    GetFeatures,
    SetFeatures(u64),
    SetOwner,
    ResetOwner,
    SetMemTable(Vec<RegionPlace>),
    SetLogBase { size: u64, offset: u64 },
    SetLogFd,
    SetVringNum { ring: u32, entries: u32 },
    SetVringAddr { ring: u32, addresses: RingAddresses },
    SetVringBase { ring: u32, base: u32 },
    GetVringBase { ring: u32 },
    SetVringKick { ring: u32, has_file: bool },
    SetVringCall { ring: u32, has_file: bool },
    SetVringErr { ring: u32, has_file: bool },
    GetProtocolFeatures,
    SetProtocolFeatures(u64),
    GetQueueNum,
    SetVringEnable { ring: u32, is_enabled: bool },
    SendRarp { mac: [u8; 6] },
    NetSetMtu(u64),
    GetInflight(Inflight),
    SetInflight(Inflight),
    ResetDevice,
    GetMaxMemSlots,
    AddMemRegion(RegionPlace),
    RemoveMemRegion(RegionPlace),
    SetStatus(u64),
    GetStatus,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// It is another version's, a reply, or announces more than any request has.
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Result<Header, Fault> {
        let mut fields = Fields(bytes);
        let mut field = || fields.u32().unwrap_or(0);
        let (request, flags, size) = (field(), field(), field() as usize);
        if flags & VERSION_MASK != VERSION || flags & REPLY != 0 {
            return Err(Fault::protocol(format!("request {request} has the flags {flags:#x}")));
        }
        if size > PAYLOAD_MAX {
            return Err(Fault::protocol(format!("request {request} has {size} bytes")));
        }
        Ok(Header { request, wants_reply: flags & NEED_REPLY != 0, size })
    }

    /// Returns the header of a reply.
    pub fn reply(request: u32, size: usize) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&request.to_le_bytes());
        bytes[4..8].copy_from_slice(&(VERSION | REPLY).to_le_bytes());
        bytes[8..].copy_from_slice(&(size as u32).to_le_bytes());
        bytes
    }
}

impl Request {
    /// Reads the request with this number and payload.
    ///
    /// # Errors
    /// It is unknown, was not offered, or has another length.
    pub fn read(number: u32, payload: &[u8]) -> Result<Request, Fault> {
        let mut fields = Fields(payload);
        let request = Request::read_fields(number, &mut fields);
        let wrong = || Fault::protocol(format!("request {number} has {} bytes", payload.len()));
        let request = request.ok_or_else(wrong)??;
        if fields.0.is_empty() { Ok(request) } else { Err(wrong()) }
    }

    /// A request that may bring a descriptor for a ring.
    fn of_file(number: u32, bits: u64) -> Request {
        let (ring, has_file) = (bits as u32 & 0xff, bits & NO_FILE == 0);
        match number {
            12 => Request::SetVringKick { ring, has_file },
            13 => Request::SetVringCall { ring, has_file },
            _ => Request::SetVringErr { ring, has_file },
        }
    }

    fn read_fields(number: u32, fields: &mut Fields<'_>) -> Option<Result<Request, Fault>> {
        Some(Ok(match number {
            1 => Request::GetFeatures,
            2 => Request::SetFeatures(fields.u64()?),
            3 => Request::SetOwner,
            4 => Request::ResetOwner,
            5 => {
                let count = fields.u32()? as usize;
                fields.u32()?;
                if count > TABLE_REGIONS_MAX {
                    return Some(Err(Fault::protocol(format!("a table has {count} regions"))));
                }
                Request::SetMemTable((0..count).map(|_| fields.region()).collect::<Option<_>>()?)
            }
            6 => Request::SetLogBase { size: fields.u64()?, offset: fields.u64()? },
            7 => {
                // Some front-ends send an empty number.
                fields.0 = &[];
                Request::SetLogFd
            }
            8 => Request::SetVringNum { ring: fields.u32()?, entries: fields.u32()? },
            9 => {
                let (ring, _flags) = (fields.u32()?, fields.u32()?);
                let (table, device, driver) = (fields.u64()?, fields.u64()?, fields.u64()?);
                // The last is where writes to the used ring are logged, which its memory tells, too.
                fields.u64()?;
                Request::SetVringAddr { ring, addresses: RingAddresses { table, driver, device } }
            }
            10 => Request::SetVringBase { ring: fields.u32()?, base: fields.u32()? },
            11 => {
                let ring = fields.u32()?;
                fields.u32()?;
                Request::GetVringBase { ring }
            }
            12..=14 => Request::of_file(number, fields.u64()?),
            15 => Request::GetProtocolFeatures,
            16 => Request::SetProtocolFeatures(fields.u64()?),
            17 => Request::GetQueueNum,
            18 => Request::SetVringEnable { ring: fields.u32()?, is_enabled: fields.u32()? != 0 },
            19 => {
                let [mac @ .., _, _] = fields.u64()?.to_le_bytes();
                Request::SendRarp { mac }
            }
            20 => Request::NetSetMtu(fields.u64()?),
            31 => Request::GetInflight(fields.inflight()?),
            32 => Request::SetInflight(fields.inflight()?),
            34 => Request::ResetDevice,
            36 => Request::GetMaxMemSlots,
            37 | 38 => {
                fields.u64()?;
                let region = fields.region()?;
                let is_added = number == 37;
                if is_added {
                    Request::AddMemRegion(region)
                } else {
                    Request::RemoveMemRegion(region)
                }
            }
            39 => Request::SetStatus(fields.u64()?),
            40 => Request::GetStatus,
            _ => return Some(Err(Fault::protocol(format!("request {number} is unknown")))),
        }))
    }
}

/// The fields of a payload that are not read yet, in the byte order of the machine: x86 and Arm's is the same.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn region(&mut self) -> Option<RegionPlace> {
        let (guest, length) = (self.u64()?, self.u64()?);
        Some(RegionPlace { guest, length, user: self.u64()?, offset: self.u64()? })
    }

    fn inflight(&mut self) -> Option<Inflight> {
        let (size, offset) = (self.u64()?, self.u64()?);
        let inflight = Inflight { size, offset, rings: self.u16()?, entries: self.u16()? };
        // The structure of C has padding at its end, which some front-ends send.
        if self.0.len() == 4 {
            self.0 = &[];
        }
        Some(inflight)
    }
}
