//! Translates packets between `wire::text`'s form and hexadecimal digits, line by line.
//!
//! A line of hexadecimal digits only is a frame, whose description is printed. Any other line is a
//! description, whose frame is printed. For every line exactly one line is printed, `error: ...` if it is
//! invalid, so that a program that uses it through a pipe (`testdata/oracle`) stays synchronized.

use std::io::{BufRead, Write};

fn main() -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = translate(line?.trim()).unwrap_or_else(|what| format!("error: {what}"));
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

fn translate(line: &str) -> Result<String, String> {
    match bytes(line) {
        Some(frame) => wire::text::describe(&frame).map_err(|error| error.to_string()),
        None => {
            let frame = wire::text::parse(line).map_err(|error| error.to_string())?;
            Ok(frame.iter().map(|byte| format!("{byte:02x}")).collect())
        }
    }
}

/// Returns the bytes of a line that consists only of pairs of hexadecimal digits.
fn bytes(line: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = line.chars().map(|digit| digit.to_digit(16)).collect();
    let pairs = digits?;
    let whole = !pairs.is_empty() && pairs.len() % 2 == 0;
    whole.then(|| pairs.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}
