//! Tunnel options as packets carry them. In the datapath the key of a packet holds the options as they stand in its
//! Geneve header: their bytes in the slots, from the first one on, and how many bytes these are in
//! [`Field::TunMetadataPresent`]. Bridges may have different TLV tables, and only translation knows the bridge
//! that a packet enters; it maps the options to fields by the table of that bridge (ovs: `lib/tun-metadata.c`,
//! `tun_metadata_from_geneve_udpif`).

use crate::drop::DropReason;
use crate::field::Field;
use crate::key::{FlowKey, Mask};
use crate::option::OptionMapping;
use wire::geneve::{
    OPTION_CRITICAL, OPTION_HEADER_LEN, OPTIONS_LEN_MAX, option_header, read_options,
};

/// The length of a slot in bytes.
const SLOT_LEN: usize = 4;
/// All slots.
const ALL: u64 = u64::MAX;

impl FlowKey {
    /// Stores the options of a Geneve header as they are: at most [`OPTIONS_LEN_MAX`] bytes, in words of four.
    #[inline]
    pub fn set_raw_options(&mut self, options: &[u8]) {
        if options.is_empty() {
            return;
        }
        self.set_option_slots(ALL, words(options));
        self.set(Field::TunMetadataPresent, options.len() as u128);
    }

    /// Returns whether a packet carries options. The key holds them as [`Self::set_raw_options`] stored them.
    #[inline]
    pub fn has_raw_options(&self) -> bool {
        self.get(Field::TunMetadataPresent) != 0
    }

    /// Returns the options that [`Self::set_raw_options`] stored.
    pub fn raw_options(&self) -> Vec<u8> {
        let len = (self.get(Field::TunMetadataPresent) as usize).min(OPTIONS_LEN_MAX);
        let mut bytes: Vec<u8> = self
            .option_slots(ALL)
            .take(len.div_ceil(SLOT_LEN))
            .flat_map(u32::to_be_bytes)
            .collect();
        bytes.truncate(len);
        bytes
    }

    /// Puts the options of a packet into the slots that a TLV table gives them. Those that the table does not name
    /// are left out.
    ///
    /// # Errors
    /// The table does not name a critical option, which must be understood (RFC 8926 section 3.5), or gives an
    /// option another length. The key then holds none.
    pub fn map_options(&mut self, table: &[OptionMapping]) -> Result<(), DropReason> {
        if !self.has_raw_options() {
            return Ok(());
        }
        let raw = self.raw_options();
        self.clear_options();
        let mut mapped = self.clone();
        for option in read_options(&raw) {
            let is_it = |it: &&OptionMapping| (it.class, it.kind) == (option.class, option.kind);
            match table.iter().find(is_it) {
                Some(it) if usize::from(it.len()) == option.value.len() => {
                    it.write_bytes(&mut mapped, option.value);
                }
                None if option.kind & OPTION_CRITICAL == 0 => {}
                _ => return Err(DropReason::TunnelOption),
            }
        }
        self.copy_tunnel(&mapped);
        Ok(())
    }

    /// Replaces the options in the slots of a TLV table by those that a packet with them carries, as far as a
    /// Geneve header has room for them.
    pub fn unmap_options(&mut self, table: &[OptionMapping]) {
        let mut raw = OptionMapping::encode(table, self);
        raw.truncate(OPTIONS_LEN_MAX);
        self.clear_options();
        self.set_raw_options(&raw);
    }

    fn clear_options(&mut self) {
        self.set_option_slots(ALL, std::iter::repeat(0));
        self.set(Field::TunMetadataPresent, 0);
    }
}

impl OptionMapping {
    /// Returns the options in the slots of a TLV table as a Geneve header holds them, in the table's order. They may
    /// be more than [`OPTIONS_LEN_MAX`] bytes.
    pub fn encode(table: &[OptionMapping], key: &FlowKey) -> Vec<u8> {
        let mut out = Vec::new();
        for option in table.iter().filter(|it| it.is_in(key)) {
            out.extend(option_header(option.class, option.kind, option.len().into()));
            out.extend(option.bytes(key));
        }
        out
    }
}

impl Mask {
    /// Replaces bits in the slots of a TLV table by the bits of the values of a packet's options that have them.
    /// Which options the packet carries, and in which order, is compared too: the values' places follow from it,
    /// and other options may be critical.
    pub fn unmap_options(&mut self, packet: &FlowKey, table: &[OptionMapping]) {
        let mut bytes = Vec::new();
        for option in read_options(&packet.raw_options()) {
            let is_it = |it: &&OptionMapping| {
                (it.class, it.kind, usize::from(it.len()))
                    == (option.class, option.kind, option.value.len())
            };
            bytes.extend([0xff; OPTION_HEADER_LEN]);
            match table.iter().find(is_it) {
                Some(it) => bytes.extend(it.mask_bytes(self)),
                None => bytes.resize(bytes.len() + option.value.len(), 0),
            }
        }
        self.set_raw_options(&bytes);
    }

