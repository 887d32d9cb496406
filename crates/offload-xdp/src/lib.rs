//! Offload to the kernel: an XDP program on the devices of ports forwards packets of offloaded connections.
//!
//! `bpf/` contains the program, `rule.rs` makes rules for it, `slots.rs` maps the memory that it shares
//! with this process, and `device.rs` implements [`flow::FlowOffload`]. The kernel detaches the program when
//! [`XdpOffload`] is dropped, and when the process ends for any reason.

mod device;
mod layout;
mod program;
mod rule;
mod slots;
mod trial;

pub use device::XdpOffload;
pub use program::ProgramError;
