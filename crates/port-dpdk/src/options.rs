//! DPDK's start options, with Open vSwitch's names.

/// The `dpdk-` options of `Open_vSwitch.other_config` for DPDK's start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EalOptions {
    /// Megabytes from each NUMA node at start, such as "1024,0" (`dpdk-socket-mem`).
    pub socket_mem: Option<String>,
    /// Megabytes in total at start (`dpdk-alloc-mem`); `socket_mem` takes precedence.
    pub alloc_mem: Option<String>,
    /// Maximum megabytes from each NUMA node (`dpdk-socket-limit`).
    pub socket_limit: Option<String>,
    /// The processors of DPDK's own threads, as a hexadecimal mask (`dpdk-lcore-mask`).
    pub lcore_mask: Option<String>,
    /// The mount point of huge pages (`dpdk-hugepage-dir`).
    pub hugepage_dir: Option<String>,
    /// Further words of DPDK's command line (`dpdk-extra`); they take precedence over the other options.
    pub extra: Option<String>,
}

impl EalOptions {
    /// DPDK's command line, and warnings. By default its threads run on `cpu` (ovs: `lib/dpdk.c`,
    /// `dpdk_init__`).
    pub fn command_line(&self, cpu: usize) -> (Vec<String>, Vec<String>) {
        let mut line = Line { words: vec!["tidegate".to_owned()], warnings: Vec::new() };
        line.words.extend(words(self.extra.as_deref().unwrap_or_default()));
        line.option("dpdk-lcore-mask", "-c", &self.lcore_mask);
        line.option("dpdk-hugepage-dir", "--huge-dir", &self.hugepage_dir);
        line.option("dpdk-socket-limit", "--socket-limit", &self.socket_limit);
        match (&self.socket_mem, &self.alloc_mem) {
            (None, alloc) => line.option("dpdk-alloc-mem", "-m", alloc),
            (socket, alloc) => {
                if alloc.is_some() {
                    line.warnings.push("dpdk-alloc-mem: ignored beside dpdk-socket-mem".to_owned());
                }
                line.option("dpdk-socket-mem", "--socket-mem", socket);
            }
        }
        // No files are left behind, and switches on one system are separate. DPDK has no option for exactly
        // that, but these, or another one that nearly does it.
        if line.has(&["--no-huge"]) {
            line.words.push("--no-shconf".to_owned());
        } else if !line.has(&["--in-memory", "--legacy-mem"]) {
            line.words.push("--in-memory".to_owned());
        }
        if !line.has(&["--telemetry", "--no-telemetry"]) {
            line.words.push("--no-telemetry".to_owned());
        }
        if !line.has(&["-c", "-l", "--lcores"]) {
            line.words.extend(["-l".to_owned(), cpu.to_string()]);
        }
        (line.words, line.warnings)
    }
}

struct Line {
    words: Vec<String>,
    warnings: Vec<String>,
}

impl Line {
    /// Whether one of these options is present, alone or with "=" and a value.
    fn has(&self, options: &[&str]) -> bool {
        let is = |word: &String| options.contains(&word.split('=').next().unwrap_or_default());
        self.words.iter().any(is)
    }

    fn option(&mut self, name: &str, option: &str, value: &Option<String>) {
        let Some(value) = value.as_deref().filter(|value| !value.is_empty()) else { return };
        if self.has(&[option]) {
            self.warnings.push(format!("{name}: ignored, since dpdk-extra says {option} too"));
        } else {
            self.words.extend([option.to_owned(), value.to_owned()]);
        }
    }
}

/// The words of a text, separated like in a shell at unquoted spaces.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => (quote, is_word) = (Some(c), true),
            (None, _) if c.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            _ => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_words() {
        let set = |text: &str| Some(text.to_owned());
        let none = EalOptions::default();
        let cases = [
            (none.clone(), "tidegate --in-memory --no-telemetry -l 3", 0),
            (
                EalOptions {
                    socket_mem: set("512,0"),
                    alloc_mem: set("64"),
                    lcore_mask: set("0x1"),
                    hugepage_dir: set("/mnt/huge"),
                    ..none.clone()
                },
                "tidegate -c 0x1 --huge-dir /mnt/huge --socket-mem 512,0 --in-memory \
                 --no-telemetry",
                1,
            ),
            (
                EalOptions {
                    extra: set("--no-huge -m 64 --lcores=0@1"),
                    alloc_mem: set("9"),
                    ..none.clone()
                },
                "tidegate --no-huge -m 64 --lcores=0@1 --no-shconf --no-telemetry",
                1,
            ),
            (
                EalOptions { extra: set(" -d 'a b' --legacy-mem  "), socket_mem: set(""), ..none },
                "tidegate -d a b --legacy-mem --no-telemetry -l 3",
                0,
            ),
        ];
        for (options, expect, warned) in cases {
            let (words, warnings) = options.command_line(3);
            assert_eq!(words.join(" "), expect);
            assert_eq!(warnings.len(), warned, "{warnings:?}");
        }
        assert_eq!(words("a 'b c'\"d\" ''"), ["a", "b cd", ""]);
    }
}
