//! Values of columns: atoms, sets and maps, and their JSON form (RFC 7047 section 5.1).

use crate::{AtomKind, ColumnType, Error};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// An atomic value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    /// A signed 64-bit integer.
    Integer(i64),
    /// A finite real number.
    Real(Real),
    /// True or false.
    Boolean(bool),
    /// A Unicode string.
    String(String),
    /// The UUID of a row.
    Uuid(Uuid),
    /// A row that the same transaction inserts; never sent by a server.
    NamedUuid(String),
}

/// A finite floating-point number, which JSON can represent and which has a total order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Real(f64);

/// The value of a column. A scalar is a set of exactly one atom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datum {
    /// A scalar, an optional value or a set.
    Set(AtomSet),
    /// A map.
    Map(AtomMap),
}

/// A set of atoms.
///
/// A sorted vector, because nearly all sets in the database have at most one element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AtomSet(Vec<Atom>);

/// A map, as pairs sorted by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AtomMap(Vec<(Atom, Atom)>);

impl Real {
    /// Zero.
    pub const ZERO: Real = Real(0.0);

    /// Returns the number; `None` for infinities and NaN. Negative zero becomes zero, because OVSDB considers
    /// them equal.
    pub fn new(number: f64) -> Option<Self> {
        number.is_finite().then_some(Real(number + 0.0))
    }

    /// Returns the number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Eq for Real {}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Real {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Atom {
    /// Parses an atom. Its type is inferred from the JSON: a number with a fraction is real.
    ///
    /// # Errors
    /// [`Error::Shape`] if it is not an `<atom>`.
    pub fn parse(json: &Value) -> Result<Self, Error> {
        match json {
            Value::String(text) => Ok(Atom::String(text.clone())),
            Value::Bool(flag) => Ok(Atom::Boolean(*flag)),
            Value::Number(_) => match integer(json) {
                Some(number) => Ok(Atom::Integer(number)),
                None => real(json).ok_or_else(|| Error::shape("", "a finite number", json)),
            },
            Value::Array(pair) => match pair.as_slice() {
                [Value::String(tag), Value::String(text)] if tag == "uuid" => parse_uuid(text)
                    .map(Atom::Uuid)
                    .ok_or_else(|| Error::shape("", "a UUID in hexadecimal", json)),
                [Value::String(tag), Value::String(name)] if tag == "named-uuid" => {
                    Ok(Atom::NamedUuid(name.clone()))
                }
                _ => Err(Error::shape("", "an atom", json)),
            },
            _ => Err(Error::shape("", "an atom", json)),
        }
    }

    /// Parses an atom of type `kind`, as a server sends it.
    ///
    /// # Errors
    /// [`Error::Shape`] if it has another type.
    pub fn parse_as(json: &Value, kind: AtomKind) -> Result<Self, Error> {
        let atom = match kind {
            AtomKind::Integer => integer(json).map(Atom::Integer),
            AtomKind::Real => real(json),
            AtomKind::Boolean => json.as_bool().map(Atom::Boolean),
            AtomKind::String => json.as_str().map(|text| Atom::String(text.to_owned())),
            AtomKind::Uuid => match Atom::parse(json) {
                Ok(Atom::Uuid(uuid)) => Some(Atom::Uuid(uuid)),
                _ => None,
            },
        };
        atom.ok_or_else(|| Error::shape("", format!("{} {}", article(kind), kind.name()), json))
    }

    /// Returns the JSON form.
    pub fn to_json(&self) -> Value {
        match self {
            Atom::Integer(number) => json!(number),
            Atom::Real(number) => json!(number.get()),
            Atom::Boolean(flag) => json!(flag),
            Atom::String(text) => json!(text),
            Atom::Uuid(uuid) => json!(["uuid", uuid.to_string()]),
            Atom::NamedUuid(name) => json!(["named-uuid", name]),
        }
    }

    /// Returns the string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Atom::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the integer, if it is one.
    pub const fn as_i64(&self) -> Option<i64> {
        match self {
            Atom::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the number, if it is real or an integer.
    pub const fn as_f64(&self) -> Option<f64> {
        match self {
            Atom::Real(number) => Some(number.get()),
            Atom::Integer(number) => Some(*number as f64),
            _ => None,
        }
    }

    /// Returns the boolean, if it is one.
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Atom::Boolean(flag) => Some(*flag),
            _ => None,
        }
    }

