//! Parses and formats numbers with units: `2.4k`, `1.2m`, `345K`.

use std::ops::{Bound, RangeBounds};

/// Reads a count with an optional `k`, `m` or `g` (thousands, millions, thousand millions).
///
/// # Errors
/// The text is not such a number; the message says how to write one.
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

/// Parses a count within bounds. The error names them.
pub fn bounded(text: &str, min: f64, max: f64) -> Result<f64, String> {
    let number = parse_count(text)?;
    if (min..=max).contains(&number) {
        return Ok(number);
    }
    Err(format!("{text} is not from {} to {}", human(min), human(max)))
}

/// Reads a percentage, 0 to 100.
///
/// # Errors
/// The text is not one.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().map_err(|_| "write a percentage such as 0.02".to_owned())?;
    if (0.0..=100.0).contains(&number) { Ok(number) } else { Err("from 0 to 100".to_owned()) }
}

/// Reads the precision of a search in percent, 0.01 to 100: without one a search would not end.
///
/// # Errors
/// The text is not one.
pub fn precision(text: &str) -> Result<f64, String> {
    let number = percent(text)?;
    if number >= 0.01 { Ok(number) } else { Err("from 0.01 to 100".to_owned()) }
}

/// Reads whole numbers within bounds, for options of the command line: `64`, `10k`, `1.5m`.
pub fn whole<T: TryFrom<u64> + 'static>(
    bounds: impl RangeBounds<u64> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text: &str| {
        // Digits alone are exact; a float has only 53 bits.
        if let Ok(number) = text.trim().parse::<u64>() {
            let within = Some(number).filter(|number| bounds.contains(number));
            let number = within.and_then(|number| T::try_from(number).ok());
            return number.ok_or_else(|| outside(text, &bounds));
        }
        let number = parse_count(text)?;
        // The product of a fraction and a suffix may be off by a rounding error.
        let nearest = number.round();
        if (number - nearest).abs() > 1e-6 {
            return Err(format!("{text} is not a whole number"));
        }
        // The conversion saturates, so a number beyond 64 bits is refused before it.
        let fits = Some(nearest).filter(|&number| number < 2f64.powi(64));
        let within = fits.map(|number| number as u64).filter(|number| bounds.contains(number));
        within.and_then(|number| T::try_from(number).ok()).ok_or_else(|| outside(text, &bounds))
    }
}

fn outside(text: &str, bounds: &impl RangeBounds<u64>) -> String {
    let most = match bounds.end_bound() {
        Bound::Included(most) => Some(*most),
        Bound::Excluded(beyond) => Some(beyond - 1),
        Bound::Unbounded => None,
    };
    match (bounds.start_bound(), most) {
        (Bound::Included(least), Some(most)) => format!("{text} is not from {least} to {most}"),
        (Bound::Included(least), None) => format!("{text} is not from {least} on"),
        (_, _) => format!("{text} is too large"),
    }
}

/// Formats the number in at most four characters and a unit, as the original script does.
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

    #[test]
    fn searches_have_a_precision() {
        assert_eq!(precision("0.02"), Ok(0.02));
        for (text, error) in [
            ("0", "from 0.01 to 100"),
            ("-5", "from 0 to 100"),
            ("nan", "from 0 to 100"),
            ("1k", "write a percentage such as 0.02"),
        ] {
            assert_eq!(precision(text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn whole_numbers_have_the_same_suffixes() {
        let few = whole::<u16>(1..=64);
        let many = whole::<u32>(1000..=10_000_000);
        let any = whole::<u32>(..);
        let some = whole::<u32>(1..);
        let check = |got: Result<u32, String>, expect: Result<u32, &str>| {
            assert_eq!(got, expect.map_err(str::to_owned));
        };
        check(few("64").map(u32::from), Ok(64));
        check(few("0.064k").map(u32::from), Ok(64));
        check(few("65").map(u32::from), Err("65 is not from 1 to 64"));
        check(few("1.5").map(u32::from), Err("1.5 is not a whole number"));
        check(few("x").map(u32::from), Err("write a number such as 500, 2.4k or 1.2m"));
        check(many("2.3k"), Ok(2300));
        check(many("1m"), Ok(1_000_000));
        check(many("10M"), Ok(10_000_000));
        check(many("1g"), Err("1g is not from 1000 to 10000000"));
        check(any("0"), Ok(0));
        check(any("5g"), Err("5g is too large"));
        check(some("0"), Err("0 is not from 1 on"));
        let most = whole::<u64>(..);
        let beyond = "18446744073709551616";
        assert_eq!(most("18446744073709549568"), Ok(18_446_744_073_709_549_568));
        // Digits are exact, also beyond a float's 53 bits.
        assert_eq!(most("9007199254740993"), Ok(9_007_199_254_740_993));
        assert_eq!(most(beyond), Err(format!("{beyond} is too large")));
    }
}
