//! Offload to the kernel: an XDP program on the ports' devices forwards packets of connections that
//! the switch handed over.
//!
//! `bpf/` is the program, `rule.rs` translates rules for it, `slots.rs` is the memory that it
//! shares with this process, and `device.rs` is [`flow::FlowOffload`]. The program leaves the devices
//! with [`XdpOffload`], and with the process however that ends.

mod device;
mod layout;
mod program;
mod rule;
mod slots;
mod trial;

pub use device::XdpOffload;
pub use program::ProgramError;
