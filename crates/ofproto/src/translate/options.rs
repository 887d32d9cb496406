//! Access to tunnel options of the packet in translation.

use super::context::Context;
use super::fields::read;
use super::report::NoteKind;
use flow::{Field, OptionMapping, Wide};
use openflow::action::{SetOption, Subfield};

impl Context<'_> {
    /// The position of an option, if the field stands for one in this bridge.
    fn option(&self, field: Field) -> Option<OptionMapping> {
        let index = field.tun_metadata_index()?;
        OptionMapping::of(&self.bridge.tunnel_options, index).copied()
    }

    /// The value of some bits of a field or an option. An option without a mapping is zero.
    pub fn read(&self, source: Subfield) -> Wide {
        if source.field.tun_metadata_index().is_none() {
            return read(&self.key, source).into();
        }
        let value = self.option(source.field).map_or(Wide::ZERO, |it| it.read(&self.key));
        value.shift_right(source.offset) & Wide::low_ones(source.bits)
    }

    /// Adds bits of a field or an option to the mask; for an option also its presence.
    pub fn look_at_part(&mut self, part: Subfield) {
        if part.field.tun_metadata_index().is_none() {
            self.look_at(part.field, part.mask());
        } else if let Some(option) = self.option(part.field) {
            option.add_mask(&mut self.mask, part.wide_mask());
        }
    }

    /// Assigns bits of a field or an option; `varies` says whether they depend on the packet.
    pub fn write_part(&mut self, target: Subfield, value: Wide, varies: bool) {
        match target.field.tun_metadata_index() {
            Some(_) => {
                self.write_option(target.field, value.shift_left(target.offset), target.wide_mask())
            }
            None => self.write_subfield(target, value.low(), varies),
        }
    }

    /// Assigns bits of an option, if it has a mapping.
    pub fn set_option(&mut self, set: &SetOption) {
        let Some(field) = Field::tun_metadata(set.index) else { return };
        if let Some(option) = self.option(field) {
            option.add_mask(&mut self.mask, set.mask);
            self.write_option(field, set.value, set.mask);
        }
    }

    /// Sets an option of the tunnel that the packet will leave by.
    fn write_option(&mut self, field: Field, value: Wide, mask: Wide) {
        if let Some(option) = self.option(field) {
            let kept = option.read(&self.key) & !mask;
            option.write(&mut self.key, kept | value & mask);
            self.is_rewritten = true;
        }
    }

    /// Removes a tunnel option.
    pub fn delete_option(&mut self, field: Field) {
        if let Some(option) = self.option(field) {
            option.remove(&mut self.key);
            self.is_rewritten = true;
        }
        self.notes.add(NoteKind::Detail, || format!("delete {}", field.name()));
    }
}
