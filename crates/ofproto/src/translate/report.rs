//! What translation writes down for people.

/// What kind of remark it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoteKind {
    /// A bridge is entered.
    Bridge,
    /// A table was asked.
    Table,
    /// A bucket of a group is carried out.
    Bucket,
    /// Frozen state is taken up again.
    Thaw,
    /// An action.
    Action,
    /// What came of it.
    Detail,
    /// Something unusual.
    Warning,
    /// Something wrong.
    Error,
}

/// A remark, and what belongs under it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub kind: NoteKind,
    pub text: String,
    pub below: Vec<Note>,
}

/// Collects remarks, if the caller wants them.
#[derive(Debug)]
pub(crate) struct Notebook {
    wanted: bool,
    /// Whether an error was noted, also where remarks are not wanted.
    has_errors: bool,
    /// The remarks under which the next one goes, outermost first; the first holds all.
    open: Vec<Note>,
}

impl Notebook {
    pub fn new(wanted: bool) -> Self {
        let all = || Note { kind: NoteKind::Detail, text: String::new(), below: Vec::new() };
        Notebook { wanted, has_errors: false, open: wanted.then(all).into_iter().collect() }
    }

    pub fn has_errors(&self) -> bool {
        self.has_errors
    }

    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Writes a remark; the text is made only where it is wanted.
    pub fn add(&mut self, kind: NoteKind, text: impl FnOnce() -> String) {
        self.has_errors |= kind == NoteKind::Error;
        if self.wanted
            && let Some(note) = self.open.last_mut()
        {
            note.below.push(Note { kind, text: text(), below: Vec::new() });
        }
    }

    /// Writes a remark under which the next ones go, until [`Self::leave`].
    pub fn enter(&mut self, kind: NoteKind, text: impl FnOnce() -> String) {
        if self.wanted {
            self.open.push(Note { kind, text: text(), below: Vec::new() });
        }
    }

    /// Goes back to where the last [`Self::enter`] was.
    pub fn leave(&mut self) {
        if self.wanted
            && self.open.len() > 1
            && let Some(note) = self.open.pop()
            && let Some(parent) = self.open.last_mut()
        {
            parent.below.push(note);
        }
    }

    pub fn into_notes(mut self) -> Vec<Note> {
        while self.open.len() > 1 {
            self.leave();
        }
        self.open.pop().map_or_else(Vec::new, |all| all.below)
    }
}
