//! A switch whose tables are a function, and traffic that answers itself.

pub mod policy;
pub mod switch;
pub mod traffic;
pub mod tunnels;
