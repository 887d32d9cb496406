//! The programs that the test bed needs, and the packages to install if they are missing.

use std::env;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use crate::TestbedError;

/// Programs with their Debian packages.
const NEEDED: &[(&str, &str)] = &[
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("mount", "mount"),
    ("timeout", "coreutils"),
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("ping", "iputils-ping"),
    ("ovs-vsctl", "openvswitch-switch"),
    ("ovsdb-server", "openvswitch-switch"),
    ("ovsdb-tool", "openvswitch-switch"),
    ("ovs-ofctl", "openvswitch-common"),
    ("ovs-appctl", "openvswitch-common"),
    ("nginx", "nginx-light"),
    ("wrk", "wrk"),
    ("curl", "curl"),
];

/// The database schema, which comes with the stock tools.
pub const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Returns `PATH` with the directories of system programs added.
pub fn search_path() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin");
    path
}

/// Checks that everything is installed.
///
/// # Errors
/// All that is missing.
pub fn check(switch: Option<&Path>) -> Result<(), TestbedError> {
    let path = search_path();
    let mut programs = Vec::new();
    let mut packages: Vec<String> = Vec::new();
    let mut missing = |what: String, package: &str| {
        programs.push(what);
        if !packages.iter().any(|known| known == package) {
            packages.push(package.to_owned());
        }
    };
    for &(program, package) in NEEDED {
        if find(&path, Path::new(program)).is_none() {
            missing(program.to_owned(), package);
        }
    }
    if !Path::new(SCHEMA).exists() {
        missing(SCHEMA.to_owned(), "openvswitch-switch");
    }
    if !programs.is_empty() {
        return Err(TestbedError::Missing { programs, packages });
    }
    if let Some(switch) = switch
        && find(&path, switch).is_none()
    {
        return Err(TestbedError::NoSwitch(switch.to_owned()));
    }
    let tun = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    tun.map(drop).map_err(TestbedError::NoTun)
}

/// Returns the path of a program. A name with a slash is a path itself.
fn find(path: &OsString, program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned());
    }
    env::split_paths(path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
