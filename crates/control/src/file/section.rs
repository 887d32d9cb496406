//! A table of a TOML file that records which of its keys were read.

use crate::FileError;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use toml_edit::{Item, TableLike, Value};

/// Byte range in the text; `None` if it is unknown, which counts as the beginning.
pub(super) type Span = Option<Range<usize>>;

/// The errors so far.
pub(super) struct Errors<'a> {
    text: &'a str,
    file: &'a str,
    list: Vec<FileError>,
}

/// A table. After its keys are read, [`Section::finish`] reports the others.
pub(super) struct Section<'a> {
    table: &'a dyn TableLike,
    /// Its name in messages, such as "a bridge".
    what: &'static str,
    span: Span,
    known: Vec<&'static str>,
}

impl<'a> Errors<'a> {
    pub(super) fn new(text: &'a str, file: &'a str) -> Self {
        Errors { text, file, list: Vec::new() }
    }

    pub(super) fn add(&mut self, span: Span, message: impl Into<String>) {
        let start = span.map_or(0, |span| span.start);
        let before = self.text.get(..start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        self.list.push(FileError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).map_or(0, |line| line.chars().count()) + 1,
            message: message.into(),
        });
    }

    /// Returns the errors in the order of the text, if there are any.
    pub(super) fn into_result(mut self) -> Result<(), Vec<FileError>> {
        self.list.sort();
        self.list.dedup();
        if self.list.is_empty() { Ok(()) } else { Err(self.list) }
    }
}

impl<'a> Section<'a> {
    pub(super) fn new(table: &'a dyn TableLike, what: &'static str, span: Span) -> Self {
        Section { table, what, span, known: Vec::new() }
    }

    /// Returns the table in `item`, or reports an error.
    pub(super) fn of_item(
        item: &'a Item,
        what: &'static str,
        span: Span,
        errors: &mut Errors<'_>,
    ) -> Option<Self> {
        let table = item.as_table_like();
        if table.is_none() {
            let words = format!("expected {what} as a table, found {}", item.type_name());
            errors.add(item.span().or_else(|| span.clone()), words);
        }
        table.map(|table| Section::new(table, what, item.span().or(span)))
    }

