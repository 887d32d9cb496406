//! Builds the XDP program, if clang is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The names of clang on Debian, the newest first.
const COMPILERS: [&str; 4] = ["clang", "clang-19", "clang-16", "clang-14"];

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rustc-check-cfg=cfg(has_program)");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    match build(&folder.join("forward.o")) {
        Ok(()) => println!("cargo::rustc-cfg=has_program"),
        Err(reason) => println!(
            "cargo::warning=built without offload by XDP: {reason}; install clang, or name one by CLANG"
        ),
    }
}

fn build(object: &Path) -> Result<(), String> {
    let given = std::env::var("CLANG").ok();
    let names = given.as_deref().into_iter().chain(COMPILERS);
    let mut reason = String::new();
    for name in names {
        // Linux 5.1 and later support version 3 of the instruction set. The debug data describes the maps.
        let result = Command::new(name)
            .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-c"])
            .args([Path::new("bpf/forward.c"), Path::new("-o"), object])
            .output();
        match result {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()));
            }
            Err(error) => reason = format!("{name}: {error}"),
        }
    }
    Err(reason)
}
