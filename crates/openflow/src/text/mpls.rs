//! Actions on MPLS labels.

use super::span::Pair;
use super::{TextError, value};
use crate::action::Action;
use wire::ethertype;
use wire::mpls::LABEL_MAX;

/// Parses an action with an argument; `None` for others.
pub(super) fn parse(pair: Pair<'_>) -> Result<Option<Action>, TextError> {
    let number = |max: u32| {
        let value = pair.needed().and_then(|span| value::number_to(span, max.into()))?;
        Ok::<u32, TextError>(value as u32)
    };
    Ok(Some(match pair.key.text {
        "push_mpls" => {
            let ethertype = number(0xffff)? as u16;
            if !ethertype::is_mpls(ethertype) {
                let what = format!("{ethertype:#06x} is no Ethernet type of MPLS");
                return Err(pair.needed()?.error_with(what, "0x8847 or 0x8848"));
            }
            Action::PushMpls(ethertype)
        }
        "pop_mpls" => Action::PopMpls(number(0xffff)? as u16),
        "set_mpls_label" => Action::SetMplsLabel(number(LABEL_MAX)?),
        "set_mpls_tc" => Action::SetMplsTc(number(7)? as u8),
        "set_mpls_ttl" => Action::SetMplsTtl(number(0xff)? as u8),
        _ => return Ok(None),
    }))
}

/// Formats one of these actions; `None` for others.
pub(super) fn format(action: &Action) -> Option<String> {
    Some(match action {
        Action::PushMpls(ethertype) => format!("push_mpls:0x{ethertype:04x}"),
        Action::PopMpls(ethertype) => format!("pop_mpls:0x{ethertype:04x}"),
        Action::SetMplsLabel(label) => format!("set_mpls_label({label})"),
        Action::SetMplsTc(tc) => format!("set_mpls_tc({tc})"),
        Action::SetMplsTtl(ttl) => format!("set_mpls_ttl({ttl})"),
        _ => return None,
    })
}
