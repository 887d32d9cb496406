//! Dates for the patterns of log messages: strftime(3) in the C locale, computed from a number of seconds
//! alone.

use std::fmt::Write;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A broken-down date and time, in UTC or local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// Year of the Gregorian calendar.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 for Sunday.
    pub weekday: u32,
    /// 1 to 366.
    pub day_of_year: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 59: Unix time has no leap seconds.
    pub second: u32,
    /// 0 to 999.
    pub millisecond: u32,
    /// Seconds east of Greenwich.
    pub utc_offset_s: i32,
    /// Seconds since 1970.
    pub unix_s: i64,
}

impl Date {
    /// The date `unix_ms` milliseconds after the start of 1970, on a clock that is `utc_offset_s` seconds
    /// ahead of UTC.
    pub fn new(unix_ms: i64, utc_offset_s: i32) -> Self {
        let unix_s = unix_ms.div_euclid(1000);
        let local_s = unix_s.saturating_add(i64::from(utc_offset_s));
        let days = local_s.div_euclid(86_400);
        let second_of_day = local_s.rem_euclid(86_400) as u32;
        let (year, month, day) = civil(days);
        let leap = u32::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
        let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let before = before.get(month as usize - 1).copied().unwrap_or(0);
        Date {
            year,
            month,
            day,
            // 1 January 1970 was a Thursday.
            weekday: (days + 4).rem_euclid(7) as u32,
            day_of_year: before + day + if month > 2 { leap } else { 0 },
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
            millisecond: unix_ms.rem_euclid(1000) as u32,
            utc_offset_s,
            unix_s,
        }
    }

    /// Appends the date in a format of strftime(3), in which each `#` is the next digit of the fraction of
    /// the second. Unknown conversions are copied.
    pub fn format(&self, format: &str, out: &mut String) {
        let start = out.len();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            match c {
                '%' => match chars.next() {
                    Some(conversion) => self.convert(conversion, out),
                    None => out.push('%'),
                },
                c => out.push(c),
            }
        }
        if out.get(start..).is_some_and(|text| text.contains('#')) {
            let mut digits = format!("{:03}", self.millisecond).into_bytes().into_iter();
            let text = out.split_off(start);
            out.extend(text.chars().map(|c| match c {
                '#' => digits.next().map_or('0', char::from),
                c => c,
            }));
        }
    }

    fn convert(&self, conversion: char, out: &mut String) {
        let month = MONTHS.get(self.month as usize - 1).copied().unwrap_or("?");
        let day = DAYS.get(self.weekday as usize).copied().unwrap_or("?");
        let hour12 = (self.hour + 11) % 12 + 1;
        let offset_min = self.utc_offset_s.abs() / 60;
        let sign = if self.utc_offset_s < 0 { '-' } else { '+' };
        // Writing to a String cannot fail.
        let _ = match conversion {
            'a' => write!(out, "{day:.3}"),
            'A' => write!(out, "{day}"),
            'b' | 'h' => write!(out, "{month:.3}"),
            'B' => write!(out, "{month}"),
            'C' => write!(out, "{:02}", self.year.div_euclid(100)),
            'd' => write!(out, "{:02}", self.day),
            'e' => write!(out, "{:2}", self.day),
            'H' => write!(out, "{:02}", self.hour),
            'I' => write!(out, "{hour12:02}"),
            'j' => write!(out, "{:03}", self.day_of_year),
            'k' => write!(out, "{:2}", self.hour),
            'l' => write!(out, "{hour12:2}"),
            'm' => write!(out, "{:02}", self.month),
            'M' => write!(out, "{:02}", self.minute),
            'n' => writeln!(out),
            'p' => write!(out, "{}", if self.hour < 12 { "AM" } else { "PM" }),
            's' => write!(out, "{}", self.unix_s),
            'S' => write!(out, "{:02}", self.second),
            't' => write!(out, "\t"),
            'u' => write!(out, "{}", (self.weekday + 6) % 7 + 1),
            'w' => write!(out, "{}", self.weekday),
            'y' => write!(out, "{:02}", self.year.rem_euclid(100)),
            'Y' => write!(out, "{}", self.year),
            'z' => write!(out, "{sign}{:02}{:02}", offset_min / 60, offset_min % 60),
            '%' => write!(out, "%"),
            'c' => return self.format("%a %b %e %H:%M:%S %Y", out),
            'D' | 'x' => return self.format("%m/%d/%y", out),
            'F' => return self.format("%Y-%m-%d", out),
            'r' => return self.format("%I:%M:%S %p", out),
            'R' => return self.format("%H:%M", out),
            'T' | 'X' => return self.format("%H:%M:%S", out),
            other => write!(out, "%{other}"),
        };
    }
}

/// Converts days since 1970-01-01 to year, month and day.
///
/// The year is counted from March, so that the leap day is its last: the days before a month are then a
/// linear function, rounded down.
fn civil(days: i64) -> (i64, u32, u32) {
    const DAYS_IN_400_YEARS: i64 = 146_097;
    const DAYS_FROM_YEAR_0_TO_1970: i64 = 719_468;
    let days = days + DAYS_FROM_YEAR_0_TO_1970;
    let era = days.div_euclid(DAYS_IN_400_YEARS);
    let day_of_era = days.rem_euclid(DAYS_IN_400_YEARS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month as u32, day as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unix_ms: i64, utc_offset_s: i32, format: &str, expect: &str) {
        let mut out = String::new();
        Date::new(unix_ms, utc_offset_s).format(format, &mut out);
        assert_eq!(out, expect, "{unix_ms} {format}");
    }

    /// Expected texts come from date(1) with the same format.
    #[test]
    fn dates_are_those_of_the_c_library() {
        check(0, 0, "%F %T %a %j", "1970-01-01 00:00:00 Thu 001");
        check(951_782_400_000, 0, "%F %j %A", "2000-02-29 060 Tuesday");
        check(951_868_800_000, 0, "%F %j", "2000-03-01 061");
        check(1_078_012_800_000, 0, "%F %j", "2004-02-29 060");
        check(4_107_542_400_000, 0, "%F %j", "2100-03-01 060");
        check(1_767_225_599_999, 0, "%Y-%m-%dT%H:%M:%S.###Z", "2025-12-31T23:59:59.999Z");
        check(-1, 0, "%F %T.### %a", "1969-12-31 23:59:59.999 Wed");
        check(1_795_266_658_035, 0, "%h %e %T", "Nov 21 13:10:58");
        check(1_795_266_658_035, -12_600, "%F %R %z", "2026-11-21 09:40 -0330");
        check(1_795_266_658_035, 0, "%I:%M %p|%D|%c", "01:10 PM|11/21/26|Sat Nov 21 13:10:58 2026");
        check(1_795_266_658_005, 0, "%s.#", "1795266658.0");
        check(0, 0, "%Q%", "%Q%");
    }

    #[test]
    fn no_moment_is_too_far() {
        for ms in [i64::MIN, i64::MAX] {
            let mut out = String::new();
            Date::new(ms, i32::MAX).format("%c %j", &mut out);
            assert!(!out.is_empty());
        }
    }
}
