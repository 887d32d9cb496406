//! TOML by its grammar: values in each form that TOML has for them, and in forms that it nearly has.
//! Blind changes find these one letter at a time, and take millions of inputs to.

use crate::dice::{Dice, NUMBERS};

/// Some value, right or wrong; `texts` are those worth having in strings.
pub fn any_value(dice: &mut Dice, texts: &[&str]) -> String {
    value(dice, texts, 3)
}

fn value(dice: &mut Dice, texts: &[&str], depth: usize) -> String {
    match dice.below(if depth == 0 { 10 } else { 13 }) {
        0 | 1 => number(dice),
        2 => float(dice),
        3 => one_of(dice, &["true", "false", "True", "tru", "t", "falsee"]).to_owned(),
        4 => date(dice),
        5..=9 => {
            let text = one_of(dice, texts);
            string(dice, text)
        }
        10 | 11 => {
            let parts = (0..dice.below(4)).map(|_| value(dice, texts, depth - 1)).collect();
            list(dice, parts)
        }
        _ => {
            let pairs = (0..dice.below(4)).map(|_| {
                let (name, value) = (one_of(dice, texts), value(dice, texts, depth - 1));
                format!("{}={value}", key(dice, name))
            });
            let pairs = pairs.collect();
            table(dice, pairs)
        }
    }
}

/// A whole number, in one of four bases.
pub fn number(dice: &mut Dice) -> String {
    let number = one_of(dice, &NUMBERS);
    let digits: u128 = number.trim_start_matches('-').parse().unwrap_or_default();
    match dice.below(12) {
        0 => format!("0x{digits:x}"),
        1 => format!("0x{digits:X}"),
        2 => format!("0o{digits:o}"),
        3 => format!("0b{digits:b}"),
        4 => format!("+{digits}"),
        5 => format!("0{digits}"),
        6 => apart(dice, number),
        7 => {
            one_of(dice, &["0x", "0xg", "0o8", "0b2", "-0x1", "+", "-", "1_", "1__0", "0X1"]).into()
        }
        8 => format!("0x{}", apart(dice, &format!("{digits:x}"))),
        _ => number.to_owned(),
    }
}

/// With a line between two digits.
fn apart(dice: &mut Dice, digits: &str) -> String {
    let (left, right) = digits.split_at(dice.below(digits.len() + 1));
    format!("{left}_{right}")
}

fn float(dice: &mut Dice) -> String {
    let sign = one_of(dice, &["", "", "+", "-"]);
    let whole = one_of(dice, &["0", "1", "00", "12_3", "", "inf", "nan", "1_", "9"]);
    let part = one_of(dice, &["", ".0", ".5", ".", ".1_2", "._1", ".1_", ".x"]);
    let power = one_of(dice, &["", "", "e1", "E+2", "e-3", "e", "e400", "e1_0", "e_1", "e1.5"]);
    format!("{sign}{whole}{part}{power}")
}

/// A date, a time, or both, with or without a zone.
fn date(dice: &mut Dice) -> String {
    let year = one_of(dice, &["1979", "2024", "1900", "2000", "0000", "9999", "197"]);
    let month = one_of(dice, &["01", "02", "04", "12", "00", "13", "2"]);
    let day = one_of(dice, &["01", "28", "29", "30", "31", "00", "32", "1", "1x"]);
    let hour = one_of(dice, &["00", "07", "23", "24", "7"]);
    let minute = one_of(dice, &["00", "32", "59", "60", "3"]);
    let second = one_of(dice, &[":00", ":59", ":60", ":61", "", ":", ":5"]);
    let part = one_of(dice, &["", "", ".5", ".999999999", ".0123456789012", ".", ".x"]);
    let zone = ["", "Z", "z", "+00:00", "-08:00", "+23:59", "+24:00", "-00:60", "+1", "-", "+07"];
    let between = one_of(dice, &["T", "t", " ", "  ", "_", ""]);
    let (date, time) = (format!("{year}-{month}-{day}"), format!("{hour}:{minute}{second}{part}"));
    match dice.below(4) {
        0 => date,
        1 => time,
        _ => format!("{date}{between}{time}{}", one_of(dice, &zone)),
    }
}

