//! Splits Rust source into code and comments, so that the checks never mistake a word in a
//! string or in a comment for code.
//!
//! This is a scanner, not a parser: it recognises comments (also nested ones), strings, raw strings,
//! byte and C strings, and character literals. It accepts any input, and never panics on text that is
//! not Rust.

/// A source text split into two texts with the same lines: code without comments and contents of
/// literals, and comments only.
#[derive(Debug)]
pub struct Source {
    /// The code of each line. Comments and the contents of literals are blanked; quotes stay.
    pub code: Vec<String>,
    /// The comments of each line, with their slashes and stars.
    pub comments: Vec<String>,
}

/// A word (identifier, keyword or number) or a single punctuation character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// The word, or the character.
    pub text: &'a str,
    /// Line, counted from 1.
    pub line: usize,
}

impl Source {
    /// Scans a whole file.
    pub fn new(text: &str) -> Self {
        let mut scanner = Scanner {
            chars: text.chars().collect(),
            at: 0,
            code: String::with_capacity(text.len()),
            comments: String::new(),
        };
        scanner.run();
        Self {
            code: scanner.code.lines().map(str::to_owned).collect(),
            comments: scanner.comments.lines().map(str::to_owned).collect(),
        }
    }

    /// The number of lines.
    pub fn lines(&self) -> usize {
        self.code.len()
    }

    /// The code of a line counted from 1, empty past the end.
    pub fn code_at(&self, line: usize) -> &str {
        line.checked_sub(1).and_then(|i| self.code.get(i)).map_or("", String::as_str)
    }

    /// The comments of a line counted from 1, empty past the end.
    pub fn comment_at(&self, line: usize) -> &str {
        line.checked_sub(1).and_then(|i| self.comments.get(i)).map_or("", String::as_str)
    }

    /// The tokens of the code.
    pub fn tokens(&self) -> Vec<Token<'_>> {
        let mut tokens = Vec::new();
        for (number, code) in self.code.iter().enumerate() {
            let line = number + 1;
            let mut rest = code.trim_start();
            while let Some(first) = rest.chars().next() {
                let len = if is_word(first) {
                    rest.find(|c| !is_word(c)).unwrap_or(rest.len())
                } else {
                    first.len_utf8()
                };
                let (text, after) = rest.split_at(len);
                tokens.push(Token { text, line });
                rest = after.trim_start();
            }
        }
        tokens
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    code: String,
    comments: String,
}

impl Scanner {
    fn run(&mut self) {
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('/')) => self.line_comment(),
                ('/', Some('*')) => self.block_comment(),
                ('"', _) => self.string(),
                ('\'', _) => self.quote(),
                ('r' | 'b' | 'c', _) if !self.after_word() => self.prefixed(),
                _ => self.keep(),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Whether the character before this one belongs to a word, as the `r` of `for"` does.
    fn after_word(&self) -> bool {
        self.at.checked_sub(1).and_then(|i| self.chars.get(i)).is_some_and(|c| is_word(*c))
    }

    /// Takes one character as code.
    fn keep(&mut self) {
        if let Some(c) = self.peek(0) {
            self.code.push(c);
            if c == '\n' {
                self.comments.push('\n');
            }
            self.at += 1;
        }
    }

    /// Takes one character as the inside of a literal.
    fn blank(&mut self) {
        if let Some(c) = self.peek(0) {
            let shown = if c == '\n' { '\n' } else { ' ' };
            self.code.push(shown);
            if c == '\n' {
                self.comments.push('\n');
            }
            self.at += 1;
        }
    }

