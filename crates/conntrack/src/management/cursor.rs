//! The position of a dump.

use crate::error::Error;
use std::fmt;
use std::str::FromStr;

/// The position of a dump; [`Cursor::default`] is the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    pub(crate) zone: u16,
    pub(crate) bucket: u64,
}

impl fmt::Display for Cursor {
    /// `zone:bucket`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.zone, self.bucket)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    /// Parses the text of [`Display`](fmt::Display).
    fn from_str(text: &str) -> Result<Cursor, Error> {
        let bad = || Error::BadValue { key: "cursor".to_owned() };
        let (zone, bucket) = text.split_once(':').ok_or_else(bad)?;
        let (zone, bucket) = (zone.parse().map_err(|_| bad())?, bucket.parse().map_err(|_| bad())?);
        Ok(Cursor { zone, bucket })
    }
}
