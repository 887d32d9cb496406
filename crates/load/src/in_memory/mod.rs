//! A switch inside the measuring process, between ports in memory, and how long its stages take.

mod error;
mod stages;
mod switch;

pub use error::InMemoryError;
pub use stages::{Stages, Watch};
pub use switch::{Cable, Discard, PORTS, Switch};