    /// Stores the bits of a packet's options that are compared, as [`FlowKey::set_raw_options`] stores the
    /// options. Their length is always compared.
    pub fn set_raw_options(&mut self, bits: &[u8]) {
        self.set_option_slots(ALL, words(bits).chain(std::iter::repeat(0)));
        self.add(Field::TunMetadataPresent);
    }

    /// Returns the bits that are compared of the first `len` bytes of a packet's options.
    pub fn raw_options(&self, len: usize) -> Vec<u8> {
        self.option_slots(ALL).flat_map(u32::to_be_bytes).take(len).collect()
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let (words, _) = bytes.as_chunks::<SLOT_LEN>();
    words.iter().map(|word| u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wide::Wide;

    fn option(kind: u8, value: &[u8]) -> Vec<u8> {
        [&option_header(0x102, kind, value.len())[..], value].concat()
    }

    fn mapping(kind: u8, index: u8, slots: u64) -> OptionMapping {
        OptionMapping { class: 0x102, kind, index, slots }
    }

    fn known() -> [OptionMapping; 4] {
        [
            mapping(0x80, 3, 1 << 5),
            mapping(0, 4, 0),
            mapping(2, 5, 0x7fff_ffff << 33),
            mapping(1, 63, 0b11),
        ]
    }

    /// Which fields a packet with these options has, and their values.
    fn read(options: &[u8]) -> Result<Vec<(u8, Wide)>, DropReason> {
        let mut key = FlowKey::new();
        key.set_raw_options(options);
        assert_eq!(key.raw_options(), options);
        key.map_options(&known())?;
        let there = known().into_iter().filter(|it| it.is_in(&key));
        Ok(there.map(|it| (it.index, it.read(&key))).collect())
    }

    #[test]
    fn options_stand_in_their_fields_and_critical_ones_must_be_known() {
        let own = option(0x80, &[0, 1, 0, 2]);
        assert_eq!(read(&[]), Ok(vec![]));
        assert_eq!(read(&own), Ok(vec![(3, Wide::from(0x1_0002))]));
        let both = [option(9, &[0, 0, 0, 7]), own.clone()].concat();
        assert_eq!(read(&both), Ok(vec![(3, Wide::from(0x1_0002))]));
        let critical = [option(0x89, &[0, 0, 0, 7]), own].concat();
        assert_eq!(read(&critical), Err(DropReason::TunnelOption));
        for other_length in [option(0x80, &[0; 8]), option(0x80, &[]), option(0, &[0; 4])] {
            assert_eq!(read(&other_length), Err(DropReason::TunnelOption));
        }
        let longest = [&[0; 123][..], &[9]].concat();
        let all = [option(0, &[]), option(2, &longest), option(1, &[1, 2, 3, 4, 5, 6, 7, 8])];
        let expect =
            vec![(4, Wide::ZERO), (5, Wide::from(9)), (63, Wide::from(0x0102_0304_0506_0708))];
        assert_eq!(read(&all.concat()), Ok(expect));
    }

    #[test]
    fn what_a_table_maps_is_told_as_packets_carry_it() {
        let options = [option(0x80, &[1, 2, 3, 4]), option(0, &[]), option(1, &[5; 8])].concat();
        let mut key = FlowKey::new();
        key.set_raw_options(&options);
        key.map_options(&known()).unwrap();
        key.unmap_options(&known());
        assert_eq!(key.raw_options(), options);
    }

    #[test]
    fn masks_have_all_headers_and_the_bits_of_values_that_were_looked_at() {
        let options = [option(9, &[7; 4]), option(1, &[5; 8])].concat();
        let mut packet = FlowKey::new();
        packet.set_raw_options(&options);
        let mut mask = Mask::new();
        known()[3].add_mask(&mut mask, Wide::from(0xff00));
        known()[0].add_mask(&mut mask, Wide::ONES);
        mask.unmap_options(&packet, &known());
        let expect = [&[0xff; 4][..], &[0; 4], &[0xff; 4], &[0, 0, 0, 0, 0, 0, 0xff, 0]].concat();
        assert_eq!(mask.raw_options(options.len()), expect);
        assert!(mask.raw_options(256)[expect.len()..].iter().all(|it| *it == 0));
        assert!(mask.is_exact(Field::TunMetadataPresent));
    }
}
