//! A switch whose flow tables are computed by a function, and traffic that replies to itself.

pub mod bench;
pub mod policy;
pub mod switch;
pub mod traffic;
pub mod tunnels;