    /// Returns the keys with their positions and values.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, Span, &'a Item)> {
        let table = self.table;
        table.iter().map(move |(name, item)| (name, key_span(table, name), item))
    }

    /// Returns a nested table.
    pub(super) fn section(
        &mut self,
        key: &'static str,
        errors: &mut Errors<'_>,
    ) -> Option<Section<'a>> {
        let item = self.item(key)?;
        Section::of_item(item, name_of_section(key), key_span(self.table, key), errors)
    }

    /// Returns the tables of an array of tables.
    pub(super) fn sections(
        &mut self,
        key: &'static str,
        errors: &mut Errors<'_>,
    ) -> Vec<Section<'a>> {
        let Some(item) = self.item(key) else { return Vec::new() };
        let what = name_of_section(key);
        match item {
            Item::ArrayOfTables(tables) => {
                tables.iter().map(|table| Section::new(table, what, table.span())).collect()
            }
            Item::Value(Value::Array(values)) => {
                let mut sections = Vec::new();
                for value in values {
                    match value.as_inline_table() {
                        Some(table) => sections.push(Section::new(table, what, value.span())),
                        None => {
                            let words =
                                format!("expected {what} as a table, found {}", value.type_name());
                            errors.add(value.span(), words);
                        }
                    }
                }
                sections
            }
            other => {
                let words =
                    format!("expected a list, found {}; write [[{key}]]", other.type_name());
                errors.add(key_span(self.table, key), words);
                Vec::new()
            }
        }
    }

    pub(super) fn string(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<String> {
        self.string_at(key, errors).map(|(text, _)| text)
    }

    /// Returns a required string that is not empty.
    pub(super) fn required_string(
        &mut self,
        key: &'static str,
        errors: &mut Errors<'_>,
    ) -> Option<(String, Span)> {
        if !self.table.contains_key(key) {
            self.known.push(key);
            errors.add(self.span.clone(), format!("{} needs `{key}`; add it", self.what));
            return None;
        }
        let (text, span) = self.string_at(key, errors)?;
        if text.is_empty() {
            errors.add(span, format!("`{key}` is empty; give it a value"));
            return None;
        }
        Some((text, span))
    }

    pub(super) fn boolean(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<bool> {
        let value = self.value(key, errors)?;
        let flag = value.as_bool();
        if flag.is_none() {
            expected(key, "true or false", value, errors);
        }
        flag
    }

    pub(super) fn integer<T>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<T>,
        errors: &mut Errors<'_>,
    ) -> Option<T>
    where
        T: TryFrom<i64> + PartialOrd + fmt::Display,
    {
        self.integer_at(key, range, errors).map(|(number, _)| number)
    }

    pub(super) fn integer_at<T>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<T>,
        errors: &mut Errors<'_>,
    ) -> Option<(T, Span)>
    where
        T: TryFrom<i64> + PartialOrd + fmt::Display,
    {
        let value = self.value(key, errors)?;
        integer_in(key, value, &range, errors).map(|number| (number, value.span()))
    }

    /// Returns a list of numbers, in ascending order and without duplicates.
    pub(super) fn integers(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u16>,
        errors: &mut Errors<'_>,
    ) -> Vec<u16> {
        let values = self.list(key, "a list of numbers", errors);
        let read = |value| integer_in(key, value, &range, errors);
        let mut numbers: Vec<u16> = values.into_iter().filter_map(read).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    pub(super) fn strings(
        &mut self,
        key: &'static str,
        errors: &mut Errors<'_>,
    ) -> Vec<(String, Span)> {
        let mut strings = Vec::new();
        for value in self.list(key, "a list of strings", errors) {
            match value.as_str() {
                Some(text) => strings.push((text.to_owned(), value.span())),
                None => expected(key, "a string", value, errors),
            }
        }
        strings
    }

    pub(super) fn string_map(
        &mut self,
        key: &'static str,
        errors: &mut Errors<'_>,
    ) -> BTreeMap<String, String> {
        let mut pairs = BTreeMap::new();
        if let Some(section) = self.section(key, errors) {
            for (name, span, item) in section.entries() {
                match item.as_str() {
                    Some(text) => {
                        pairs.insert(name.to_owned(), text.to_owned());
                    }
                    None => errors.add(
                        item.span().or(span),
                        format!("expected a string for `{name}`, found {}", item.type_name()),
                    ),
                }
            }
        }
        pairs
    }

    /// Returns the value for a string, which must be one of those given.
    pub(super) fn one_of<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
        errors: &mut Errors<'_>,
    ) -> Option<T> {
        let (text, span) = self.string_at(key, errors)?;
        let found = choices.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let names: Vec<String> =
                choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            let words = format!("\"{text}\" is not a `{key}`; choose from {}", names.join(", "));
            errors.add(span, words);
        }
        found.map(|(_, choice)| *choice)
    }

    /// Returns a string's value as parsed by `read`; `what` describes the valid ones.
    pub(super) fn parsed<T>(
        &mut self,
        key: &'static str,
        what: &str,
        errors: &mut Errors<'_>,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let (text, span) = self.string_at(key, errors)?;
        let value = read(&text);
        if value.is_none() {
            errors.add(span, format!("`{key}` is \"{text}\"; it has to be {what}"));
        }
        value
    }

    /// Reports a key that is invalid in this place.
    pub(super) fn refuse(&mut self, key: &'static str, why: &str, errors: &mut Errors<'_>) {
        if self.item(key).is_some() {
            errors.add(key_span(self.table, key), format!("`{key}`: {why}"));
        }
    }

    /// Reports an error at a key's value, or at the table if the key is missing.
    pub(super) fn complain(&self, key: &'static str, words: &str, errors: &mut Errors<'_>) {
        errors.add(key_span(self.table, key).or_else(|| self.span.clone()), words.to_owned());
    }

    /// Reports the keys that were not read.
    pub(super) fn finish(self, errors: &mut Errors<'_>) {
        for (name, span, _) in self.entries() {
            if !self.known.contains(&name) {
                let words = match nearest(name, &self.known) {
                    Some(near) => format!("unknown key `{name}`, did you mean `{near}`?"),
                    None => {
                        format!("unknown key `{name}`; {} has {}", self.what, list_of(&self.known))
                    }
                };
                errors.add(span, words);
            }
        }
    }

    fn item(&mut self, key: &'static str) -> Option<&'a Item> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.table.get(key)
    }

    fn value(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<&'a Value> {
        let item = self.item(key)?;
        if item.as_value().is_none() {
            let words = format!("expected a value for `{key}`, found {}", item.type_name());
            errors.add(key_span(self.table, key), words);
        }
        item.as_value()
    }

    fn string_at(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<(String, Span)> {
        let value = self.value(key, errors)?;
        if value.as_str().is_none() {
            expected(key, "a string", value, errors);
        }
        value.as_str().map(|text| (text.to_owned(), value.span()))
    }

    fn list(&mut self, key: &'static str, what: &str, errors: &mut Errors<'_>) -> Vec<&'a Value> {
        let Some(value) = self.value(key, errors) else { return Vec::new() };
        match value.as_array() {
            Some(array) => array.iter().collect(),
            None => {
                expected(key, what, value, errors);
                Vec::new()
            }
        }
    }
}

fn key_span(table: &dyn TableLike, key: &str) -> Span {
    table.key(key).and_then(toml_edit::Key::span)
}

/// Returns a table's name in messages.
fn name_of_section(key: &str) -> &'static str {
    match key {
        "bridge" => "a bridge",
        "port" => "a port",
        "zone" => "`zone`",
        "timeouts" => "`timeouts`",
        "switch" => "`switch`",
        "tls" => "`tls`",
        _ => "this",
    }
}

fn integer_in<T>(
    key: &str,
    value: &Value,
    range: &RangeInclusive<T>,
    errors: &mut Errors<'_>,
) -> Option<T>
where
    T: TryFrom<i64> + PartialOrd + fmt::Display,
{
    let number = value.as_integer().and_then(|number| T::try_from(number).ok());
    let number = number.filter(|number| range.contains(number));
    if number.is_none() {
        let what = format!("a number from {} to {}", range.start(), range.end());
        expected(key, &what, value, errors);
    }
    number
}

fn expected(key: &str, what: &str, value: &Value, errors: &mut Errors<'_>) {
    let found = match value {
        Value::Integer(number) => number.value().to_string(),
        other => other.type_name().to_owned(),
    };
    errors.add(value.span(), format!("`{key}` has to be {what}, found {found}"));
}

fn list_of(keys: &[&str]) -> String {
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    keys.join(", ")
}

/// Returns the key that `name` probably stands for: an edit distance of at most 2, and less than half of the
/// key's length.
fn nearest<'k>(name: &str, keys: &[&'k str]) -> Option<&'k str> {
    let near = keys.iter().map(|key| (distance(name, key), *key)).min()?;
    (near.0 <= 2 && near.0 * 2 < near.1.len().max(3)).then_some(near.1)
}

/// Returns the number of letters to insert, delete or replace (the Levenshtein distance).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for (j, (other, pair)) in b.iter().zip(row.windows(2)).enumerate() {
            let (&[diagonal, above], Some(&left)) = (pair, next.get(j)) else { continue };
            let replaced = diagonal + usize::from(letter != *other);
            next.push(replaced.min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
