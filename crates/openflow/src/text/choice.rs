//! `bundle(...)`, `bundle_load(...)` and `multipath(...)` as text (ovs: `lib/bundle.c`,
//! `lib/multipath.c`).

use super::format_actions::bits;
use super::span::{Pair, Span};
use super::{PortNames, TextError, assign, value};
use crate::action::{Action, Bundle, BundleAlgorithm, HashFields, Multipath, MultipathAlgorithm};
use crate::oxm::Proto;

const MULTIPATH: &str = "multipath(FIELDS,BASIS,ALGORITHM,N_LINKS,ARG,FIELD)";

/// Returns the arguments, without the commas and spaces around them.
fn arguments(span: Span<'_>) -> Vec<Span<'_>> {
    let mut out = Vec::new();
    let mut rest = span;
    while let Some((argument, behind)) = rest.split(",") {
        out.push(argument.trim());
        rest = behind;
    }
    out.push(rest.trim());
    out.retain(|argument| !argument.is_empty());
    out
}

fn fields(span: Span<'_>) -> Result<HashFields, TextError> {
    HashFields::named(span.text)
        .ok_or_else(|| span.error(format!("there are no hash fields '{}'", span.text)))
}

/// Parses `bundle(...)`, or `bundle_load(...)` if `loads`.
pub(super) fn bundle(
    pair: Pair<'_>,
    loads: bool,
    ports: PortNames<'_>,
) -> Result<Action, TextError> {
    let span = pair.needed()?;
    let usage = || {
        let field = if loads { ",FIELD" } else { "" };
        let hint = format!("{}(FIELDS,BASIS,ALGORITHM,ofport{field},members:1,2)", pair.key.text);
        span.error_with("arguments are missing", hint)
    };
    let at = span.text.find("members:").map(|at| (at, 8));
    let (at, len) = at.or_else(|| span.text.find("slaves:").map(|at| (at, 7))).ok_or_else(usage)?;
    let members = arguments(span.from(at + len));
    let (target, arguments) = match *arguments(span.until(at)).as_slice() {
        [fields, basis, algorithm, kind] if !loads => (None, [fields, basis, algorithm, kind]),
        [fields, basis, algorithm, kind, target] if loads => {
            (Some(assign::target(target)?), [fields, basis, algorithm, kind])
        }
        _ => return Err(usage()),
    };
    let [hashed, basis, algorithm, kind] = arguments;
    if kind.text != "ofport" {
        return Err(kind.error_with(format!("members are no '{}'", kind.text), "ofport"));
    }
    let port = |member: &Span<'_>| {
        let text = member.text.trim_matches(['[', ']']);
        value::port(Span { text, ..*member }, ports)
    };
    Ok(Action::Bundle(Box::new(Bundle {
        algorithm: match algorithm.text {
            "active_backup" => BundleAlgorithm::ActiveBackup,
            "hrw" => BundleAlgorithm::HighestRandomWeight,
            _ => return Err(algorithm.error_with("no such algorithm", "active_backup, hrw")),
        },
        fields: fields(hashed)?,
        basis: value::number_to(basis, 0xffff)? as u16,
        target,
        members: members.iter().map(port).collect::<Result<_, _>>()?,
    })))
}

/// Parses `multipath(...)`.
pub(super) fn multipath(pair: Pair<'_>) -> Result<Action, TextError> {
    let span = pair.needed()?;
    let &[hashed, basis, algorithm, links, arg, target] = arguments(span).as_slice() else {
        return Err(span.error_with("six arguments are needed", MULTIPATH));
    };
    let count = value::number_to(links, 65_536)?;
    let target = assign::target(target)?;
    if count == 0 || target.bits < 16 && count > 1 << target.bits {
        return Err(links.error(format!("{} bits can't hold {count} links", target.bits)));
    }
    Ok(Action::Multipath(Multipath {
        fields: fields(hashed)?,
        basis: value::number_to(basis, 0xffff)? as u16,
        algorithm: MultipathAlgorithm::named(algorithm.text).ok_or_else(|| {
            algorithm.error_with("no such algorithm", "modulo_n, hash_threshold, hrw, iter_hash")
        })?,
        max_link: (count - 1) as u16,
        arg: value::number_to(arg, u32::MAX.into())? as u32,
        target,
    }))
}

/// Writes a bundle.
pub(super) fn format_bundle(bundle: &Bundle, proto: Proto) -> String {
    let (name, target) = match &bundle.target {
        Some(target) => ("bundle_load", format!("{},", bits(target, proto))),
        None => ("bundle", String::new()),
    };
    let (fields, basis) = (bundle.fields.name(), bundle.basis);
    let algorithm = bundle.algorithm.name();
    let members: Vec<String> = bundle.members.iter().map(ToString::to_string).collect();
    let members = members.join(",");
    format!("{name}({fields},{basis},{algorithm},ofport,{target}members:{members})")
}

/// Writes a multipath.
pub(super) fn format_multipath(multipath: &Multipath, proto: Proto) -> String {
    let Multipath { fields, basis, algorithm, max_link, arg, target } = multipath;
    format!(
        "multipath({},{basis},{},{},{arg},{})",
        fields.name(),
        algorithm.name(),
        u32::from(*max_link) + 1,
        bits(target, proto)
    )
}
