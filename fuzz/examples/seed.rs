//! Fills `fuzz/corpus/` with what `testdata/` has: `cargo +nightly run --example seed` in `fuzz/`.

use std::fs;
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let testdata = root.join("../testdata");
    let corpus = |target: &str| root.join("corpus").join(target);
    let texts = |folder: &str| read_all(&testdata.join(folder));

    let conntrack = texts("conntrack")?;
    let packets: Vec<&str> = conntrack
        .iter()
        .flat_map(|text| text.split('"'))
        .filter(|piece| piece.contains('>') && wire::text::parse(piece).is_ok())
        .collect();
    let frames = packets.iter().filter_map(|text| wire::text::parse(text).ok());
    let frames: Vec<Vec<u8>> = frames.collect();
    write_all(&corpus("vnet"), frames.iter().flat_map(|frame| with_vnet_headers(frame)))?;
    write_all(&corpus("packet"), frames.into_iter())?;

    let mut messages = Vec::new();
    let mut streams = Vec::new();
    for text in texts("openflow")?.iter().chain(&texts("openflow-sessions")?) {
        messages.extend(hex_lines(text, &["> ", "< "]).filter(|message| message.len() < 2000));
        for case in text.split("\n## ").flat_map(|part| part.split("\n# connection")) {
            streams.push(hex_lines(case, &["> "]).collect::<Vec<_>>().concat());
        }
    }
    let with_prefix = |bytes: &Vec<u8>| {
        let version = bytes.first().copied().unwrap_or(1);
        [&[version, 8], bytes.as_slice()].concat()
    };
    write_all(&corpus("openflow"), messages.iter().map(with_prefix))?;
    write_all(&corpus("connections"), streams.iter().map(with_prefix))?;

    let rules = texts("ofproto")?;
    let lines = rules.iter().chain(&conntrack).flat_map(|text| text.lines());
    let flows = lines.clone().filter(|line| line.contains("action") && !line.contains('"'));
    let datapath_flows = rules.iter().flat_map(|text| text.split(['"', '\''])).filter(|piece| {
        ofproto::text::parse_flow(piece, &|_| None).is_ok() && !piece.trim().is_empty()
    });
    let syntax = flows.clone().chain(datapath_flows).map(|line| line.as_bytes().to_vec());
    write_all(&corpus("flow_syntax"), syntax)?;
    let flows: Vec<&str> = flows.collect();
    let both = flows.chunks(6).zip(packets.chunks(3).cycle());
    let scenes = both.map(|(flows, packets)| {
        format!("1{}\n{}\n", flows.join("\n"), packets.join("\n")).into_bytes()
    });
    write_all(&corpus("translate"), scenes)?;

    let example = fs::read_to_string(root.join("../crates/control/src/file.rs"))?;
    let lines = example.lines().filter_map(|line| line.strip_prefix("//! "));
    let config: Vec<&str> = lines.skip_while(|line| *line != "```toml").skip(1).collect();
    let config = config.join("\n").replace("```", "");
    let parts = config.split("\n[[bridge]]").map(|part| format!("[[bridge]]{part}"));
    let more = read_all(&root.join("seeds/toml"))?.into_iter();
    write_all(&corpus("toml"), parts.chain([config.clone()]).chain(more).map(String::into_bytes))?;

    let sessions = read_all(&root.join("seeds/ovsdb"))?.into_iter();
    write_all(&corpus("ovsdb"), sessions.map(String::into_bytes))
}

/// The frame behind vnet headers: with the transport header's partial checksum, and as a large one.
fn with_vnet_headers(frame: &[u8]) -> Vec<Vec<u8>> {
    let is_ipv6 = frame.get(12) == Some(&0x86);
    let protocol = frame.get(if is_ipv6 { 20 } else { 23 }).copied();
    let (offset, gso) = match protocol {
        Some(6) => (16u16, if is_ipv6 { 4 } else { 1 }),
        Some(17) => (6, 5),
        Some(132) => (8, 0),
        _ => (2, 0),
    };
    let start: u16 = if is_ipv6 { 54 } else { 34 };
    let headers = [0, gso].map(|gso| {
        let [[s0, s1], [o0, o1]] = [start.to_ne_bytes(), offset.to_ne_bytes()];
        [1, gso, 0, 0, 64, 0, s0, s1, o0, o1]
    });
    headers.iter().map(|header| [header, frame].concat()).collect()
}

fn read_all(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|it| it.path())).collect::<Result<_, _>>()?;
    paths.sort();
    paths.into_iter().filter(|path| path.is_file()).map(fs::read_to_string).collect()
}

/// The messages in lines that begin with one of these marks.
fn hex_lines<'a>(text: &'a str, marks: &'a [&str]) -> impl Iterator<Item = Vec<u8>> + 'a {
    let digits = text.lines().filter_map(|line| marks.iter().find_map(|it| line.strip_prefix(it)));
    digits.filter_map(|digits| {
        let octet = |n| u8::from_str_radix(digits.get(n..n + 2)?, 16).ok();
        (0..digits.len()).step_by(2).map(octet).collect()
    })
}

fn write_all(folder: &Path, seeds: impl Iterator<Item = Vec<u8>>) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut seeds: Vec<Vec<u8>> = seeds.collect();
    seeds.sort();
    seeds.dedup();
    for (n, seed) in seeds.iter().enumerate() {
        fs::write(folder.join(format!("seed-{n:04}")), seed)?;
    }
    println!("{}: {} seeds", folder.display(), seeds.len());
    Ok(())
}
