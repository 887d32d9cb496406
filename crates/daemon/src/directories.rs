//! The directories of Open vSwitch (ovs: lib/dirs.c.in, with Debian's defaults).

use std::path::{Path, PathBuf};

/// The paths of the directories. Each can be changed by an environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directories {
    /// Pidfiles and sockets: `OVS_RUNDIR`.
    pub run: PathBuf,
    /// Log files: `OVS_LOGDIR`.
    pub log: PathBuf,
    /// Databases: `OVS_DBDIR`.
    pub db: PathBuf,
    /// Configuration: `OVS_SYSCONFDIR`.
    pub sysconf: PathBuf,
    /// Schemas and scripts: `OVS_PKGDATADIR`.
    pub pkgdata: PathBuf,
}

impl Directories {
    /// Reads the environment of this process.
    pub fn from_environment() -> Self {
        Directories::from_variables(|name| std::env::var_os(name).map(PathBuf::from))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
        let get = |name: &str, default: &str| set(name).unwrap_or_else(|| default.into());
        let beside_sysconf =
            || variable("OVS_SYSCONFDIR").map(|sysconf| sysconf.join("openvswitch"));
        Directories {
            run: get("OVS_RUNDIR", "/var/run/openvswitch"),
            log: get("OVS_LOGDIR", "/var/log/openvswitch"),
            db: set("OVS_DBDIR").or_else(beside_sysconf).unwrap_or("/etc/openvswitch".into()),
            sysconf: get("OVS_SYSCONFDIR", "/etc"),
            pkgdata: get("OVS_PKGDATADIR", "/usr/share/openvswitch"),
        }
    }

    /// Returns a path relative to the run directory, or `path` itself if it is absolute.
    pub fn in_run<P: AsRef<Path>>(&self, path: P) -> PathBuf {
        self.run.join(path)
    }

    /// Returns the path of the pidfile: `name`, or the program's default.
    pub fn pidfile(&self, name: Option<&Path>, program: &str) -> PathBuf {
        name.map_or_else(|| self.in_run(format!("{program}.pid")), |name| self.in_run(name))
    }

    /// Returns the default log file of a program.
    pub fn log_file(&self, program: &str) -> PathBuf {
        self.log.join(format!("{program}.log"))
    }

    /// Returns the default database server, as a remote.
    pub fn database(&self) -> String {
        format!("unix:{}", self.in_run("db.sock").display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_move_directories() {
        let none = Directories::from_variables(|_| None);
        assert_eq!(none.database(), "unix:/var/run/openvswitch/db.sock");
        assert_eq!(none.db, Path::new("/etc/openvswitch"));
        let set = Directories::from_variables(|name| match name {
            "OVS_RUNDIR" => Some("/r".into()),
            "OVS_LOGDIR" => Some("".into()),
            "OVS_SYSCONFDIR" => Some("/s".into()),
            _ => None,
        });
        assert_eq!(set.pidfile(None, "ovs-vswitchd"), Path::new("/r/ovs-vswitchd.pid"));
        assert_eq!(set.pidfile(Some(Path::new("x")), "y"), Path::new("/r/x"));
        assert_eq!(set.in_run("/abs"), Path::new("/abs"));
        assert_eq!(set.log_file("x"), Path::new("/var/log/openvswitch/x.log"));
        assert_eq!(set.db, Path::new("/s/openvswitch"));
    }
}