/// `text` as one of the four kinds of strings, with what may stand in these.
pub fn string(dice: &mut Dice, text: &str) -> String {
    const ESCAPED: [&str; 18] = [
        "\\b",
        "\\t",
        "\\n",
        "\\f",
        "\\r",
        "\\\"",
        "\\\\",
        "\\u00e4",
        "\\U0001F600",
        "\\ud800",
        "\\U00110000",
        "\\u12",
        "\\x41",
        "\\e",
        "\\q",
        "\\",
        "\\ \n  ",
        "\\\n\n \t",
    ];
    const PLAIN: [&str; 14] =
        ["ä", "日", "😀", "\t", "\n", "\r\n", "\r", "\0", "\x7f", "'", "\"", "''", "\"\"", "#"];
    let mut text = text.to_owned();
    let is_plain = dice.below(3) != 0;
    if !is_plain {
        let at = dice.below(text.len() + 1);
        let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        let escaped = dice.below(2) == 0;
        text.insert_str(at, one_of(dice, if escaped { &ESCAPED } else { &PLAIN }));
    }
    let long = one_of(dice, &["", "", "\n", "\r\n"]);
    match dice.below(if is_plain { 24 } else { 12 }) {
        0 | 1 => format!("'{text}'"),
        2 | 3 => format!("\"\"\"{long}{text}\"\"\""),
        4 | 5 => format!("'''{long}{text}'''"),
        6 => format!("\"\"\"{text}\"\"\"\"\""),
        7 => format!("'''{text}'''''"),
        8 => {
            let (open, close) = dice.pick(&UNEQUAL).copied().unwrap_or_default();
            format!("{open}{text}{close}")
        }
        9 => text,
        _ => format!("\"{text}\""),
    }
}

/// Quotes that do not end what they began.
const UNEQUAL: [(&str, &str); 8] = [
    ("\"", ""),
    ("'", ""),
    ("\"", "'"),
    ("\"\"\"", "\""),
    ("'''", "'"),
    ("", "\""),
    ("\"", "\"\""),
    ("'''", ""),
];

/// A list of these.
pub fn list(dice: &mut Dice, parts: Vec<String>) -> String {
    let between = [", ", ",", " ,\n", ", # one\n ", ",\r\n\t", ",,", " "];
    let around = [("[\n", "\n]"), ("[ # of\n", ",\n]"), ("[", " , ]"), ("[", ""), ("[,", "]")];
    enclosed(dice, &parts, &between, &around, ("[", "]"))
}

/// A table of these within a line.
pub fn table(dice: &mut Dice, pairs: Vec<String>) -> String {
    let between = [", ", ",", " , ", ",\n", ",,", "\n", " "];
    let around = [("{ ", " }"), ("{", ",}"), ("{\n", "\n}"), ("{", ""), ("{ # of\n", "}")];
    enclosed(dice, &pairs, &between, &around, ("{", "}"))
}

/// Every other time with a plain comma between, and with plain brackets around.
fn enclosed(
    dice: &mut Dice,
    parts: &[String],
    between: &[&str],
    around: &[(&str, &str)],
    plain: (&str, &str),
) -> String {
    let is_plain = dice.below(2) == 0;
    let between = if is_plain { "," } else { one_of(dice, between) };
    let around = dice.pick(around).copied();
    let (open, close) = around.filter(|_| dice.below(2) == 0).unwrap_or(plain);
    format!("{open}{}{close}", parts.join(between))
}

/// `name` as a key: bare, in quotes, of several parts, or with a letter too many or too few.
pub fn key(dice: &mut Dice, name: &str) -> String {
    let letter = one_of(dice, &["a", "_", "-", "7", "é", " ", ".", "\\", "\"", "=", "\u{7f}"]);
    match dice.below(24) {
        0 => format!("\"{name}\""),
        1 => format!("'{name}'"),
        2 => format!("\"{name}{letter}\""),
        3 => format!("'{name}{letter}'"),
        4 => format!("{name}.{letter}"),
        5 => format!("{name} . \"{letter}\""),
        6 => format!("{name}{letter}"),
        7 => format!("{letter}{name}"),
        8 | 9 => {
            let at = dice.below(name.len() + 1);
            let left = name.get(..at).unwrap_or(name);
            format!("{left}{}", name.get(at + 1..).unwrap_or_default())
        }
        10 => {
            one_of(dice, &["", "''", "\"\"", ".", "a..b", "\"\"\"a\"\"\"", "\"a", "'a\nb'"]).into()
        }
        _ => name.to_owned(),
    }
}

/// What may stand behind a line.
pub fn line_end(dice: &mut Dice) -> &'static str {
    match dice.below(12) {
        0 => one_of(dice, &[" # what it is", "#", " # \t ä", "# \u{1}", "# \x7f", "#\r"]),
        1 => one_of(dice, &[" ", "\t", "\r", " x", ",", "\u{feff}", "\0", "\n"]),
        _ => "",
    }
}

/// One of these, or nothing where there is none.
pub fn one_of<'a>(dice: &mut Dice, all: &[&'a str]) -> &'a str {
    dice.pick(all).copied().unwrap_or_default()
}
