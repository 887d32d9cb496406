mod bench;
mod bundles;
mod controllers;
mod malformed;
mod replay;
mod waiting;
