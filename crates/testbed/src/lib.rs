//! A test bed in network namespaces: the stock `ovs-*` tools, the database, and a switch that is started with
//! the options of `ovs-vswitchd`, either this program or another.
#![forbid(unsafe_code)]

mod check;
mod error;
pub mod namespaces;
pub mod programs;
mod screen;
pub mod stock;
pub mod switch;

pub use check::Check;
pub use error::TestbedError;
pub use screen::Screen;
pub use switch::Switch;
