//! Packet formats: views of bytes, one file per protocol, checksums, rewriting of fields in place, and a
//! builder with a short text form for tests.
//!
//! The contract of every view `Foo<T>`:
//!
//! * `Foo::new_checked(bytes)` validates every length field against the bytes. Its error [`Malformed`] names
//!   the header and the reason.
//! * After `new_checked`, no accessor panics. A setter may make a length field invalid again; accessors then
//!   return an empty slice or zero.
//! * A view borrows or owns: `T` is `&[u8]`, `&mut [u8]` or `Vec<u8>`. Setters need `T: AsMut<[u8]>` and
//!   write only their field. The functions of [`rewrite`] also update checksums.
//!
//! Offsets are in bytes; addresses are [`base::MacAddr`] and the standard library's.

#![forbid(unsafe_code)]

pub mod arp;
pub mod builder;
pub mod checksum;
mod error;
pub mod erspan;
pub mod ethernet;
pub mod fragment;
pub mod geneve;
pub mod gre;
pub mod gtpu;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod mpls;
pub mod nsh;
pub mod numbers;
mod octets;
pub mod rewrite;
pub mod sctp;
pub mod srv6;
pub mod tcp;
#[cfg(test)]
mod tests;
pub mod text;
mod too_big;
pub mod udp;
pub mod upper;
mod view;
pub mod vlan;
pub mod vxlan;

pub use arp::Arp;
pub use builder::PacketBuilder;
pub use error::{Header, Malformed};
pub use erspan::Erspan;
pub use ethernet::Ethernet;
pub use fragment::Fragment;
pub use geneve::Geneve;
pub use gre::Gre;
pub use gtpu::Gtpu;
pub use icmp::Icmp;
pub use icmpv6::Icmpv6;
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use mpls::LabelEntry;
pub use nsh::Nsh;
pub use numbers::{ethertype, protocol};
pub use sctp::Sctp;
pub use srv6::Srv6;
pub use tcp::{Tcp, TcpFlags};
pub use too_big::too_big;
pub use udp::Udp;
pub use upper::{Addresses, UpperLayer};
pub use vlan::{Tci, Vlan};
pub use vxlan::Vxlan;