    /// Takes one character as comment.
    fn comment(&mut self) {
        if let Some(c) = self.peek(0) {
            self.code.push(if c == '\n' { '\n' } else { ' ' });
            self.comments.push(c);
            self.at += 1;
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.comment();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    self.comment();
                    continue;
                }
            }
            self.comment();
            self.comment();
            if depth == 0 {
                return;
            }
        }
    }

    /// A string with escapes, from its opening quote.
    fn string(&mut self) {
        self.keep();
        while let Some(c) = self.peek(0) {
            match c {
                '"' => return self.keep(),
                '\\' => {
                    self.blank();
                    self.blank();
                }
                _ => self.blank(),
            }
        }
    }

    /// A character literal, or the quote of a lifetime or label.
    fn quote(&mut self) {
        let next = (self.peek(1), self.peek(2));
        if !matches!(next, (Some('\\'), _) | (Some(_), Some('\''))) {
            return self.keep();
        }
        self.blank();
        if self.peek(0) == Some('\\') {
            self.blank();
        }
        self.blank();
        while let Some(c) = self.peek(0) {
            self.blank();
            if c == '\'' {
                return;
            }
        }
    }

    /// A word that begins with `r`, `b` or `c`: perhaps the prefix of a literal.
    fn prefixed(&mut self) {
        let mut ahead = 1;
        let mut raw = self.peek(0) == Some('r');
        if !raw && self.peek(1) == Some('r') {
            raw = true;
            ahead = 2;
        }
        let mut hashes = 0;
        while raw && self.peek(ahead + hashes) == Some('#') {
            hashes += 1;
        }
        if self.peek(ahead + hashes) != Some('"') {
            // An ordinary word, a raw identifier (`r#fn`), or a byte (`b'x'`), whose quote the
            // next round sees.
            return self.keep();
        }
        for _ in 0..ahead + hashes {
            self.blank();
        }
        if raw { self.raw_string(hashes) } else { self.string() }
    }

    /// A raw string, from its opening quote; `hashes` close it together with the quote.
    fn raw_string(&mut self, hashes: usize) {
        self.keep();
        while let Some(c) = self.peek(0) {
            if c == '"' && (1..=hashes).all(|i| self.peek(i) == Some('#')) {
                self.keep();
                for _ in 0..hashes {
                    self.blank();
                }
                return;
            }
            self.blank();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        Source::new(text)
            .tokens()
            .iter()
            .filter(|t| t.text.starts_with(is_word))
            .map(|t| t.text.to_owned())
            .collect()
    }

    #[test]
    fn only_code_is_left() {
        let cases: &[(&str, &[&str])] = &[
            ("let a = 1; // unsafe", &["let", "a", "1"]),
            ("a /* b /* c */ d */ e", &["a", "e"]),
            ("a /* never closed", &["a"]),
            (r#"f("unsafe \" { fn") g"#, &["f", "g"]),
            ("r\"un\\\" safe", &["safe"]),
            ("r##\"x \"# y\"## z", &["z"]),
            ("br#\"x\"# c\"y\" b\"z\" w", &["w"]),
            ("r#fn r#type", &["r", "fn", "r", "type"]),
            ("for\"x\" bar", &["for", "bar"]),
            (r"'{' '\'' '\\' '\u{7f}' b'x' a", &["b", "a"]),
            ("'\"' a '\"' b", &["a", "b"]),
            (
                "fn f<'a>(x: &'a str) -> &'static str",
                &["fn", "f", "a", "x", "a", "str", "static", "str"],
            ),
            ("'outer: loop { break 'outer }", &["outer", "loop", "break", "outer"]),
            ("a / b", &["a", "b"]),
            ("\"never closed fn", &[]),
            ("'", &[]),
            ("'\\", &[]),
            ("/*/ fn */ a", &["a"]),
        ];
        for (text, expect) in cases {
            assert_eq!(&words(text), expect, "in {text:?}");
        }
    }

    #[test]
    fn lines_stay_where_they_are() {
        let text = "a\n\"one\ntwo\"\n/* three\nfour */ b\nr\"\n\" c // d\n";
        let source = Source::new(text);
        assert_eq!(source.lines(), text.lines().count());
        let at: Vec<_> = source.tokens().iter().map(|t| (t.text.to_owned(), t.line)).collect();
        assert!(at.contains(&("b".to_owned(), 5)), "{at:?}");
        assert!(at.contains(&("c".to_owned(), 7)), "{at:?}");
        assert_eq!(source.comment_at(4), "/* three");
        assert_eq!(source.comment_at(7), "// d");
        assert_eq!(source.comment_at(0), "");
        assert_eq!(source.code_at(99), "");
    }
}
