//! Writes the results of connection tracking: connection fields into the packet's key, the action's
//! mark and label onto the connection.

use crate::connections::zone_filter;
use crate::connections::{Connections, Found};
use crate::headers::original_tuple::{self, OriginalTuple};
use crate::management::change::What;
use crate::pass::Pass;
use crate::record::{Record, Words};
use flow::{ConnectionRef, CtFields, CtState, Frame, Masked};

impl Pass<'_> {
    /// [`Pass::write`] for TCP and UDP connections that no ALG expected.
    #[inline(always)]
    pub fn write_parsed<'w>(
        &mut self,
        frame: &mut Frame,
        state: CtState,
        found: Found,
        words: impl Words<'w>,
        generation: Option<u32>,
    ) {
        let (addresses, rest) = words.original();
        let mut fields = self.fields_of(state, addresses, rest);
        self.write_connection(frame, &mut fields, found, &words.record(), generation);
    }

    /// Writes the connection fields into the key, and the action's mark and label onto the
    /// connection. `tuple` supplies the fields of a packet without a connection. `generation` is
    /// the connection's before its state was read; without it the packet gets no [`ConnectionRef`].
    pub fn write(
        &mut self,
        frame: &mut Frame,
        state: CtState,
        connection: Option<(Found, &Record<'_>)>,
        tuple: &OriginalTuple<'_>,
        generation: Option<u32>,
    ) {
        let mut fields = self.fields(state);
        let Some((found, record)) = connection else {
            tuple.write(&mut fields);
            frame.key.set_ct(&fields);
            frame.connection = None;
            return;
        };
        let parent = self.connections.parent_of(found.id, record.state());
        original_tuple::write(&mut fields, &parent.unwrap_or_else(|| record.original()));
        self.write_connection(frame, &mut fields, found, record, generation);
    }

    #[inline(always)]
    fn fields(&self, state: CtState) -> CtFields {
        let (state, zone) = (state | CtState::TRK, self.action.zone);
        CtFields { state, zone, ..CtFields::default() }
    }

    /// The connection fields with the original direction of a TCP or UDP connection.
    #[inline(always)]
    pub fn fields_of(&self, state: CtState, [a, b, c, d]: [u64; 4], rest: u64) -> CtFields {
        let mut fields = self.fields(state);
        (fields.src, fields.dst) = ([a, b], [c, d]);
        fields.ports = [(rest >> 48) as u16, (rest >> 32) as u16];
        fields.protocol = (rest >> 8) as u8;
        fields
    }

    /// Adds the connection's mark and label, and writes all fields into the key.
    #[inline(always)]
    fn write_connection(
        &mut self,
        frame: &mut Frame,
        fields: &mut CtFields,
        found: Found,
        record: &Record<'_>,
        mut generation: Option<u32>,
    ) {
        if self.action.mark.is_some() || self.action.label.is_some() {
            generation = self.set_mark_and_label(*record, generation);
        }
        let state = record.state();
        fields.mark = state.mark();
        fields.label = record.label_in(state);
        let Found { id, is_reply } = found;
        let id = Connections::remembered(id, state);
        let generation = generation.filter(|_| !fields.state.contains(CtState::INV));
        frame.connection = generation.map(|generation| ConnectionRef { id, generation, is_reply });
        frame.key.set_ct(fields);
    }

    /// Returns the generation for the packet's [`ConnectionRef`], if it is to have one.
    #[inline(never)]
    fn set_mark_and_label(&mut self, record: Record<'_>, generation: Option<u32>) -> Option<u32> {
        let mut changed = false;
        // The zone filter must know the bits before the connection has them.
        if let Some(index) = self.connections.zones.index(record.state().header()) {
            zone_filter::note_action(index, self.action);
        }
        if let Some(Masked { value, mask }) = self.action.mark {
            changed |= record.set_mark(value, mask);
        }
        if let Some(Masked { value, mask }) = self.action.label {
            changed |= record.set_label(value, mask);
        }
        if !changed {
            return generation;
        }
        let aged = record.age();
        self.connections.note(self.context, &record, What::Updated);
        generation.and(aged)
    }
}
