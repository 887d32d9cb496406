//! Compiles the C shim against the system's libdpdk if the feature `dpdk` is on.

fn main() {
    println!("cargo:rerun-if-changed=csrc");
    #[cfg(feature = "dpdk")]
    if let Err(error) = dpdk() {
        println!(
            "cargo::error=the feature `dpdk` needs libdpdk and its headers; install libdpdk-dev, \
             or build without the feature ({error})"
        );
    }
}

/// The libraries that the shim itself calls; DPDK loads other drivers from its own folder at start. Linking
/// all that `pkg-config --libs` lists would tie the program to fifty libraries that it never uses.
#[cfg(feature = "dpdk")]
const LIBRARIES: [&str; 6] =
    ["rte_ethdev", "rte_net", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal"];

#[cfg(feature = "dpdk")]
fn dpdk() -> Result<(), String> {
    let mut build = cc::Build::new();
    build.files([
        "csrc/start.c",
        "csrc/device.c",
        "csrc/burst.c",
        "csrc/rte_flow.c",
        "csrc/rte_flow_object.c",
    ]);
    // One of the flags selects the minimum processor for DPDK's inline functions.
    for flag in pkg_config(&["--cflags", "libdpdk >= 21.11"])? {
        build.flag(flag);
    }
    build.flag("-Wno-unused-parameter").opt_level(3).warnings(true);
    build.try_compile("tidegate_dpdk").map_err(|error| error.to_string())?;
    for folder in pkg_config(&["--libs-only-L", "libdpdk"])? {
        println!("cargo:rustc-link-search=native={}", folder.trim_start_matches("-L"));
    }
    for name in LIBRARIES {
        println!("cargo:rustc-link-lib=dylib={name}");
    }
    Ok(())
}

/// The words that pkg-config prints.
#[cfg(feature = "dpdk")]
fn pkg_config(arguments: &[&str]) -> Result<Vec<String>, String> {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let output = std::process::Command::new("pkg-config")
        .arg("--print-errors")
        .args(arguments)
        .output()
        .map_err(|error| format!("pkg-config: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().map(str::to_owned).collect())
}
