//! A switch inside the measuring process, between ports in memory, and the time of its stages.

mod apart;
mod error;
mod frames;
mod own_time;
mod stages;
mod switch;
pub mod tunnel;
mod upkeep;

pub use error::InMemoryError;
pub use frames::Frames;
pub use own_time::OwnTime;
pub use stages::{Stages, Watch};
pub use switch::{Cable, Discard, PORTS, Switch, port_name};
