//! The outline of a Rust file: functions and their length, every `unsafe`, modules, and which lines are
//! tests.

use std::ops::RangeInclusive;

use crate::scan::{Source, Token};

/// The outline of one file.
#[derive(Debug, Default)]
pub struct Outline {
    /// Every function with a body, nested ones too, in order.
    pub functions: Vec<Function>,
    /// Every `unsafe` that is not a function pointer type.
    pub unsafe_sites: Vec<UnsafeSite>,
    /// Every `mod`, declared or with a body.
    pub modules: Vec<Module>,
    /// The lines of items under `#[cfg(test)]`.
    pub tests: Vec<RangeInclusive<usize>>,
    /// Whether the file says `#![forbid(unsafe_code)]`.
    pub forbids_unsafe: bool,
}

/// A function, from its `fn` to the closing brace.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, without the type it belongs to.
    pub name: String,
    /// The line of its `fn`.
    pub line: usize,
    /// How many lines it takes.
    pub lines: usize,
}

/// A module's name and the line of its `mod`.
#[derive(Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// The line of its `mod`.
    pub line: usize,
}

/// One `unsafe`.
#[derive(Debug, PartialEq, Eq)]
pub struct UnsafeSite {
    /// The line of the word.
    pub line: usize,
    /// Whether it opens a contract for callers (`unsafe fn`, `unsafe trait`), which may also be
    /// documented under a `# Safety` heading.
    pub contract: bool,
}

impl Outline {
    /// Reads the outline of a scanned file.
    pub fn new(source: &Source) -> Self {
        let tokens = source.tokens();
        let mut outline = Self::default();
        for at in 0..tokens.len() {
            match tokens[at].text {
                "fn" => outline.functions.extend(function(&tokens, at)),
                "unsafe" => outline.unsafe_sites.extend(unsafe_site(&tokens, at)),
                "mod" => outline.modules.extend(name_after(&tokens, at)),
                "#" => outline.attribute(&tokens, at, source.lines()),
                _ => {}
            }
        }
        outline
    }

    /// Whether a line belongs to an item under `#[cfg(test)]`.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&line))
    }

    /// Records the attribute at `at` if it matters here.
    fn attribute(&mut self, tokens: &[Token<'_>], at: usize, lines: usize) {
        let inner = text(tokens, at + 1) == "!";
        let open = at + 1 + usize::from(inner);
        if text(tokens, open) != "[" {
            return;
        }
        let close = matching(tokens, open);
        let words: Vec<&str> = tokens[open + 1..close].iter().map(|t| t.text).collect();
        if inner && words.first() == Some(&"forbid") && words.contains(&"unsafe_code") {
            self.forbids_unsafe = true;
        }
        // `cfg(not(test))` and `cfg(any(test, ...))` are also built outside tests.
        let only_tests = words.first() == Some(&"cfg")
            && words.contains(&"test")
            && !words.windows(3).any(|three| three == ["not", "(", "test"])
            && !words.contains(&"any");
        if only_tests && inner {
            self.tests.push(1..=lines);
        } else if only_tests {
            let end = item_end(tokens, close + 1);
            let last = tokens.get(end).map_or(lines, |t| t.line);
            self.tests.push(tokens[at].line..=last);
        }
    }
}

