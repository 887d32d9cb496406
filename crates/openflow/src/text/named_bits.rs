//! Bits of a field outside of flows, as named in the database.

use super::TextError;
use super::assign::subfield;
use super::span::Span;
use crate::action::Subfield;
use crate::oxm::Spec;
use flow::Match;

/// Bits of a field by one of its names, such as `NXM_OF_IN_PORT[]` or `tcp_src[0..7]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamedBits {
    part: Subfield,
    spec: &'static Spec,
}

impl NamedBits {
    /// Parses the text.
    ///
    /// # Errors
    /// The field or bits do not exist.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let (part, spec) = subfield(Span::new(text))?;
        Ok(NamedBits { part, spec })
    }

    /// Returns the value of these bits in the match, at their position in the field; 0 if its packets do not
    /// have the field.
    pub fn of(&self, matching: &Match) -> u128 {
        if !self.spec.prerequisite.met_by(matching) {
            return 0;
        }
        matching.key().get(self.part.field) & self.part.mask()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse_match;

    #[test]
    fn bits_are_of_packets_that_have_the_field() {
        let of = |bits: &str, matching: &str| {
            let matching = parse_match(matching, &|_| None).unwrap();
            NamedBits::parse(bits).unwrap().of(&matching)
        };
        assert_eq!(of("NXM_OF_IN_PORT[]", "in_port=7"), 7);
        assert_eq!(of("NXM_OF_IN_PORT[]", "tcp"), 0);
        assert_eq!(of("OXM_OF_TCP_SRC[]", "tcp,tp_src=0x1234"), 0x1234);
        assert_eq!(of("NXM_OF_TCP_SRC[4..7]", "tcp,tp_src=0x1234"), 0x30);
        assert_eq!(of("tcp_src", "udp,tp_src=0x1234"), 0);
        for wrong in ["", "NXM_OF_NOTHING[]", "NXM_OF_TCP_SRC[8..16]", "NXM_OF_TCP_SRC[] "] {
            let read = NamedBits::parse(wrong);
            assert_eq!(read.is_ok(), wrong.ends_with(' '), "{wrong}: {read:?}");
        }
    }
}
