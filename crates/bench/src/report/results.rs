//! The results in a folder, with the verb that wrote each.

use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};

/// All results of a folder, by name.
pub struct Results {
    /// Those that could be read.
    pub all: Vec<Stored>,
    /// The others.
    pub left_out: Vec<Unreadable>,
}

/// One result.
pub struct Stored {
    /// The file's name without its ending.
    pub name: String,
    /// The program that wrote it.
    pub kind: Kind,
    /// Its content.
    pub json: Value,
}

/// A file that is not a result.
pub struct Unreadable {
    /// The file.
    pub file: PathBuf,
    /// The reason.
    pub why: String,
}

/// The verb that wrote a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `cps-ndr`
    CpsNdr,
    /// `generate`
    Generate,
    /// `generate --self-test`
    SelfTest,
    /// `bench`
    Bench,
    /// `bench rfc`
    Rfc,
    /// `bench matrix`
    Matrix,
}

impl Results {
    /// Reads every `*.json` of the folder.
    pub fn read(folder: &Path) -> io::Result<Results> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "json") {
                files.push(path);
            }
        }
        files.sort();
        let mut results = Results { all: Vec::new(), left_out: Vec::new() };
        for file in files {
            match stored(&file) {
                Ok(stored) => results.all.push(stored),
                Err(why) => results.left_out.push(Unreadable { file, why }),
            }
        }
        Ok(results)
    }

    /// The results of one kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Stored> {
        self.all.iter().filter(move |stored| stored.kind == kind)
    }
}

fn stored(file: &Path) -> Result<Stored, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let json: Value =
        serde_json::from_str(&text).map_err(|error| format!("it is not JSON: {error}"))?;
    let kind = match json.get("verb").and_then(Value::as_str) {
        Some("cps-ndr") => Kind::CpsNdr,
        Some("generate") => Kind::Generate,
        Some("generate --self-test") => Kind::SelfTest,
        Some("bench rfc") => Kind::Rfc,
        Some("bench matrix") => Kind::Matrix,
        Some(verb) if verb.starts_with("bench ") => Kind::Bench,
        // Older results without a verb: those of `bench` are recognised by what they measured.
        None if json.get("ns_per_packet").is_some() || json.get("zones").is_some() => Kind::Bench,
        Some(other) => return Err(format!("\"{other}\" is no verb whose results are known")),
        None => return Err("it is no result of tidegate".to_owned()),
    };
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Stored { name, kind, json })
}

impl Stored {
    /// A number at this path of keys.
    pub fn number(&self, path: &str) -> Option<f64> {
        self.json.pointer(path)?.as_f64()
    }

    /// A text at this path of keys.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.json.pointer(path)?.as_str()
    }

    /// Returns a short text of the device under test and the load, without workers and queues.
    pub fn setting(&self) -> String {
        let kind = self.text("/dut/kind").unwrap_or("none");
        let ports = self.text("/dut/ports").unwrap_or("its own");
        let rules = self.json.pointer("/dut/rules").map(ToString::to_string).unwrap_or_default();
        let tracked = if rules.contains("ct(") { "tracked" } else { "untracked" };
        let messages = self.number("/profile/messages").unwrap_or(1.0);
        format!("{kind}, {ports} ports, {tracked}, {messages} messages per connection")
    }

    /// Returns a short text of the device under test.
    pub fn device(&self) -> String {
        let kind = self.text("/dut/kind").unwrap_or("none");
        let ports = self.text("/dut/ports");
        let workers = self.number("/dut/workers").map(|n| format!(", {n} workers"));
        let ports = ports.map(|ports| format!(", {ports} ports")).unwrap_or_default();
        format!("{kind}{ports}{}", workers.unwrap_or_default())
    }
}
