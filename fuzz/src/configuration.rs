//! Configuration files made by their documentation: each key with each kind of value, in each form that
//! TOML has for it, and files of many tables, so that no input waits for a chance that hardly comes.

use crate::dice::Dice;
use crate::texts;
use crate::toml::{any_value, key, line_end, list, number, one_of, string, table};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Mutates `data` of `size` bytes, and returns the new size: one time in eight it becomes a new file,
/// otherwise its lines change.
pub fn mutate(
    data: &mut [u8],
    (size, max_size): (usize, usize),
    seed: u32,
    mutate: fn(&mut [u8], usize, usize) -> usize,
) -> usize {
    let mut dice = Dice::new(seed.into());
    if dice.below(8) == 0 {
        return crate::put_back(data, max_size, 0, file(&mut dice).as_bytes());
    }
    let lines: Vec<String> = (0..4).map(|_| line(&mut dice)).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    crate::lines::mutate(data, (size, max_size, 0), seed, &lines, mutate)
}

/// A key that is documented.
struct Known {
    /// The header of its table, without brackets.
    table: &'static str,
    name: &'static str,
    /// What it may have, as it is written.
    values: Vec<String>,
}

/// The keys of the configuration file.
static KEYS: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let mut header = "";
    let mut keys = Vec::new();
    let source = include_str!("../../crates/control/src/file.rs");
    for line in source.lines().filter_map(|line| line.strip_prefix("//! ")) {
        if line.starts_with('[') {
            header = line.split('#').next().unwrap_or_default().trim().trim_matches(['[', ']']);
        }
        let Some((name, rest)) = line.split_once(" = ").filter(|_| !header.is_empty()) else {
            continue;
        };
        let (value, comment) = rest.split_once(" #").unwrap_or((rest, ""));
        let others = quoted(comment).map(|word| format!("\"{word}\""));
        let values = others.chain([value.trim().to_owned()]).collect();
        keys.push(Known { table: header, name, values });
    }
    let text = || vec!["\"\"".to_owned()];
    let dpdk = ["dpdk_socket_mem", "dpdk_alloc_mem", "dpdk_socket_limit", "dpdk_lcore_mask"];
    let more = ["dpdk_hugepage_dir", "dpdk_extra", "vhost_sock_dir"];
    let dpdk = dpdk.into_iter().chain(more);
    keys.extend(dpdk.map(|name| Known { table: "switch", name, values: text() }));
    let numbers = vec!["[]".to_owned(), "[1, 2, 4095]".to_owned()];
    keys.push(Known { table: "bridge.port", name: "cvlans", values: numbers });
    let timeouts = quoted(include_str!("../../crates/control/src/desired.rs"))
        .filter(|name| ["tcp_", "udp_", "icmp_"].iter().any(|kind| name.starts_with(kind)));
    let seconds = || vec!["0".to_owned(), "60".to_owned()];
    keys.extend(timeouts.map(|name| Known { table: "timeouts", name, values: seconds() }));
    keys
});

/// What may stand in a string: whatever the sources that read it, and their tests, have in quotes.
static TEXTS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let sources = [
        include_str!("../../crates/control/src/desired/tests.rs"),
        include_str!("../../crates/control/src/dpdk.rs"),
        include_str!("../../crates/control/src/file/port.rs"),
        include_str!("../../crates/control/src/file/tests.rs"),
        include_str!("../../crates/control/src/options.rs"),
        include_str!("../../crates/control/src/queues.rs"),
        include_str!("../../crates/control/src/rows/tests.rs"),
    ];
    let texts: BTreeSet<_> = sources.iter().flat_map(|source| quoted(source)).collect();
    texts.into_iter().collect()
});

