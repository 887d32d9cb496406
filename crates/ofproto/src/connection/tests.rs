mod bench;
mod bundles;
mod config;
mod controllers;
mod malformed;
mod replay;
mod tables;
mod waiting;
