//! Text of lines, mutated line by line and word by word: a blind change nearly always makes a line that
//! is no line any more, and says nothing new about those beside it.

use crate::dice::{Dice, NUMBERS};

/// Mutates `data` of `size` bytes, and returns the new size. `known` are lines that mean something;
/// what stands before `prefix` stays as it is. One time in four `mutate` may do what it likes.
pub fn mutate(
    data: &mut [u8],
    (size, max_size, prefix): (usize, usize, usize),
    seed: u32,
    known: &[&str],
    mutate: fn(&mut [u8], usize, usize) -> usize,
) -> usize {
    let text = data.get(prefix..size).map(<[u8]>::to_vec).map(String::from_utf8);
    let Some(Ok(text)) = text.filter(|_| seed % 4 != 0) else {
        return mutate(data, size, max_size);
    };
    let mut dice = Dice::new(seed.into());
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    for _ in 0..1 + dice.below(3) {
        change(&mut lines, &mut dice, known, mutate);
    }
    crate::put_back(data, max_size, prefix, lines.join("\n").as_bytes())
}

fn change(
    lines: &mut Vec<String>,
    dice: &mut Dice,
    known: &[&str],
    mutate: fn(&mut [u8], usize, usize) -> usize,
) {
    let (at, other) = (dice.below(lines.len().max(1)), dice.below(lines.len().max(1)));
    let line = dice.pick(known).copied().unwrap_or_default();
    match dice.below(10) {
        _ if lines.is_empty() => lines.push(line.to_owned()),
        0 => lines.insert(other, lines[at].clone()),
        1 => _ = lines.remove(at),
        2 => lines.swap(at, other),
        3 | 4 => lines.insert(at, line.to_owned()),
        5 => {
            // One line in a new form.
            let mut bytes = lines[at].clone().into_bytes();
            let len = bytes.len();
            bytes.resize(len + 32, 0);
            let len = mutate(&mut bytes, len, len + 32);
            bytes.truncate(len);
            lines[at] = String::from_utf8_lossy(&bytes).into_owned();
        }
        6 => replace_word(&mut lines[at], dice, |dice| dice.pick(&NUMBERS).map(|&it| it.into())),
        7 => {
            let from = words(line).into_iter().map(|it| line[it].to_owned()).collect::<Vec<_>>();
            replace_word(&mut lines[at], dice, |dice| dice.pick(&from).cloned());
        }
        8 => {
            // A part of a known line behind what is there.
            let from = words(line).first().map_or(0, |_| dice.below(line.len()));
            lines[at].push_str(line.get(from..).unwrap_or_default());
        }
        _ => {
            let line = lines[other].clone();
            let from = words(&line).into_iter().map(|it| line[it].to_owned()).collect::<Vec<_>>();
            replace_word(&mut lines[at], dice, |dice| dice.pick(&from).cloned());
        }
    }
}

fn replace_word(line: &mut String, dice: &mut Dice, by: impl Fn(&mut Dice) -> Option<String>) {
    let place = dice.pick(&words(line)).cloned();
    if let (Some(place), Some(word)) = (place, by(dice)) {
        line.replace_range(place, &word);
    }
}

/// Where the words of a line are: runs of letters, digits and what addresses and names have.
fn words(line: &str) -> Vec<std::ops::Range<usize>> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-/".contains(&byte);
    let mut words = Vec::new();
    let mut start = None;
    for (at, byte) in line.bytes().chain([b' ']).enumerate() {
        match (is_word(byte), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                words.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    words
}
