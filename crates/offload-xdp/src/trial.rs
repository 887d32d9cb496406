//! Runs the program on a single frame without a device, for tests (bpf(2), `BPF_PROG_TEST_RUN`).

use crate::device::XdpOffload;
use base::PortNo;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

// Linux: include/uapi/linux/bpf.h.
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const XDP_REDIRECT: u32 = 4;
/// The maximum growth of a frame, by a tag and outer headers.
const GROWS_BY: usize = 96;

/// The attribute of the system call.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    verdict: u32,
    bytes_in: u32,
    bytes_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_bytes_in: u32,
    context_bytes_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    _padding: u32,
}

impl XdpOffload {
    /// Runs the program on a frame from a port. Returns whether it forwards the frame, and the resulting
    /// bytes. The frame counts in the traffic of rules.
    ///
    /// # Errors
    /// The port is unknown, or the kernel does not run the program.
    pub fn try_frame(&mut self, port: PortNo, frame: &[u8]) -> io::Result<(bool, Vec<u8>)> {
        let (verdict, out) = self.verdict(port, frame)?;
        Ok((verdict == XDP_REDIRECT, out))
    }

    /// Returns the program's verdict on a frame and the resulting bytes.
    pub(crate) fn verdict(&mut self, port: PortNo, frame: &[u8]) -> io::Result<(u32, Vec<u8>)> {
        let ifindex = self.ifindex(port).ok_or(io::ErrorKind::NotFound)?;
        let program = self.program().xdp().map_err(io::Error::other)?.fd();
        let program = program.map_err(io::Error::other)?.as_fd().as_raw_fd();
        // Of `struct xdp_md`, the kernel reads the end of the data and the receiving device.
        let context: [u32; 6] = [0, frame.len() as u32, 0, ifindex, 0, 0];
        let mut out = vec![0; frame.len() + GROWS_BY];
        let mut attribute = TestRun {
            program: program as u32,
            bytes_in: frame.len() as u32,
            bytes_out: out.len() as u32,
            data_in: frame.as_ptr() as u64,
            data_out: out.as_mut_ptr() as u64,
            repeat: 1,
            context_bytes_in: size_of_val(&context) as u32,
            context_in: context.as_ptr() as u64,
            ..TestRun::default()
        };
        let bytes = std::mem::offset_of!(TestRun, _padding);
        // SAFETY: the addresses and sizes are those of locals that live until the call returns. The kernel
        // writes at most `bytes_out` bytes to `out`, and into the attribute.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, &raw mut attribute, bytes) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        out.truncate(attribute.bytes_out as usize);
        Ok((attribute.verdict, out))
    }
}