/// The short texts in a source.
fn quoted(source: &'static str) -> impl Iterator<Item = &'static str> {
    let texts = source.lines().flat_map(|line| line.split('"').skip(1).step_by(2));
    texts.filter(|text| text.len() < 40 && !text.contains('\\'))
}

/// One line: a key with a value, or the header of a table.
fn line(dice: &mut Dice) -> String {
    let known = &KEYS[dice.below(KEYS.len())];
    let text = match dice.below(8) {
        0 => {
            let name = key(dice, known.table);
            let (open, close) = dice.pick(&HEADERS).copied().unwrap_or_default();
            format!("{open}{name}{close}")
        }
        _ => pair(dice, known),
    };
    format!("{text}{}", line_end(dice))
}

/// Around the name of a table.
const HEADERS: [(&str, &str); 10] = [
    ("[", "]"),
    ("[[", "]]"),
    ("[ ", "\t]"),
    ("[[ ", " ]]"),
    ("[", ""),
    ("[[", "]"),
    ("[[", "] ]"),
    ("[", ".x]"),
    ("[[", ".x]]"),
    (" [", "]]"),
];

fn pair(dice: &mut Dice, known: &Known) -> String {
    let equals = one_of(dice, &[" = ", "=", " =", "\t=\t", " = ", " = ", " == ", " ", " =\n"]);
    format!("{}{equals}{}", key(dice, known.name), value_of(dice, known))
}

fn value_of(dice: &mut Dice, known: &Known) -> String {
    let documented = &known.values[dice.below(known.values.len())];
    match (dice.below(10), documented.as_bytes().first()) {
        (0..=4, _) => documented.clone(),
        (5 | 6, Some(b'0'..=b'9')) => number(dice),
        (5 | 6, Some(b't' | b'f')) => one_of(dice, &["true", "false"]).to_owned(),
        (5 | 6, Some(b'[')) => {
            let is_text = documented.contains('"');
            let len = [0, 1, 2, 5, 25, 60][dice.below(6)];
            let one = |dice: &mut Dice| {
                if is_text { text(dice) } else { dice.below(5000).to_string() }
            };
            let parts = (0..len).map(|_| one(dice)).collect();
            list(dice, parts)
        }
        (5 | 6, Some(b'{')) => {
            let pairs = (0..dice.below(4)).map(|_| random_pair(dice, &["timeouts"])).collect();
            table(dice, pairs)
        }
        (5..=7, _) => text(dice),
        _ => any_value(dice, &TEXTS),
    }
}

fn text(dice: &mut Dice) -> String {
    if dice.below(3) == 0 {
        let text = texts::text(dice);
        return string(dice, &text);
    }
    let text = one_of(dice, &TEXTS);
    string(dice, text)
}

/// A key of one of these tables, with a value.
fn random_pair(dice: &mut Dice, tables: &[&str]) -> String {
    let of = KEYS.iter().filter(|known| tables.contains(&known.table)).collect::<Vec<_>>();
    let known = dice.pick(&of).copied();
    known.map(|known| pair(dice, known)).unwrap_or_default()
}

/// A whole file.
fn file(dice: &mut Dice) -> String {
    let mut tables = Tables::default();
    for name in ["switch", "tls", "zone.default", "zone.5", "zone.65535"] {
        if dice.below(3) == 0 {
            let of = if name == "zone.65535" { "zone.5" } else { name };
            let pairs = (0..dice.below(6)).map(|_| random_pair(dice, &[of])).collect();
            tables.add(dice, name, pairs);
        }
    }
    let bridges = dice.below(4);
    for bridge in 0..bridges {
        let mut pairs = vec![format!("name = \"br{bridge}\"")];
        pairs.extend((0..dice.below(4)).map(|_| random_pair(dice, &["bridge"])));
        let ports = ports(dice, bridge);
        if dice.below(2) == 0 {
            let ports = ports.into_iter().map(|pairs| table(dice, pairs)).collect();
            pairs.push(format!("port = {}", list(dice, ports)));
            tables.behind.push(format!("[[bridge]]\n{}\n", pairs.join("\n")));
        } else {
            tables.behind.push(format!("[[bridge]]\n{}\n", pairs.join("\n")));
            let ports = ports.into_iter().map(|pairs| pairs.join("\n"));
            tables.behind.extend(ports.map(|pairs| format!("[[bridge.port]]\n{pairs}\n")));
        }
    }
    tables.before.concat() + &tables.behind.concat()
}

/// The tables of a file: those without a header stand before all that have one.
#[derive(Default)]
struct Tables {
    before: Vec<String>,
    behind: Vec<String>,
}

impl Tables {
    fn add(&mut self, dice: &mut Dice, name: &str, pairs: Vec<String>) {
        match dice.below(4) {
            0 => self.before.push(format!("{name} = {}\n", table(dice, pairs))),
            1 => self.before.extend(pairs.iter().map(|pair| format!("{name}.{pair}\n"))),
            _ => self.behind.push(format!("[{name}]\n{}\n", pairs.join("\n"))),
        }
    }
}

/// The ports of a bridge: few, or so many that they are sorted in another way, with those first that
/// have to come last, or in any order.
fn ports(dice: &mut Dice, bridge: usize) -> Vec<Vec<String>> {
    let len = [0, 1, 2, 3, 8, 21, 33, 70, 300][dice.below(9)];
    let order = dice.below(5);
    let port = |at: usize, dice: &mut Dice| {
        let kind = match order {
            0 => at * 3 / len,
            1 => 2 - at * 3 / len,
            2 => at / 7 % 3,
            _ => dice.below(3),
        };
        let mut pairs = vec![format!("name = \"p{bridge}-{at:03}\"")];
        match kind {
            0 => pairs.push(format!("ofport = {}", at + 1)),
            1 => {}
            _ => {
                let peer = [bridge, bridge ^ 1, 7][dice.below(3)];
                let peer = format!("peer = \"p{peer}-{at:03}\"");
                pairs.extend(["type = \"patch\"".to_owned(), peer]);
            }
        }
        if len < 8 || dice.below(8) == 0 {
            pairs.extend((0..dice.below(3)).map(|_| random_pair(dice, &["bridge.port"])));
        }
        pairs
    };
    (0..len).map(|at| port(at, dice)).collect()
}
