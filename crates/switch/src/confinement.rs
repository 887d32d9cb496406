//! Restriction of the Unix sockets that the database may name as controllers. A remote user of `ovsdb-server`
//! must not make this process, which often runs as root, connect to any socket of the machine or replace a
//! file by a socket (ovs: `vswitchd/bridge.c`, `bridge_configure_remotes`).

use super::Settings;
use crate::stream::Target;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl Settings {
    /// Checks whether a controller of this bridge may have this target.
    ///
    /// # Errors
    /// Why it may not, and which targets are permitted.
    pub(crate) fn confine(&self, target: &Target, bridge: &str) -> Result<(), String> {
        if !self.is_confined {
            return Ok(());
        }
        let run_dir = self.run_dir.display();
        match target {
            Target::Unix(path) if self.holds(path).is_none() => Err(format!(
                "Not connecting to socket controller \"{target}\" due to possibility for remote \
                 exploit.  Instead, specify socket in whitelisted \"unix:{run_dir}/\" or connect \
                 to \"unix:{run_dir}/{bridge}.mgmt\" (which is always available without special \
                 configuration)."
            )),
            Target::ListenUnix(path) if !self.holds(path).is_some_and(is_of(bridge)) => {
                Err(format!(
                    "Not adding Unix domain socket controller \"{target}\" due to possibility of \
                     overwriting local files. Instead, specify path in whitelisted format \
                     \"punix:{run_dir}/{bridge}.*\" or connect to \"unix:{run_dir}/{bridge}.mgmt\" \
                     (which is always available without special configuration)."
                ))
            }
            _ => Ok(()),
        }
    }

    /// Returns the name of a file directly in the run directory.
    fn holds<'a>(&self, path: &'a Path) -> Option<&'a OsStr> {
        let name = path.file_name()?;
        // Compared as text: the parent of "run/../x" is not "run".
        (path.parent() == Some(self.run_dir.as_path())).then_some(name)
    }
}

/// Accepts file names that consist of the bridge's name, a dot and more.
fn is_of(bridge: &str) -> impl Fn(&OsStr) -> bool {
    move |name| {
        let rest = name.as_bytes().strip_prefix(bridge.as_bytes());
        rest.is_some_and(|rest| rest.first() == Some(&b'.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::TlsSettings;

    #[test]
    fn sockets_are_in_the_run_directory_and_those_that_are_made_are_the_bridges_own() {
        let settings = |is_confined| Settings {
            run_dir: "/run/ovs".into(),
            is_confined,
            tls: TlsSettings::default(),
            dummy: crate::Dummy::Off,
            processors: crate::Processors::Machine,
        };
        for (target, is_allowed) in [
            ("punix:/run/ovs/br0.controller", true),
            ("punix:/run/ovs/br0.", true),
            ("punix:/run/ovs/br0", false),
            ("punix:/run/ovs/br00.x", false),
            ("punix:/run/ovs/br1.mgmt", false),
            ("punix:/run/ovs/br0./x", false),
            ("punix:/run/ovs/../br0.x", false),
            ("punix:/etc/passwd", false),
            ("punix:br0.x", false),
            ("unix:/run/ovs/any", true),
            ("unix:any", true),
            ("unix:x/any", false),
            ("unix:/run/ovs/../any", false),
            ("unix:/run/docker.sock", false),
            ("tcp:127.0.0.1:6653", true),
            ("ptcp:6653", true),
        ] {
            let parsed = Target::parse(target, 6653).unwrap();
            let parsed = parsed.beside(&settings(true).run_dir);
            assert_eq!(settings(true).confine(&parsed, "br0").is_ok(), is_allowed, "{target}");
            assert!(settings(false).confine(&parsed, "br0").is_ok(), "{target}");
        }
    }
}
