//! Texts that a configuration's readers take apart by themselves: lists of numbers and of pairs, masks,
//! MAC addresses; right, and nearly right.

use crate::dice::{Dice, NUMBERS};

/// One of them, without quotes or backslashes.
pub fn text(dice: &mut Dice) -> String {
    match dice.below(4) {
        0 => mac(dice),
        1 => mask(dice),
        _ => list(dice),
    }
}

fn mac(dice: &mut Dice) -> String {
    let groups = [6, 6, 6, 6, 5, 7, 1][dice.below(7)];
    let separator = [":", ":", ":", "-", ""][dice.below(5)];
    let usual = dice.below(2) == 0;
    let group = |dice: &mut Dice| {
        let groups = ["00", "02", "Fe", "aA", "ff", "0", "0ff", "g0", "", "+1"];
        groups[dice.below(if usual { 5 } else { groups.len() })]
    };
    (0..groups).map(|_| group(dice)).collect::<Vec<_>>().join(separator)
}

fn mask(dice: &mut Dice) -> String {
    let prefix = ["", "0x", "0X", "x"][dice.below(4)];
    let digits = (0..[0, 1, 2, 4, 16, 17, 40][dice.below(7)]).map(|_| {
        let digits = b"0001248cfFag ";
        char::from(digits[dice.below(digits.len())])
    });
    let digits: String = digits.collect();
    format!("{prefix}{digits}")
}

/// Parts between commas or spaces, each a number, a pair or a range; rarely nothing, or another sign.
fn list(dice: &mut Dice) -> String {
    let between = [",", ",", ", ", " ", ",,", ";"][dice.below(6)];
    let within = [":", ":", "-", "=", " : "][dice.below(5)];
    let usual = dice.below(2) == 0;
    let number = |dice: &mut Dice| match dice.below(if usual { 3 } else { 5 }) {
        0..=2 => dice.below(9).to_string(),
        3 => NUMBERS[dice.below(NUMBERS.len())].to_owned(),
        _ => ["", "a", " 1 ", "1.5"][dice.below(4)].to_owned(),
    };
    let part = |dice: &mut Dice| match dice.below(3) {
        0 => number(dice),
        1 => format!("{}{within}{}", number(dice), number(dice)),
        _ => [number(dice), number(dice), number(dice)][..2 + dice.below(2)].join(within),
    };
    let len = [0, 1, 1, 2, 3, 6, 30][dice.below(7)];
    (0..len).map(|_| part(dice)).collect::<Vec<_>>().join(between)
}
