//! The XDP program, its map, and the link that attaches it to a device (bpf(2)).

use crate::failure::{Step, describe, patiently};
use crate::options::XdpMode;
use port::PortError;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// Linux: include/uapi/linux/bpf.h.
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
/// Offset of the receive queue's number in `struct xdp_md`.
const XDP_MD_RX_QUEUE_INDEX: i16 = 16;
// Linux: include/uapi/linux/if_link.h.
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
/// Most queues in the map; frames of queues without a socket go to the kernel.
const MAP_ENTRIES: u32 = 256;

/// The program on a device. It is detached when this is dropped, or when the process ends.
#[derive(Debug)]
pub(crate) struct Program {
    map: OwnedFd,
    _link: OwnedFd,
}

/// One instruction (`struct bpf_insn`): code, registers, offset, immediate value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

impl Instruction {
    const fn new(code: u8, registers: u8, offset: i16, value: i32) -> Self {
        Instruction { code, registers, offset, value }
    }
}

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS)`: the frame goes to its queue's socket, or
/// to the kernel if the queue has none.
fn instructions(map: BorrowedFd<'_>) -> [Instruction; 6] {
    const LOAD_WORD: u8 = 0x61;
    const LOAD_DOUBLE: u8 = 0x18;
    const MOVE: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    /// The source register that marks a load's immediate value as a map's descriptor.
    const MAP_FD: u8 = 1 << 4;
    [
        // r2 = *(u32 *)(r1 + 16)
        Instruction::new(LOAD_WORD, 1 << 4 | 2, XDP_MD_RX_QUEUE_INDEX, 0),
        // r1 = the map, in two slots
        Instruction::new(LOAD_DOUBLE, MAP_FD | 1, 0, map.as_raw_fd()),
        Instruction::new(0, 0, 0, 0),
        // r3 = XDP_PASS
        Instruction::new(MOVE, 3, 0, XDP_PASS),
        Instruction::new(CALL, 0, 0, BPF_FUNC_REDIRECT_MAP),
        Instruction::new(EXIT, 0, 0, 0),
    ]
}

impl Program {
    /// Loads the program and attaches it to a device. If `waits`, it waits for a busy device.
    pub(crate) fn attach(
        device: &str,
        ifindex: u32,
        mode: XdpMode,
        waits: bool,
    ) -> Result<Self, PortError> {
        let failed = |step| move |source| describe(device, step, source);
        let map = create_map().map_err(failed(Step::Load))?;
        let program = load(&map).map_err(failed(Step::Load))?;
        let link = patiently(waits, || create_link(&program, ifindex, mode))
            .map_err(failed(Step::Attach(mode)))?;
        Ok(Program { map, _link: link })
    }

    /// Directs a queue's frames to a bound socket.
    pub(crate) fn serve(&self, queue: u16, socket: BorrowedFd<'_>) -> io::Result<()> {
        #[repr(C)]
        struct Update {
            map: u32,
            _padding: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let (key, value) = (u32::from(queue), socket.as_raw_fd() as u32);
        let update = Update {
            map: self.map.as_raw_fd() as u32,
            _padding: 0,
            key: (&raw const key) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: the two addresses are those of locals with the map's key and value sizes, four bytes each,
        // which live until the call returns; the kernel only reads them.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &update) }.map(drop)
    }
}

fn create_map() -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        map_type: u32,
        key_bytes: u32,
        value_bytes: u32,
        entries: u32,
        flags: u32,
    }
    let create = Create {
        map_type: BPF_MAP_TYPE_XSKMAP,
        key_bytes: 4,
        value_bytes: 4,
        entries: MAP_ENTRIES,
        flags: 0,
    };
    // SAFETY: the attribute contains no address; the returned descriptor is new.
    unsafe { bpf(BPF_MAP_CREATE, &create).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

fn load(map: &OwnedFd) -> io::Result<OwnedFd> {
    use std::os::fd::AsFd;
    #[repr(C)]
    struct Load {
        program_type: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_bytes: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
    }
    let instructions = instructions(map.as_fd());
    let load = Load {
        program_type: BPF_PROG_TYPE_XDP,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        // The kernel knows few names; a program with any other name may not call GPL-only functions, which
        // this one does not.
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    // SAFETY: the two addresses are those of `count` instructions and of a C string, which live until the
    // call returns; the kernel only reads them. The returned descriptor is new.
    unsafe { bpf(BPF_PROG_LOAD, &load).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

fn create_link(program: &OwnedFd, ifindex: u32, mode: XdpMode) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        program: u32,
        ifindex: u32,
        attach_type: u32,
        flags: u32,
    }
    let flags = match mode {
        XdpMode::NativeWithZerocopy | XdpMode::Native => XDP_FLAGS_DRV_MODE,
        XdpMode::Generic => XDP_FLAGS_SKB_MODE,
    };
    let create =
        Create { program: program.as_raw_fd() as u32, ifindex, attach_type: BPF_XDP, flags };
    // SAFETY: the attribute contains no address; the returned descriptor is new.
    unsafe { bpf(BPF_LINK_CREATE, &create).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// The bpf(2) system call.
///
/// # Safety
/// `attribute` is valid for `command`, without compiler padding, and its addresses are valid for what the
/// command reads.
unsafe fn bpf<T>(command: libc::c_int, attribute: &T) -> io::Result<i32> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes from a reference that lives until the call returns,
    // takes the rest as zero, and the caller guarantees that the contents are valid.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attribute), size_of::<T>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}
