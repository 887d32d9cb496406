//! The notes of a trace.

/// The kind of a note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoteKind {
    /// A bridge was entered.
    Bridge,
    /// A table lookup.
    Table,
    /// A group bucket is executed.
    Bucket,
    /// A frozen state is resumed.
    Thaw,
    /// An action.
    Action,
    /// A result of an action.
    Detail,
    /// Something unusual.
    Warning,
    /// Something wrong.
    Error,
}

/// A note, with the notes nested under it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub kind: NoteKind,
    pub text: String,
    pub below: Vec<Note>,
}

/// Collects notes, if the caller requested them.
#[derive(Debug)]
pub(crate) struct Notebook {
    wanted: bool,
    /// Whether an error was noted, even if notes are off.
    has_errors: bool,
    /// The open notes, outermost first; the first is the root.
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

    /// Adds a note; the text is built only if notes are on.
    pub fn add(&mut self, kind: NoteKind, text: impl FnOnce() -> String) {
        self.has_errors |= kind == NoteKind::Error;
        if self.wanted
            && let Some(note) = self.open.last_mut()
        {
            note.below.push(Note { kind, text: text(), below: Vec::new() });
        }
    }

    /// Adds a note; the following ones are nested under it until [`Self::leave`].
    pub fn enter(&mut self, kind: NoteKind, text: impl FnOnce() -> String) {
        if self.wanted {
            self.open.push(Note { kind, text: text(), below: Vec::new() });
        }
    }

    /// Closes the note of the last [`Self::enter`].
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
