//! Actions on packet lengths: `output(port=,max_len=)` and `check_pkt_larger`.

use super::span::Span;
use super::{PortNames, TextError, assign, value};
use crate::action::Action;
use crate::actions::MAX_LEN_MIN;
use base::OfPort;

/// `output(port=PORT,max_len=BYTES)`
pub(super) fn output_trunc(span: Span<'_>, ports: PortNames<'_>) -> Result<Action, TextError> {
    let (mut port, mut max_len) = (None, None);
    for pair in span.pairs()? {
        let text = pair.needed()?;
        match pair.key.text {
            "port" => {
                let number = value::port(text, ports)?;
                let is_reserved = number.0 > OfPort::MAX.0;
                if is_reserved && !matches!(number, OfPort::LOCAL | OfPort::IN_PORT) {
                    let what = format!("output to unsupported truncate port: {}", text.text);
                    return Err(text.error_with(what, "a port, LOCAL or IN_PORT"));
                }
                port = Some(number);
            }
            "max_len" => {
                let bytes = value::number_to(text, u32::MAX.into())? as u32;
                if bytes < MAX_LEN_MIN {
                    let what = format!("max_len {bytes} is less than the minimum {MAX_LEN_MIN}");
                    return Err(text.error(what));
                }
                max_len = Some(bytes);
            }
            other => {
                let what = format!("output has no '{other}'");
                return Err(pair.key.error_with(what, "port=, max_len="));
            }
        }
    }
    match (port, max_len) {
        (Some(port), Some(max_len)) => Ok(Action::OutputTrunc { port, max_len }),
        _ => Err(span.error_with("output wants both", "output(port=PORT,max_len=BYTES)")),
    }
}

/// `check_pkt_larger(BYTES)->FIELD[BIT]`
pub(super) fn check_pkt_larger(span: Span<'_>) -> Result<Action, TextError> {
    let Some((bytes, target)) = span.split("->") else {
        return Err(span.error_with("where it goes to is missing", "(BYTES)->FIELD[BIT]"));
    };
    let bytes = bytes.trim();
    let text = bytes.text.trim_start_matches('(').trim_end_matches(')');
    let bytes = value::number_to(Span { text, ..bytes }, 0xffff)? as u16;
    let target_span = target.trim();
    let target = assign::target(target_span)?;
    if target.bits != 1 {
        return Err(target_span.error_with("only one bit can say it", "NXM_NX_REG0[0]"));
    }
    Ok(Action::CheckPktLarger { bytes, target })
}
