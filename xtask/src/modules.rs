//! Every Rust file below a `src` folder is a module that its parent names. A file that none names is not
//! compiled, so that neither the compiler nor clippy reports it.

use std::collections::BTreeSet;

use crate::files::RustFile;
use crate::problem::Problem;

/// Reports each file that its parent module does not name.
pub fn check(files: &[RustFile]) -> Vec<Problem> {
    let named: BTreeSet<String> = files.iter().flat_map(named_by).collect();
    let is_orphan = |file: &&RustFile| file.has_folder("src") && !named.contains(stem(file));
    let orphans = files.iter().filter(is_orphan).filter(|file| !is_root(file));
    let text = "no module names this file, so that it is not compiled; name it, or remove it";
    orphans.map(|file| Problem::new(&file.path, 1, text)).collect()
}

/// The paths without `.rs` or `/mod.rs` of the modules that a file names.
fn named_by(file: &RustFile) -> Vec<String> {
    let own = stem(file);
    let folder =
        if is_root(file) { own.rsplit_once('/').map_or("", |(folder, _)| folder) } else { own };
    let tokens = file.source.tokens();
    let modules = tokens.windows(3).filter(|it| it[0].text == "mod" && it[2].text == ";");
    modules.map(|it| format!("{folder}/{}", it[1].text)).collect()
}

/// Whether a file is a root of compilation: a library, a program, or a file in `src/bin`.
fn is_root(file: &RustFile) -> bool {
    file.path.ends_with("/lib.rs")
        || file.path.ends_with("/main.rs")
        || file.path.contains("/src/bin/")
}

fn stem(file: &RustFile) -> &str {
    let path = file.path.as_str();
    path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs")).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_no_module_names_are_reported() {
        let files = [
            RustFile::new("crates/a/src/lib.rs", "mod b;\npub mod c;\n// mod gone;"),
            RustFile::new("crates/a/src/b.rs", "#[cfg(test)]\nmod tests;"),
            RustFile::new("crates/a/src/b/tests.rs", ""),
            RustFile::new("crates/a/src/c/mod.rs", "pub(crate) mod d;"),
            RustFile::new("crates/a/src/c/d.rs", "mod inline {}"),
            RustFile::new("crates/a/src/gone.rs", ""),
            RustFile::new("crates/a/src/c/b.rs", ""),
            RustFile::new("crates/a/tests/whole.rs", ""),
        ];
        let found: Vec<_> = check(&files).into_iter().map(|it| it.to_string()).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("a/src/gone.rs") && found[1].contains("a/src/c/b.rs"),
            "{found:?}"
        );
    }
}
