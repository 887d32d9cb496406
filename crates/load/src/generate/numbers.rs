//! Numbers as people write and read them: `2.4k`, `1.2m`, `345K`.

/// Reads a count with an optional `k`, `m` or `g` (thousands, millions, thousand millions).
///
/// # Errors
/// What is wrong with the text, and how to write it.
pub fn parse_count(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.trim().to_ascii_lowercase() {
        t if t.ends_with('k') => (t[..t.len() - 1].to_owned(), 1e3),
        t if t.ends_with('m') => (t[..t.len() - 1].to_owned(), 1e6),
        t if t.ends_with('g') => (t[..t.len() - 1].to_owned(), 1e9),
        t => (t, 1.0),
    };
    let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number = digits.parse::<f64>().ok().filter(|_| plain);
    number.map(|n| n * factor).ok_or_else(|| "write a number such as 500, 2.4k or 1.2m".to_owned())
}

/// A count within bounds, which are named in the refusal.
pub fn bounded(text: &str, min: f64, max: f64) -> Result<f64, String> {
    let number = parse_count(text)?;
    if (min..=max).contains(&number) {
        return Ok(number);
    }
    Err(format!("{text} is not from {} to {}", human(min), human(max)))
}

/// The number in at most four characters and a unit, in the original script's way.
pub fn human(mut number: f64) -> String {
    let units = ["", "K", "M", "G", "T"];
    let mut unit = 0;
    while number >= 1000.0 && unit + 1 < units.len() {
        number /= 1000.0;
        unit += 1;
    }
    let unit_text = units.get(unit).copied().unwrap_or_default();
    if unit > 0 && number < 100.0 {
        format!("{number:.1}{unit_text}")
    } else {
        format!("{number:.0}{unit_text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_people_write_them() {
        let good = [("500", 500.0), ("2.4k", 2400.0), ("1.2m", 1.2e6), ("10K", 1e4), (" 1g ", 1e9)];
        for (text, expected) in good {
            assert!((parse_count(text).unwrap() - expected).abs() < 1e-6, "{text}");
        }
        for text in ["", "k", "1x", "-5", "1e5", "nan", "inf", "1.2.3", "ä"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
        assert!(bounded("99", 100.0, 2e6).unwrap_err().contains("100 to 2.0M"));
    }

    #[test]
    fn counts_are_shown_as_the_original_does() {
        let cases = [
            (0.0, "0"),
            (871.0, "871"),
            (1000.0, "1.0K"),
            (26_800.0, "26.8K"),
            (345_000.0, "345K"),
            (1_500_000.0, "1.5M"),
            (215e6, "215M"),
        ];
        for (number, expected) in cases {
            assert_eq!(human(number), expected);
        }
    }
}
