//! JSON that is mutated value by value, so that it stays JSON.

use crate::dice::{Dice, NUMBERS};
use crate::texts;
use std::ops::Range;

/// Mutates `data` of `size` bytes, of which the first `prefix` are no JSON, and returns the new size.
/// `known` are values that mean something. One time in four `mutate` may do what it likes.
pub fn mutate(
    data: &mut [u8],
    (size, max_size, prefix): (usize, usize, usize),
    seed: u32,
    known: &[&str],
    mutate: fn(&mut [u8], usize, usize) -> usize,
) -> usize {
    let mut text = data.get(prefix..size).unwrap_or_default().to_vec();
    let mut dice = Dice::new(seed.into());
    if seed % 4 == 0 || values(&text).is_empty() {
        return mutate(data, size, max_size);
    }
    for _ in 0..1 + dice.below(3) {
        change(&mut text, &mut dice, known, mutate);
    }
    crate::put_back(data, max_size, prefix, &text)
}

fn change(
    text: &mut Vec<u8>,
    dice: &mut Dice,
    known: &[&str],
    mutate: fn(&mut [u8], usize, usize) -> usize,
) {
    let all = values(text);
    let (Some(at), Some(other)) = (dice.pick(&all).cloned(), dice.pick(&all).cloned()) else {
        return;
    };
    let value = text[other].to_vec();
    match dice.below(11) {
        0..3 => _ = text.splice(at, value),
        3 | 4 => {
            let known = dice.pick(known).copied().unwrap_or("null");
            text.splice(at, known.bytes());
        }
        5 => _ = text.splice(at, NUMBERS[dice.below(NUMBERS.len())].bytes()),
        6 => {
            // Once more, or another, before itself.
            let value = if dice.below(2) == 0 { text[at.clone()].to_vec() } else { value };
            text.splice(at.start..at.start, [&value[..], b","].concat());
        }
        7 => {
            // Without it, and without the comma behind or before it.
            let Range { mut start, mut end } = at;
            if text.get(end) == Some(&b',') {
                end += 1;
            } else if start > 0 && text[start - 1] == b',' {
                start -= 1;
            }
            text.drain(start..end);
        }
        8 => {
            // The value alone, inside its quotes if it has some.
            let is_text = text[at.start] == b'"' && at.len() >= 2;
            let at = if is_text { at.start + 1..at.end - 1 } else { at };
            let mut inside = text[at.clone()].to_vec();
            let len = inside.len();
            inside.resize(len + 16, 0);
            let len = mutate(&mut inside, len, len + 16);
            inside.truncate(len);
            text.splice(at, inside);
        }
        9 => _ = text.splice(at, format!("\"{}\"", texts::text(dice)).bytes()),
        _ => {
            let known = dice.pick(known).filter(|known| known.starts_with('"'));
            let pair = match known.filter(|_| dice.below(2) == 0) {
                Some(key) => format!("{key},\"{}\"", texts::text(dice)).into_bytes(),
                None => [&value[..], b",", &text[at.clone()]].concat(),
            };
            let pair = [b"[\"map\",[[", &pair[..], b"]]]"].concat();
            text.splice(at, pair);
        }
    }
}

/// Where the values of a text are, keys among them, as far as its brackets agree.
fn values(text: &[u8]) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut open = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let start = at;
        at += 1;
        match text[start] {
            b'[' | b'{' => open.push(start),
            b']' | b'}' => all.extend(open.pop().map(|from| from..at)),
            b'"' => {
                while at < text.len() && text[at] != b'"' {
                    at += 1 + usize::from(text[at] == b'\\');
                }
                at = (at + 1).min(text.len());
                all.push(start..at);
            }
            b'-' | b'0'..=b'9' | b'a'..=b'z' => {
                let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                at += text[at..].iter().take_while(|byte| is_plain(byte)).count();
                all.push(start..at);
            }
            _ => {}
        }
    }
    all
}
