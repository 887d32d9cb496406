//! Huge pages that a run borrows from the system and returns however it ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Keeps the pages until its standard input is closed, which the kernel does even when the borrowing process
/// is killed. Several borrowers lock the counter in turn.
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

/// Borrowed pages, returned when this is dropped or the process ends.
#[derive(Debug)]
pub struct Loan {
    keeper: Child,
}

impl Loan {
    /// Borrows as many pages as are missing for `wanted` free ones. Returns `None` if they are free already,
    /// or the keeper does not start.
    pub fn for_free(wanted: usize) -> Option<Loan> {
        let missing = wanted.saturating_sub(free());
        if missing == 0 {
            return None;
        }
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper", &missing.to_string()]);
        keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A process group of its own keeps the terminal's signals away.
        let mut keeper = keeper.process_group(0).spawn().ok()?;
        let mut gained = String::new();
        if let Some(told) = keeper.stdout.take() {
            // Without an answer the caller sees that pages are missing when it uses them.
            let _ = BufReader::new(told).read_line(&mut gained);
        }
        Some(Loan { keeper })
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // The keeper ends because its standard input is closed.
        let _ = self.keeper.wait();
    }
}

/// Returns the number of free huge pages of the default size.
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
