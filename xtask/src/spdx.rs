//! Evaluates SPDX licence expressions against a list of allowed licences.

use std::collections::BTreeSet;

/// The licences that may be used, each as deny.toml writes it (`MIT`,
/// `Apache-2.0 WITH LLVM-exception`).
#[derive(Debug, Default)]
pub struct Allowed(BTreeSet<String>);

impl Allowed {
    /// Takes the list.
    pub fn new<I: IntoIterator<Item = String>>(licences: I) -> Self {
        Self(licences.into_iter().collect())
    }

    /// Whether an expression can be satisfied with allowed licences alone.
    ///
    /// `/` counts as `OR`, as in older manifests. The error is the part that cannot be parsed.
    pub fn satisfies(&self, expression: &str) -> Result<bool, String> {
        let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut parser = Parser { words: &words, at: 0, allowed: self };
        let answer = parser.any()?;
        match parser.peek() {
            None => Ok(answer),
            Some(word) => Err(format!("`{word}` is not expected in `{expression}`")),
        }
    }
}

/// Reads by precedence: `OR` binds least, then `AND`, then `WITH`.
struct Parser<'a> {
    words: &'a [&'a str],
    at: usize,
    allowed: &'a Allowed,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut answer = self.all()?;
        while self.take("OR") {
            answer |= self.all()?;
        }
        Ok(answer)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut answer = self.one()?;
        while self.take("AND") {
            answer &= self.one()?;
        }
        Ok(answer)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let answer = self.any()?;
            return if self.take(")") { Ok(answer) } else { Err("a `)` is missing".to_owned()) };
        }
        let name = self.name("a licence")?;
        if !self.take("WITH") {
            return Ok(self.allowed.0.contains(name));
        }
        let exception = self.name("an exception")?;
        Ok(self.allowed.0.contains(&format!("{name} WITH {exception}")))
    }

    fn name(&mut self, what: &str) -> Result<&'a str, String> {
        match self.peek() {
            Some(word) if !matches!(word, "(" | ")" | "AND" | "OR" | "WITH") => {
                self.at += 1;
                Ok(word)
            }
            Some(word) => Err(format!("{what} should stand where `{word}` does")),
            None => Err(format!("{what} is missing at the end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Allowed {
        let names = ["MIT", "Apache-2.0", "ISC", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];
        Allowed::new(names.map(str::to_owned))
    }

    #[test]
    fn expressions() {
        let cases = [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT OR GPL-3.0-only", true),
            ("GPL-3.0-only OR MIT", true),
            ("MIT AND GPL-3.0-only", false),
            ("Apache-2.0 AND ISC", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND MPL-2.0", false),
            ("GPL-2.0-only OR MIT AND MPL-2.0", false),
            ("MIT OR ISC AND MPL-2.0", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("MIT WITH LLVM-exception", false),
            ("GPL-2.0-only WITH Classpath-exception-2.0 OR ISC", true),
            ("MIT/GPL-3.0", true),
            ("((MIT))", true),
            ("mit", false),
        ];
        for (expression, expect) in cases {
            assert_eq!(allowed().satisfies(expression), Ok(expect), "{expression}");
        }
    }

    #[test]
    fn what_is_no_expression() {
        for expression in ["", "MIT OR", "AND MIT", "(MIT", "MIT)", "MIT ISC", "MIT WITH", "()"] {
            assert!(allowed().satisfies(expression).is_err(), "{expression:?}");
        }
    }
}
