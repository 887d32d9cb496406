//! Access to tunnel options of the packet in translation. The key contains them as the table of the bridge maps
//! them; the megaflow's mask gets them as packets carry them.

use super::context::Context;
use super::fields::read;
use super::report::NoteKind;
use crate::bridge::Bridge;
use crate::port::{Port, PortDevice};
use flow::{DropReason, Field, FlowKey, Mask, OptionMapping, TunnelKind, Wide};
use openflow::action::{SetOption, Subfield};

impl<'a> Context<'a> {
    /// Maps the options that the packet carries by the table of the bridge that it enters.
    ///
    /// # Errors
    /// The table does not go with them.
    pub fn map_options(
        &mut self,
        entered: &'a Bridge,
        port: Option<&Port>,
    ) -> Result<(), DropReason> {
        let is_geneve = |port: &Port| match &port.spec.device {
            PortDevice::Tunnel { config, .. } => config.kind == TunnelKind::Geneve,
            _ => false,
        };
        if !self.key.has_raw_options() && !port.is_some_and(is_geneve) {
            return Ok(());
        }
        self.option_table = Some(&entered.tunnel_options);
        let mapped = self.key.map_options(&entered.tunnel_options);
        self.base.copy_tunnel(self.key);
        if mapped.is_err() {
            let text = || "Invalid Geneve tunnel metadata".to_owned();
            self.notes.add(NoteKind::Error, text);
        }
        mapped
    }
}

/// Makes a mask of a translation one of the packet as it came: whether there are options counts even where no flow
/// looked at one, since a critical one must be known.
pub(super) fn unmap_mask(mask: &mut Mask, packet: &FlowKey, table: Option<&[OptionMapping]>) {
    if let Some(table) = table.filter(|_| packet.has_tunnel()) {
        mask.unmap_options(packet, table);
    }
}

impl Context<'_> {
    /// The position of an option, if the field stands for one in this bridge.
    fn option(&self, field: Field) -> Option<OptionMapping> {
        let index = field.tun_metadata_index()?;
        OptionMapping::of(&self.bridge.tunnel_options, index).copied()
    }

    /// The value of some bits of a field or an option. An option without a mapping is zero.
    pub fn read(&self, source: Subfield) -> Wide {
        if source.field.tun_metadata_index().is_none() {
            return read(self.key, source).into();
        }
        let value = self.option(source.field).map_or(Wide::ZERO, |it| it.read(self.key));
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
            let kept = option.read(self.key) & !mask;
            option.write(self.key, kept | value & mask);
            self.is_rewritten = true;
        }
    }

    /// Removes a tunnel option.
    pub fn delete_option(&mut self, field: Field) {
        if let Some(option) = self.option(field) {
            option.remove(self.key);
            self.is_rewritten = true;
        }
        self.notes.add(NoteKind::Detail, || format!("delete {}", field.name()));
    }
}