/// The text of a token, empty past the end.
fn text<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |t| t.text)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn name_after(tokens: &[Token<'_>], at: usize) -> Option<Module> {
    let name = text(tokens, at + 1);
    let ends = matches!(text(tokens, at + 2), ";" | "{");
    (is_name(name) && ends).then(|| Module { name: name.to_owned(), line: tokens[at].line })
}

/// The function whose `fn` is at `at`, unless it is a pointer type or has no body.
fn function(tokens: &[Token<'_>], at: usize) -> Option<Function> {
    let mut name = text(tokens, at + 1);
    if name == "r" && text(tokens, at + 2) == "#" {
        name = text(tokens, at + 3);
    }
    if !is_name(name) {
        return None;
    }
    let open = head_end(tokens, at);
    if text(tokens, open) != "{" {
        return None;
    }
    let last = tokens.get(matching(tokens, open)).or(tokens.last())?;
    let line = tokens[at].line;
    Some(Function { name: name.to_owned(), line, lines: last.line + 1 - line })
}

fn unsafe_site(tokens: &[Token<'_>], at: usize) -> Option<UnsafeSite> {
    let mut next = at + 1;
    if text(tokens, next) == "extern" {
        next += 1;
        while text(tokens, next) == "\"" {
            next += 1;
        }
    }
    let is_fn = text(tokens, next) == "fn";
    if is_fn && text(tokens, next + 1) == "(" {
        // The type of a pointer: its caller writes the `unsafe` block.
        return None;
    }
    let contract = is_fn || text(tokens, next) == "trait";
    Some(UnsafeSite { line: tokens[at].line, contract })
}

/// The index of the `{` or `;` that ends the head of the item at `at`.
fn head_end(tokens: &[Token<'_>], at: usize) -> usize {
    let mut next = at;
    loop {
        match text(tokens, next) {
            "{" | ";" | "" => return next,
            "(" | "[" => next = matching(tokens, next) + 1,
            _ => next += 1,
        }
    }
}

/// The index of the last token of the item whose attributes continue at `at`.
fn item_end(tokens: &[Token<'_>], mut at: usize) -> usize {
    while text(tokens, at) == "#" && text(tokens, at + 1) == "[" {
        at = matching(tokens, at + 1) + 1;
    }
    let end = head_end(tokens, at);
    if text(tokens, end) == "{" { matching(tokens, end) } else { end }
}

/// The index of the bracket that closes the one at `open`; past the end if there is none.
fn matching(tokens: &[Token<'_>], open: usize) -> usize {
    let opening = text(tokens, open);
    let closing = match opening {
        "{" => "}",
        "[" => "]",
        _ => ")",
    };
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.text == opening {
            depth += 1;
        } else if token.text == closing {
            depth -= 1;
            if depth == 0 {
                return at;
            }
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(text: &str) -> Outline {
        Outline::new(&Source::new(text))
    }

    #[test]
    fn functions_and_their_lengths() {
        type Expected = (&'static str, usize, usize);
        let cases: &[(&str, &[Expected])] = &[
            ("fn a() {}\n", &[("a", 1, 1)]),
            (
                "\npub const fn a(\n  x: [u8; 3],\n) -> [u8; { 2 }]\nwhere T: B {\n  x\n}\n",
                &[("a", 2, 6)],
            ),
            ("trait T {\n fn no_body(&self);\n fn body(&self) {\n }\n}", &[("body", 3, 2)]),
            ("fn outer() {\n fn inner() {}\n}", &[("outer", 1, 3), ("inner", 2, 1)]),
            ("type F = fn(u8) -> u8; struct S { f: unsafe fn(u8) }", &[]),
            ("fn a() {\n let b = \"}\"; // }\n let c = '}';\n}", &[("a", 1, 4)]),
            ("fn r#type() {}", &[("type", 1, 1)]),
            ("macro_rules! m { ($n:ident) => { fn $n() {} } }", &[]),
            ("fn never_closed() {\n a\n", &[("never_closed", 1, 2)]),
        ];
        for (text, expect) in cases {
            let found: Vec<_> =
                outline(text).functions.into_iter().map(|f| (f.name, f.line, f.lines)).collect();
            let expect: Vec<_> = expect.iter().map(|(n, l, s)| (n.to_string(), *l, *s)).collect();
            assert_eq!(found, expect, "in {text:?}");
        }
    }

    #[test]
    fn every_unsafe_but_pointer_types() {
        let cases: &[(&str, &[(usize, bool)])] = &[
            ("unsafe { x }", &[(1, false)]),
            ("\npub unsafe fn f() {}", &[(2, true)]),
            ("unsafe extern \"C\" fn f() {}", &[(1, true)]),
            ("unsafe extern \"C\" { }", &[(1, false)]),
            ("unsafe impl Send for X {}\nunsafe trait Y {}", &[(1, false), (2, true)]),
            ("#[unsafe(no_mangle)] fn f() {}", &[(1, false)]),
            ("type F = unsafe fn(u8); type G = unsafe extern \"C\" fn(u8);", &[]),
            ("// unsafe\nlet a = \"unsafe\"; unsafe_code();", &[]),
        ];
        for (text, expect) in cases {
            let found: Vec<_> =
                outline(text).unsafe_sites.iter().map(|s| (s.line, s.contract)).collect();
            assert_eq!(&found, expect, "in {text:?}");
        }
    }

    #[test]
    fn test_items_are_found() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n";
        let o = outline(text);
        assert_eq!(o.tests, vec![2..=6]);
        assert!(o.is_test_line(5) && !o.is_test_line(1) && !o.is_test_line(7));
        assert_eq!(outline("#[cfg(test)]\nmod tests;\nfn c() {}").tests, vec![1..=2]);
        assert_eq!(outline("#[cfg(all(test, unix))]\nfn t() {\n}").tests, vec![1..=3]);
        assert_eq!(outline("#![cfg(test)]\nfn t() {\n}").tests, vec![1..=3]);
        assert_eq!(outline("#[cfg(all(test, not(loom)))]\nfn t() {\n}").tests, vec![1..=3]);
        assert!(outline("#[cfg(not(test))]\nfn t() {}").tests.is_empty());
        assert!(outline("#[cfg(any(test, unix))]\nfn t() {}").tests.is_empty());
    }

    #[test]
    fn modules_and_forbid() {
        let o = outline("#![forbid(unsafe_code)]\nmod a;\npub mod b {\n mod c;\n}\nlet model = 1;");
        let names: Vec<_> = o.modules.iter().map(|m| (m.name.as_str(), m.line)).collect();
        assert_eq!(names, [("a", 2), ("b", 3), ("c", 4)]);
        assert!(o.forbids_unsafe);
        assert!(outline("#![forbid(missing_docs, unsafe_code)]").forbids_unsafe);
        assert!(!outline("// #![forbid(unsafe_code)]\n#![deny(unsafe_code)]").forbids_unsafe);
    }
}
