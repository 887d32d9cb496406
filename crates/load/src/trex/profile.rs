//! The traffic of `cps-ndr`'s options as an ASTF profile of TRex, equal to the original script's: programs of
//! both sides, addresses, and one template each for TCP and UDP.

use super::TrexError;
use generator::Profile;
use serde_json::{Value, json};

/// Connections per second of all templates together at the multiplier 1.
pub const UNIT: f64 = 100.0;
/// Maximum length of one part of an upload (trex-core: `_upload_fragmented` in trex_astf_client.py). Longer
/// profiles would need several parts and a hash.
const LONGEST: usize = 500_000;
/// Addresses of clients and servers, and the step between pairs of ports.
const CLIENTS: [&str; 2] = ["16.0.0.0", "16.0.255.255"];
const SERVERS: [&str; 2] = ["48.0.0.0", "48.0.0.255"];
const OFFSET: &str = "1.0.0.0";
const TCP_PORT: u16 = 8080;
const UDP_PORT: u16 = 5353;
/// Payload of requests and replies.
const FILL: [u8; 2] = [b'x', b'y'];

/// The profile as JSON text.
pub fn text(profile: &Profile, ramp_s: u32, max_flows: Option<u32>) -> Result<String, TrexError> {
    let udp = profile.udp_percent / 100.0;
    let mut programs = Vec::new();
    let mut templates = Vec::new();
    for (is_udp, share) in [(true, udp), (false, 1.0 - udp)] {
        if share <= 0.0 {
            continue;
        }
        let first = programs.len();
        programs.push(program(profile, is_udp, true));
        programs.push(program(profile, is_udp, false));
        let port = if is_udp { UDP_PORT } else { TCP_PORT };
        let mut client = json!({
            "program_index": first,
            "ip_gen": { "dist_client": { "index": 0 }, "dist_server": { "index": 1 } },
            "cluster": {},
            "port": port,
            "cps": share * UNIT,
        });
        if let (Some(limit), Some(client)) = (max_flows, client.as_object_mut()) {
            let limit = (f64::from(limit) * share).max(1.0) as u32;
            client.insert("limit".to_owned(), json!(limit));
            client.insert("cont".to_owned(), json!(true));
        }
        templates.push(json!({
            "client_template": client,
            "server_template": { "program_index": first + 1, "assoc": [{ "port": port }] },
        }));
    }
    let range = |ends: [&str; 2], side: &str| {
        json!({
            "ip_start": ends[0],
            "ip_end": ends[1],
            "distribution": "seq",
            "dir": side,
            "ip_offset": OFFSET,
        })
    };
    let sizes = [profile.request_bytes, profile.reply_bytes];
    let buffers: Vec<String> =
        FILL.iter().zip(sizes).map(|(fill, size)| base64(&vec![*fill; size as usize])).collect();
    let all = json!({
        "buf_list": buffers,
        "ip_gen_dist_list": [range(CLIENTS, "c"), range(SERVERS, "s")],
        "program_list": programs,
        "c_glob_info": { "scheduler": { "rampup_sec": ramp_s } },
        "templates": templates,
        "tg_names": [],
    });
    let text = all.to_string();
    if text.len() > LONGEST {
        return Err(TrexError::TooLong { bytes: text.len(), most: LONGEST });
    }
    Ok(text)
}

/// The program of one side: buffer 0 is the request, 1 the reply. Expected bytes and messages are counted
/// from the connection's start.
fn program(profile: &Profile, is_udp: bool, client: bool) -> Value {
    let (send, receive, of) = match is_udp {
        true => ("tx_msg", "rx_msg", "min_pkts"),
        false => ("tx", "rx", "min_bytes"),
    };
    let expected = if client { profile.reply_bytes } else { profile.request_bytes };
    let mut commands = Vec::new();
    for message in 1..=u64::from(profile.messages) {
        let mark = if is_udp { message } else { message * u64::from(expected) };
        let tx = json!({ "name": send, "buf_index": u8::from(!client) });
        let rx = json!({ "name": receive, of: mark });
        if client {
            commands.extend([tx, rx]);
            continue;
        }
        commands.push(rx);
        if profile.server_wait_ms > 0 {
            let usec = u64::from(profile.server_wait_ms) * 1000;
            commands.push(json!({ "name": "delay", "usec": usec }));
        }
        commands.push(tx);
    }
    match is_udp {
        true => json!({ "commands": commands, "stream": false }),
        false => json!({ "commands": commands }),
    }
}

/// RFC 4648 section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        for (to, from) in group.iter_mut().skip(1).zip(chunk) {
            *to = *from;
        }
        let group = u32::from_be_bytes(group);
        for digit in 0..4 {
            let value = group >> (18 - 6 * digit) & 0x3f;
            let padded = digit > chunk.len();
            text.push(if padded { '=' } else { char::from(DIGITS[value as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_original_s() {
        let profile =
            Profile { udp_percent: 1.0, server_wait_ms: 2, messages: 2, ..Profile::default() };
        let text = text(&profile, 3, Some(10_000)).unwrap();
        let it: Value = serde_json::from_str(&text).unwrap();
        // "x" twenty times.
        assert_eq!(it["buf_list"][0], "eHh4eHh4eHh4eHh4eHh4eHh4eHg=");
        assert_eq!(it["c_glob_info"]["scheduler"]["rampup_sec"], 3);
        let udp = &it["templates"][0]["client_template"];
        let tcp = &it["templates"][1]["client_template"];
        assert_eq!((&udp["cps"], &tcp["cps"]), (&json!(1.0), &json!(99.0)));
        assert_eq!((&udp["port"], &tcp["port"]), (&json!(5353), &json!(8080)));
        assert_eq!((&udp["limit"], &tcp["limit"]), (&json!(100), &json!(9900)));
        assert_eq!(tcp["program_index"], 2);
        let client = json!([
            { "name": "tx", "buf_index": 0 },
            { "name": "rx", "min_bytes": 20 },
            { "name": "tx", "buf_index": 0 },
            { "name": "rx", "min_bytes": 40 },
        ]);
        assert_eq!(it["program_list"][2], json!({ "commands": client }));
        let server = json!([
            { "name": "rx_msg", "min_pkts": 1 },
            { "name": "delay", "usec": 2000 },
            { "name": "tx_msg", "buf_index": 1 },
            { "name": "rx_msg", "min_pkts": 2 },
            { "name": "delay", "usec": 2000 },
            { "name": "tx_msg", "buf_index": 1 },
        ]);
        assert_eq!(it["program_list"][1], json!({ "commands": server, "stream": false }));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let profile = Profile { messages: 10_000, ..Profile::default() };
        let error = text(&profile, 3, None).unwrap_err().to_string();
        assert!(error.contains("--num-messages"), "{error}");
        let only_udp = Profile { udp_percent: 100.0, ..Profile::default() };
        let it: Value = serde_json::from_str(&text(&only_udp, 0, None).unwrap()).unwrap();
        assert_eq!(it["templates"].as_array().map(Vec::len), Some(1));
        assert!(it["templates"][0]["client_template"].get("limit").is_none());
    }

    #[test]
    fn base64_as_published() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
