//! The program as a user starts it; `tests/cases/lean-daemon.sh` runs it as a switch.

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ovs-vswitchd")).args(args).output().unwrap()
}

#[test]
fn says_its_version() {
    let output = run(&["--version"]);
    assert!(output.status.success());
    assert!(output.stdout.starts_with(b"ovs-vswitchd (Open vSwitch) 3.1.0\n"), "{output:?}");
}

#[test]
fn refuses_what_it_does_not_know() {
    let output = run(&["--nonsense"]);
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("--nonsense"));
}
