//! The values that a schema implies.

use crate::{Atom, AtomKind, ColumnType, Datum, Real};
use uuid::Uuid;

impl ColumnType {
    /// Returns the value of the column in a row that omits it (RFC 7047 section 5.2.1).
    pub fn default_datum(&self) -> Datum {
        match (self.min, &self.value) {
            (0, None) => Datum::empty_set(),
            (0, Some(_)) => Datum::empty_map(),
            (_, None) => Datum::from(self.key.kind.default_atom()),
            (_, Some(value)) => {
                Datum::map([(self.key.kind.default_atom(), value.kind.default_atom())])
            }
        }
    }
}

impl AtomKind {
    /// Returns zero, false, the empty string or the zero UUID.
    pub fn default_atom(self) -> Atom {
        match self {
            AtomKind::Integer => Atom::Integer(0),
            AtomKind::Real => Atom::Real(Real::ZERO),
            AtomKind::Boolean => Atom::Boolean(false),
            AtomKind::String => Atom::String(String::new()),
            AtomKind::Uuid => Atom::Uuid(Uuid::nil()),
        }
    }
}
