//! Huge pages borrowed from the system for a run, and given back by whatever end.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Keeps the pages for as long as a process holds the other end of its standard input, which the
/// kernel closes also when that process is killed. Several borrowers take turns at the counter.
const KEEPER: &str = r#"
trap '' INT TERM HUP
file=/proc/sys/vm/nr_hugepages
exec 9<$file
flock 9
before=$(cat $file)
echo $((before + $1)) >$file
gained=$(($(cat $file) - before))
flock -u 9
echo $gained
exec >/dev/null
cat
# What has the pages is being killed just now.
sleep 0.3
flock 9
now=$(cat $file)
echo $((now > gained ? now - gained : 0)) >$file
"#;

/// Pages that go back when this is dropped, or with this process.
#[derive(Debug)]
pub struct Loan {
    keeper: Child,
}

impl Loan {
    /// As many pages as are missing so that `wanted` are free; none where they are free already,
    /// or where the system gives none.
    pub fn for_free(wanted: usize) -> Option<Loan> {
        let missing = wanted.saturating_sub(free());
        if missing == 0 {
            return None;
        }
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper", &missing.to_string()]);
        keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Keys at the terminal are not for it.
        let mut keeper = keeper.process_group(0).spawn().ok()?;
        let mut gained = String::new();
        if let Some(told) = keeper.stdout.take() {
            // An answer that does not come is none.
            let _ = BufReader::new(told).read_line(&mut gained);
        }
        Some(Loan { keeper })
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // It ends by itself now.
        let _ = self.keeper.wait();
    }
}

/// Free huge pages of the usual size.
pub fn free() -> usize {
    count(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

fn count(meminfo: &str) -> usize {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_pages_are_read() {
        let check = |text, expect| assert_eq!(count(text), expect, "{text}");
        check("HugePages_Total:    1024\nHugePages_Free:      400\nHugePages_Rsvd: 3\n", 400);
        check("HugePages_Free: none\n", 0);
        check("", 0);
    }
}
