//! The built source tree whose suites run: Debian's package by default, or any tree that was built as Open vSwitch's
//! and OVN's own documentation says.

use super::Suite;
use std::fs;
use std::path::{Path, PathBuf};

/// Open vSwitch's own daemon, as Debian installs it.
const DEBIAN_DAEMONS: [&str; 2] =
    ["/usr/lib/openvswitch-switch/ovs-vswitchd", "/usr/sbin/ovs-vswitchd"];

/// A tree with generated suites and the programs that they call.
#[derive(Debug, PartialEq, Eq)]
pub struct Tree {
    pub folder: PathBuf,
    /// As `3.7.1`, from the tree's `config.h`.
    pub version: String,
    /// The tree of Open vSwitch that OVN was configured with; for a tree of Open vSwitch, itself.
    pub open_vswitch: PathBuf,
    pub is_ovn: bool,
    /// Whether the daemon and the tools are those that Debian installs.
    is_debian: bool,
}

impl Tree {
    /// Debian's sources, as `tests/suites/prepare` unpacks them.
    pub fn debian(root: &Path) -> Result<Tree, String> {
        let tree = Tree::read(&root.join("target/suite/openvswitch"))?;
        Ok(Tree { is_debian: true, ..tree })
    }

    /// A tree that was built elsewhere.
    pub fn given(folder: &Path) -> Result<Tree, String> {
        let found =
            folder.canonicalize().map_err(|e| format!("suite: {}: {e}", folder.display()))?;
        let tree = Tree::read(&found)?;
        let daemon = tree.daemon();
        match daemon.as_deref().is_some_and(Path::exists) {
            true => Ok(tree),
            false => Err(not_built(&tree.open_vswitch, "vswitchd/ovs-vswitchd")),
        }
    }

    fn read(folder: &Path) -> Result<Tree, String> {
        let is_ovn = folder.join("northd").is_dir();
        let header = fs::read_to_string(folder.join("config.h"))
            .map_err(|_| not_built(folder, "config.h"))?;
        let version = quoted(&header, "#define PACKAGE_VERSION ")
            .ok_or(not_built(folder, "PACKAGE_VERSION in config.h"))?;
        let open_vswitch = match is_ovn {
            false => folder.to_owned(),
            true => open_vswitch_of(folder).ok_or(not_built(folder, "OVS_BUILDDIR in Makefile"))?,
        };
        let folder = folder.to_owned();
        Ok(Tree { folder, version, open_vswitch, is_ovn, is_debian: false })
    }

    /// Open vSwitch's own daemon that goes with the tree.
    pub fn daemon(&self) -> Option<PathBuf> {
        match self.is_debian {
            true => DEBIAN_DAEMONS.map(PathBuf::from).into_iter().find(|it| it.exists()),
            false => Some(self.open_vswitch.join("vswitchd/ovs-vswitchd")),
        }
    }

    /// Returns an error if the tree does not have this suite.
    pub fn check(&self, suite: Suite) -> Result<(), String> {
        let wanted = if suite.is_of_ovn() { "OVN" } else { "Open vSwitch" };
        match suite.is_of_ovn() == self.is_ovn {
            true => Ok(()),
            false => Err(format!(
                "suite: {} has no suite {}: name a tree of {wanted} by --tree DIR",
                self.folder.display(),
                suite.name()
            )),
        }
    }
}

fn not_built(folder: &Path, what: &str) -> String {
    let documents = "Documentation/intro/install/general.rst";
    format!("suite: {}: no {what}; build the tree first, as its {documents} says", folder.display())
}

/// The rest of the line that begins so, without its quotes.
fn quoted(text: &str, begin: &str) -> Option<String> {
    let rest = text.lines().find_map(|it| it.strip_prefix(begin))?;
    Some(rest.trim().trim_matches('"').to_owned()).filter(|it| !it.is_empty())
}

/// The folder that OVN was configured with (`--with-ovs-build`, `--with-ovs-source`).
fn open_vswitch_of(folder: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(folder.join("Makefile")).ok()?;
    let named = ["OVS_BUILDDIR = ", "OVSBUILDDIR = ", "OVSDIR = ", "OVS_SRCDIR = "];
    let path = PathBuf::from(named.iter().find_map(|it| quoted(&text, it))?);
    if path.is_absolute() { Some(path) } else { folder.join(path).canonicalize().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_known_by_its_generated_files() {
        let folder = std::env::temp_dir().join(format!("suite-tree-{}", std::process::id()));
        let ovs = folder.join("ovs");
        fs::create_dir_all(ovs.join("vswitchd")).unwrap();
        let error = Tree::given(&ovs).unwrap_err();
        assert!(error.contains("no config.h; build the tree first"), "{error}");
        fs::write(ovs.join("config.h"), "x\n#define PACKAGE_VERSION \"3.7.1\"\n").unwrap();
        assert!(Tree::given(&ovs).unwrap_err().contains("no vswitchd/ovs-vswitchd"));
        fs::write(ovs.join("vswitchd/ovs-vswitchd"), "").unwrap();
        let tree = Tree::given(&ovs).unwrap();
        assert_eq!((&*tree.version, tree.is_ovn), ("3.7.1", false));
        assert!(tree.check(Suite::Unit).is_ok() && tree.check(Suite::Ovn).is_err());

        let ovn = folder.join("ovn");
        fs::create_dir_all(ovn.join("northd")).unwrap();
        fs::write(ovn.join("config.h"), "#define PACKAGE_VERSION \"26.03.3\"\n").unwrap();
        fs::write(ovn.join("Makefile"), format!("OVS_BUILDDIR = {}\n", ovs.display())).unwrap();
        let tree = Tree::given(&ovn).unwrap();
        assert_eq!((&*tree.version, tree.is_ovn), ("26.03.3", true));
        assert_eq!(tree.daemon(), Some(ovs.canonicalize().unwrap().join("vswitchd/ovs-vswitchd")));
        fs::remove_dir_all(&folder).unwrap();
    }
}