    /// Returns the UUID, if it is one.
    pub const fn as_uuid(&self) -> Option<Uuid> {
        match self {
            Atom::Uuid(uuid) => Some(*uuid),
            _ => None,
        }
    }
}

impl Datum {
    /// The empty set.
    pub const fn empty_set() -> Self {
        Datum::Set(AtomSet(Vec::new()))
    }

    /// The empty map.
    pub const fn empty_map() -> Self {
        Datum::Map(AtomMap(Vec::new()))
    }

    /// The set of `atoms`; duplicates count once.
    pub fn set<A: Into<Atom>>(atoms: impl IntoIterator<Item = A>) -> Self {
        Datum::Set(atoms.into_iter().map(Into::into).collect())
    }

    /// The map of `pairs`; of two equal keys the last is used.
    pub fn map<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Datum::Map(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// Parses a value of unknown column type; named UUIDs are allowed.
    ///
    /// # Errors
    /// [`Error::Shape`] if it is not a `<value>`.
    pub fn parse(json: &Value) -> Result<Self, Error> {
        match collection(json)? {
            Collection::Set(atoms) => {
                let atoms = atoms.iter().map(Atom::parse).collect::<Result<_, _>>()?;
                Ok(Datum::Set(atoms))
            }
            Collection::Map(pairs) => {
                let read = |json| {
                    let (key, value) = pair(json)?;
                    Ok((Atom::parse(key)?, Atom::parse(value)?))
                };
                Ok(Datum::Map(pairs.iter().map(read).collect::<Result<_, Error>>()?))
            }
        }
    }

    /// Parses a value of a column of type `column`, as a server sends it. The number of elements is not
    /// checked, so differences can be parsed too.
    ///
    /// # Errors
    /// [`Error::Shape`] if an atom has another type, or a set is in the place of a map.
    pub fn parse_as(json: &Value, column: &ColumnType) -> Result<Self, Error> {
        let key_kind = column.key.kind;
        match (collection(json)?, &column.value) {
            (Collection::Set(atoms), None) => {
                let read = |json| Atom::parse_as(json, key_kind);
                Ok(Datum::Set(atoms.iter().map(read).collect::<Result<_, _>>()?))
            }
            (Collection::Map(pairs), Some(value_type)) => {
                let read = |json| {
                    let (key, value) = pair(json)?;
                    Ok((Atom::parse_as(key, key_kind)?, Atom::parse_as(value, value_type.kind)?))
                };
                Ok(Datum::Map(pairs.iter().map(read).collect::<Result<_, Error>>()?))
            }
            (_, Some(_)) => Err(Error::shape("", "a map", json)),
            (_, None) => Err(Error::shape("", "an atom or a set", json)),
        }
    }

    /// Returns the JSON form; a set of one element is written as its atom.
    pub fn to_json(&self) -> Value {
        match self {
            Datum::Set(AtomSet(atoms)) => match atoms.as_slice() {
                [atom] => atom.to_json(),
                atoms => json!(["set", atoms.iter().map(Atom::to_json).collect::<Vec<_>>()]),
            },
            Datum::Map(AtomMap(pairs)) => {
                let pairs: Vec<_> = pairs
                    .iter()
                    .map(|(key, value)| json!([key.to_json(), value.to_json()]))
                    .collect();
                json!(["map", pairs])
            }
        }
    }

    /// Returns the value after a difference, as `update2` and `update3` send it for a modified column
    /// (ovsdb-server(7) section 4.1.14).
    ///
    /// A column of at most one element is replaced. In a set, elements of the difference that are present are
    /// removed, others are added. In a map, a pair of the difference that is present is removed, any other
    /// pair is inserted.
    #[must_use]
    pub fn apply_diff(&self, diff: &Datum, column: &ColumnType) -> Datum {
        if !column.is_composite() {
            return diff.clone();
        }
        match (self, diff) {
            (Datum::Set(old), Datum::Set(diff)) => Datum::Set(old.symmetric_difference(diff)),
            (Datum::Map(old), Datum::Map(diff)) => {
                let mut pairs: BTreeMap<&Atom, &Atom> = old.iter().collect();
                for (key, value) in diff.iter() {
                    if pairs.get(key) == Some(&value) {
                        pairs.remove(key);
                    } else {
                        pairs.insert(key, value);
                    }
                }
                let owned = pairs.into_iter().map(|(key, value)| (key.clone(), value.clone()));
                Datum::Map(AtomMap(owned.collect()))
            }
            (_, diff) => diff.clone(),
        }
    }

    /// Returns the number of atoms or pairs.
    pub fn len(&self) -> usize {
        match self {
            Datum::Set(AtomSet(atoms)) => atoms.len(),
            Datum::Map(AtomMap(pairs)) => pairs.len(),
        }
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the atom of a scalar, or of an optional value that is set.
    pub fn as_atom(&self) -> Option<&Atom> {
        match self {
            Datum::Set(AtomSet(atoms)) => match atoms.as_slice() {
                [atom] => Some(atom),
                _ => None,
            },
            Datum::Map(_) => None,
        }
    }

    /// Returns the string of a scalar; `None` if it is unset or has another type. The other scalar getters
    /// are alike.
    pub fn as_str(&self) -> Option<&str> {
        self.as_atom().and_then(Atom::as_str)
    }

    /// Returns the integer of a scalar or an optional value.
    pub fn as_opt_i64(&self) -> Option<i64> {
        self.as_atom().and_then(Atom::as_i64)
    }

    /// Returns the boolean of a scalar or an optional value.
    pub fn as_opt_bool(&self) -> Option<bool> {
        self.as_atom().and_then(Atom::as_bool)
    }

    /// Returns the UUID of a scalar or an optional value.
    pub fn as_opt_uuid(&self) -> Option<Uuid> {
        self.as_atom().and_then(Atom::as_uuid)
    }

    /// Returns the atoms of a set; empty for a map.
    pub fn atoms(&self) -> impl Iterator<Item = &Atom> {
        match self {
            Datum::Set(AtomSet(atoms)) => atoms.iter(),
            Datum::Map(_) => [].iter(),
        }
    }

    /// Returns the pairs of a map; empty for a set.
    pub fn pairs(&self) -> impl Iterator<Item = (&Atom, &Atom)> {
        let pairs = match self {
            Datum::Set(_) => [].iter(),
            Datum::Map(AtomMap(pairs)) => pairs.iter(),
        };
        pairs.map(|(key, value)| (key, value))
    }

    /// Returns the strings of a set, in order.
    pub fn as_str_set(&self) -> Vec<&str> {
        self.atoms().filter_map(Atom::as_str).collect()
    }

    /// Returns the integers of a set, in order.
    pub fn as_i64_set(&self) -> Vec<i64> {
        self.atoms().filter_map(Atom::as_i64).collect()
    }

    /// Returns the UUIDs of a set, in order.
    pub fn as_uuid_set(&self) -> Vec<Uuid> {
        self.atoms().filter_map(Atom::as_uuid).collect()
    }

    /// Returns the pairs of a map of strings.
    pub fn as_string_map(&self) -> BTreeMap<String, String> {
        let owned = |(key, value): (&Atom, &Atom)| {
            Some((key.as_str()?.to_owned(), value.as_str()?.to_owned()))
        };
        self.pairs().filter_map(owned).collect()
    }

    /// Returns the rows that a map with integer keys refers to, such as `QoS.queues`.
    pub fn as_uuid_map(&self) -> BTreeMap<i64, Uuid> {
        self.pairs().filter_map(|(key, value)| Some((key.as_i64()?, value.as_uuid()?))).collect()
    }

    /// Returns the string for `key` in a map of strings.
    pub fn get_str(&self, key: &str) -> Option<&str> {
        self.pairs().find(|(k, _)| k.as_str() == Some(key)).and_then(|(_, value)| value.as_str())
    }
}

impl AtomSet {
    /// Returns the atoms in order.
    pub fn iter(&self) -> impl Iterator<Item = &Atom> {
        self.0.iter()
    }

    /// Returns whether the set contains `atom`.
    pub fn contains(&self, atom: &Atom) -> bool {
        self.0.binary_search(atom).is_ok()
    }

    fn symmetric_difference(&self, other: &AtomSet) -> AtomSet {
        let only_here = self.iter().filter(|atom| !other.contains(atom));
        let only_there = other.iter().filter(|atom| !self.contains(atom));
        only_here.chain(only_there).cloned().collect()
    }
}

impl FromIterator<Atom> for AtomSet {
    fn from_iter<I: IntoIterator<Item = Atom>>(atoms: I) -> Self {
        let mut atoms: Vec<Atom> = atoms.into_iter().collect();
        atoms.sort_unstable();
        atoms.dedup();
        atoms.shrink_to_fit();
        AtomSet(atoms)
    }
}

impl AtomMap {
    /// Returns the pairs sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Atom, &Atom)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Returns the value for `key`.
    pub fn get(&self, key: &Atom) -> Option<&Atom> {
        let at = self.0.binary_search_by(|(k, _)| k.cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }
}

impl FromIterator<(Atom, Atom)> for AtomMap {
    fn from_iter<I: IntoIterator<Item = (Atom, Atom)>>(pairs: I) -> Self {
        let sorted: BTreeMap<Atom, Atom> = pairs.into_iter().collect();
        AtomMap(sorted.into_iter().collect())
    }
}

macro_rules! atom_from {
    ($($from:ty => $make:expr),* $(,)?) => {$(
        impl From<$from> for Atom {
            fn from(value: $from) -> Self {
                $make(value)
            }
        }

        impl From<$from> for Datum {
            fn from(value: $from) -> Self {
                Datum::from(Atom::from(value))
            }
        }

        impl From<Option<$from>> for Datum {
            fn from(value: Option<$from>) -> Self {
                value.map_or(Datum::empty_set(), Datum::from)
            }
        }
    )*};
}

atom_from! {
    &str => |text: &str| Atom::String(text.to_owned()),
    String => Atom::String,
    bool => Atom::Boolean,
    i64 => Atom::Integer,
    i32 => |number: i32| Atom::Integer(i64::from(number)),
    u16 => |number: u16| Atom::Integer(i64::from(number)),
    u32 => |number: u32| Atom::Integer(i64::from(number)),
    Uuid => Atom::Uuid,
    Real => Atom::Real,
}

impl From<Atom> for Datum {
    fn from(atom: Atom) -> Self {
        Datum::Set(AtomSet(vec![atom]))
    }
}

impl From<BTreeMap<String, String>> for Datum {
    fn from(pairs: BTreeMap<String, String>) -> Self {
        Datum::map(pairs)
    }
}

impl fmt::Display for Datum {
    /// Writes the JSON form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_json().fmt(f)
    }
}

enum Collection<'a> {
    Set(&'a [Value]),
    Map(&'a [Value]),
}

/// Returns the elements of a tagged set or map; any other value is a set of one.
fn collection(json: &Value) -> Result<Collection<'_>, Error> {
    match json.as_array().map(Vec::as_slice) {
        Some([Value::String(tag), Value::Array(elements)]) if tag == "set" => {
            Ok(Collection::Set(elements))
        }
        Some([Value::String(tag), Value::Array(pairs)]) if tag == "map" => {
            Ok(Collection::Map(pairs))
        }
        Some([Value::String(tag), _]) if tag == "set" || tag == "map" => {
            Err(Error::shape("", format!("an array after \"{tag}\""), json))
        }
        _ => Ok(Collection::Set(std::slice::from_ref(json))),
    }
}

fn pair(json: &Value) -> Result<(&Value, &Value), Error> {
    match json.as_array().map(Vec::as_slice) {
        Some([key, value]) => Ok((key, value)),
        _ => Err(Error::shape("", "a pair", json)),
    }
}

/// Returns an integer, also if it is written as 5.0 (ovs: lib/json.c normalises such numbers).
fn integer(json: &Value) -> Option<i64> {
    // 2^63 is exact as a float, but i64::MAX is not; hence the half-open range.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    json.as_i64().or_else(|| {
        let number = json.as_f64()?;
        let whole = number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number);
        whole.then_some(number as i64)
    })
}

fn real(json: &Value) -> Option<Atom> {
    json.as_f64().and_then(Real::new).map(Atom::Real)
}

/// Parses a UUID in hyphenated form only: the crate accepts others that OVSDB does not.
pub(crate) fn parse_uuid(text: &str) -> Option<Uuid> {
    (text.len() == 36).then(|| Uuid::try_parse(text).ok()).flatten()
}

const fn article(kind: AtomKind) -> &'static str {
    match kind {
        AtomKind::Integer => "an",
        _ => "a",
    }
}

#[cfg(test)]
mod tests;
