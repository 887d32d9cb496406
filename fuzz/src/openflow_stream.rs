//! Streams of OpenFlow messages: cut into messages, and mutated so that lengths stay true.

use crate::dice::Dice;
use crate::known::MESSAGES;
use openflow::{HEADER_LEN, Version};

/// The bytes before the first message, which say how the stream is to be fed.
pub const PREFIX_LEN: usize = 2;

/// The version that a wire number means; unknown ones are shared out among the known.
pub fn version_of(number: u8) -> Version {
    let all = Version::ALL;
    let known = all.into_iter().find(|version| *version as u8 == number);
    known.unwrap_or(all[usize::from(number) % all.len()])
}

/// Cuts a stream by the lengths in its headers; the last message takes what is left over.
pub fn messages(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while !stream.is_empty() {
        let len = match *stream {
            [_, _, high, low, ..] => usize::from(u16::from_be_bytes([high, low])),
            _ => 0,
        };
        let is_whole = (HEADER_LEN..=stream.len()).contains(&len);
        let (message, rest) = stream.split_at(if is_whole { len } else { stream.len() });
        messages.push(message.to_vec());
        stream = rest;
    }
    messages
}

/// Makes the length in a message's header true.
pub fn mend_length(message: &mut Vec<u8>) {
    if message.len() < HEADER_LEN {
        message.resize(HEADER_LEN, 0);
    }
    message.truncate(usize::from(u16::MAX));
    let len = message.len() as u16;
    message[2..4].copy_from_slice(&len.to_be_bytes());
}

/// Mutates `data` of `size` bytes with `mutate`, and returns the new size. Most times one message
/// alone changes and its length is mended, as nearly all blind changes end at a wrong length.
pub fn mutate(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    mutate: fn(&mut [u8], usize, usize) -> usize,
) -> usize {
    let whole_stream = seed % 8 == 0 || size <= PREFIX_LEN;
    if whole_stream {
        return mutate(data, size, max_size);
    }
    let prefix = data[..PREFIX_LEN].to_vec();
    let mut all = messages(&data[PREFIX_LEN..size]);
    let chosen = (seed / 8) as usize % all.len();
    match (seed / 8) % 16 {
        // The order of messages matters too.
        0 => all.rotate_left(1),
        1 => all.push(all[chosen].clone()),
        2 if all.len() > 1 => {
            all.remove(chosen);
        }
        3..6 => {
            let of_version: Vec<&Vec<u8>> = MESSAGES
                .iter()
                .filter(|it| it.first() == Some(&(version_of(prefix[0]) as u8)))
                .collect();
            let mut dice = Dice::new(seed.into());
            if let Some(&message) = dice.pick(&of_version) {
                all.insert(dice.below(all.len() + 1), message.clone());
            }
        }
        _ => {
            let message = &mut all[chosen];
            let len = message.len();
            message.resize(len + 64, 0);
            let len = mutate(message, len, len + 64);
            message.truncate(len);
            mend_length(message);
        }
    }
    let mutated = [prefix, all.concat()].concat();
    let len = mutated.len().min(max_size);
    data[..len].copy_from_slice(&mutated[..len]);
    len
}
