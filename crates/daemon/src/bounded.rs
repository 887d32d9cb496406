//! Reads whole files up to a limit. Files named by the user may be devices or pipes that never end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Limit for configuration files and files of flows, in bytes.
pub const TEXT_BYTES: u64 = 64 << 20;

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// The file cannot be read, or is longer than `limit`; that error names the limit.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let words = format!("has no end within {limit} bytes, which is the most that is read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
    }
    Ok(bytes)
}

/// Reads a text file of at most [`TEXT_BYTES`].
///
/// # Errors
/// As [`read`], or the file is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path, TEXT_BYTES)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_read_to_the_limit() {
        let error = read(Path::new("/dev/zero"), 4096).unwrap_err().to_string();
        assert_eq!(error, "has no end within 4096 bytes, which is the most that is read");
        assert_eq!(read(Path::new("/dev/null"), 4096).unwrap(), b"");
    }

    #[test]
    fn a_file_of_exactly_the_limit_is_read() {
        let path = std::env::temp_dir().join(format!("tidegate.bounded.{}", std::process::id()));
        std::fs::write(&path, b"12345678").unwrap();
        assert_eq!(read(&path, 8).unwrap(), b"12345678");
        assert!(read(&path, 7).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
