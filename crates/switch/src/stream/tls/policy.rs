//! The permitted TLS versions and ciphers, by OpenSSL's names (`--ssl-protocols`, `--ssl-ciphers`,
//! `--ssl-ciphersuites`; ovs: `lib/stream-ssl.c`).
//!
//! Unknown names are reported and ignored. A list without any usable name permits no connection, instead of
//! all.

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, cipher_suite};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};
use std::sync::Arc;

/// The permitted versions and ciphers.
#[derive(Clone, Debug)]
pub struct TlsPolicy {
    versions: Vec<&'static SupportedProtocolVersion>,
    suites: Vec<SupportedCipherSuite>,
}

/// Versions from the oldest to the newest. Those without a value are known but not supported.
const VERSIONS: [(&str, Option<&SupportedProtocolVersion>); 4] = [
    ("TLSv1", None),
    ("TLSv1.1", None),
    ("TLSv1.2", Some(&rustls::version::TLS12)),
    ("TLSv1.3", Some(&rustls::version::TLS13)),
];

/// A cipher of TLS 1.2, with the words of a cipher list that select it.
struct Cipher {
    name: &'static str,
    words: &'static [&'static str],
    strength_bits: u16,
    suite: SupportedCipherSuite,
}

/// In order of preference.
static CIPHERS: [Cipher; 6] = [
    Cipher {
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        words: &["aECDSA", "ECDSA", "AESGCM", "AES256", "AES", "SHA384"],
        strength_bits: 256,
        suite: cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    },
    Cipher {
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        words: &["aECDSA", "ECDSA", "AESGCM", "AES128", "AES", "SHA256"],
        strength_bits: 128,
        suite: cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    },
    Cipher {
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        words: &["aECDSA", "ECDSA", "CHACHA20", "SHA256"],
        strength_bits: 256,
        suite: cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    },
    Cipher {
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        words: &["aRSA", "AESGCM", "AES256", "AES", "SHA384"],
        strength_bits: 256,
        suite: cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    },
    Cipher {
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        words: &["aRSA", "AESGCM", "AES128", "AES", "SHA256"],
        strength_bits: 128,
        suite: cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    },
    Cipher {
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        words: &["aRSA", "CHACHA20", "SHA256"],
        strength_bits: 256,
        suite: cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    },
];

/// Words that select every cipher above.
const ALL_WORDS: &[&str] =
    &["ALL", "DEFAULT", "HIGH", "TLSv1.2", "ECDHE", "EECDH", "kECDHE", "kEECDH", "AEAD"];

/// OpenSSL's words that select none of them (openssl-ciphers(1)).
#[rustfmt::skip]
const NONE_WORDS: &[&str] = &[
    "COMPLEMENTOFALL", "COMPLEMENTOFDEFAULT", "MEDIUM", "LOW", "EXPORT", "EXP", "aNULL", "eNULL",
    "NULL", "MD5", "SHA1", "SHA", "RC2", "RC4", "DES", "3DES", "IDEA", "SEED", "CAMELLIA",
    "CAMELLIA128", "CAMELLIA256", "ARIA", "ARIA128", "ARIA256", "ARIAGCM", "AESCCM", "AESCCM8",
    "kRSA", "RSA", "kDHE", "kEDH", "DHE", "EDH", "DH", "ADH", "AECDH", "aDSS", "DSS", "PSK", "kPSK",
    "kECDHEPSK", "kDHEPSK", "kRSAPSK", "aPSK", "SRP", "kSRP", "aSRP", "GOST", "SSLv3", "TLSv1",
    "TLSv1.0", "CBC",
];

/// The ciphers of TLS 1.3, in order of preference.
static SUITES: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", cipher_suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
];

impl Default for TlsPolicy {
    fn default() -> Self {
        TlsPolicy::from_options(None, None, None).0
    }
}

impl TlsPolicy {
    /// Returns the policy of the three options, of which each permits everything by default, and the errors
    /// in them.
    pub fn from_options(
        protocols: Option<&str>,
        ciphers: Option<&str>,
        suites: Option<&str>,
    ) -> (Self, Vec<String>) {
        let mut wrong = Vec::new();
        let versions = allowed_versions(protocols.unwrap_or("TLSv1.2+"), &mut wrong);
        let mut allowed = allowed_suites(suites, &mut wrong);
        let ciphers = allowed_ciphers(ciphers.unwrap_or("DEFAULT"), &mut wrong);
        allowed.extend(ciphers.iter().map(|cipher| cipher.suite));
        let mut policy = TlsPolicy { versions, suites: allowed };
        let suites = &policy.suites;
        policy.versions.retain(|version| suites.iter().any(|suite| suite.version() == *version));
        if policy.versions.is_empty() {
            wrong.push("the TLS options leave no version with a cipher; ssl: does not work".into());
        }
        (policy, wrong)
    }

    /// Returns the permitted versions; empty if the options permit none.
    pub fn versions(&self) -> &[&'static SupportedProtocolVersion] {
        &self.versions
    }

    /// Returns the library's provider, restricted to the permitted ciphers.
    pub fn provider(&self) -> Arc<CryptoProvider> {
        let cipher_suites = self.suites.clone();
        Arc::new(CryptoProvider { cipher_suites, ..ring::default_provider() })
    }
}

/// Parses lists such as "TLSv1.2,TLSv1.3", "TLSv1.2+" and "TLSv1.2-TLSv1.3".
fn allowed_versions(list: &str, wrong: &mut Vec<String>) -> Vec<&'static SupportedProtocolVersion> {
    let mut named = [false; VERSIONS.len()];
    for word in list.split([' ', ',', '\t']).filter(|word| !word.is_empty()) {
        let (first, last) = match (word.strip_suffix('+'), word.split_once('-')) {
            (Some(first), _) => (place(first), Some(VERSIONS.len() - 1)),
            (None, Some((first, last))) => (place(first), place(last)),
            (None, None) => (place(word), place(word)),
        };
        match (first, last) {
            (Some(first), Some(last)) if first <= last => {
                named[first..=last].fill(true);
                if VERSIONS[first].1.is_none() {
                    let name = VERSIONS[first].0;
                    let words = format!("{name} is not spoken; TLSv1.2 and TLSv1.3 are");
                    wrong.push(format!("--ssl-protocols: {words}"));
                }
            }
            _ => wrong.push(format!(
                "--ssl-protocols: {word}: SSL protocol not recognized; accepted are TLSv1.2 and \
                 TLSv1.3, and ranges such as TLSv1.2+"
            )),
        }
    }
    let allowed = VERSIONS.iter().zip(named).filter(|(_, named)| *named);
    allowed.filter_map(|((_, version), _)| *version).collect()
}

fn place(name: &str) -> Option<usize> {
    VERSIONS.iter().position(|(version, _)| version.eq_ignore_ascii_case(name))
}

/// Parses names of TLS 1.3 ciphers, separated by colons.
fn allowed_suites(list: Option<&str>, wrong: &mut Vec<String>) -> Vec<SupportedCipherSuite> {
    let Some(list) = list else { return SUITES.iter().map(|(_, suite)| *suite).collect() };
    let mut allowed = Vec::new();
    for name in list.split([':', ',', ' ']).filter(|name| !name.is_empty()) {
        match SUITES.iter().find(|(known, _)| *known == name) {
            Some((_, suite)) if allowed.contains(suite) => {}
            Some((_, suite)) => allowed.push(*suite),
            None => {
                let known: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
                let known = known.join(", ");
                wrong.push(format!("--ssl-ciphersuites: no cipher {name}; accepted are {known}"));
            }
        }
    }
    allowed
}

/// Parses a cipher list like OpenSSL: each word adds the ciphers that it selects, `-` removes them, `!`
/// removes them permanently, `+` moves them to the end (openssl-ciphers(1)).
fn allowed_ciphers(list: &str, wrong: &mut Vec<String>) -> Vec<&'static Cipher> {
    let mut allowed: Vec<&Cipher> = Vec::new();
    let mut banned: Vec<&str> = Vec::new();
    let list = list.replace('@', ":@");
    for word in list.split([':', ',', ' ', ';']).filter(|word| !word.is_empty()) {
        if word == "@STRENGTH" {
            allowed.sort_by_key(|cipher| std::cmp::Reverse(cipher.strength_bits));
            continue;
        }
        // Every cipher here satisfies these levels.
        if matches!(word, "@SECLEVEL=0" | "@SECLEVEL=1" | "@SECLEVEL=2" | "@SECLEVEL=3") {
            continue;
        }
        let text = word.trim_start_matches(['!', '-', '+']);
        let Some(selected) = selected(text) else {
            let known: Vec<&str> = CIPHERS.iter().map(|cipher| cipher.name).collect();
            let known = known.join(", ");
            wrong.push(format!("--ssl-ciphers: no cipher {text}; accepted are {known}"));
            continue;
        };
        let is_selected = |cipher: &Cipher| selected.iter().any(|one| one.name == cipher.name);
        match word.as_bytes().first() {
            Some(b'+') => allowed.sort_by_key(|cipher| is_selected(cipher)),
            Some(b'-') => allowed.retain(|cipher| !is_selected(cipher)),
            Some(b'!') => {
                allowed.retain(|cipher| !is_selected(cipher));
                banned.extend(selected.iter().map(|cipher| cipher.name));
            }
            _ => {
                for cipher in selected {
                    let is_there = allowed.iter().any(|one| one.name == cipher.name);
                    if !is_there && !banned.contains(&cipher.name) {
                        allowed.push(cipher);
                    }
                }
            }
        }
    }
    allowed
}

/// Returns the ciphers selected by a name, or by words joined with plus signs; `None` for an unknown one.
fn selected(text: &str) -> Option<Vec<&'static Cipher>> {
    let words: Vec<&str> = text.split('+').collect();
    let is_known = |word: &&str| {
        let has_word = |c: &Cipher| c.name == *word || c.words.contains(word);
        ALL_WORDS.contains(word) || NONE_WORDS.contains(word) || CIPHERS.iter().any(has_word)
    };
    if !words.iter().all(is_known) {
        return None;
    }
    let has = |cipher: &Cipher, word: &str| {
        ALL_WORDS.contains(&word) || cipher.name == word || cipher.words.contains(&word)
    };
    Some(CIPHERS.iter().filter(|cipher| words.iter().all(|word| has(cipher, word))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(list: &str) -> (String, String) {
        let mut wrong = Vec::new();
        let found = allowed_versions(list, &mut wrong);
        let name = |version: &&SupportedProtocolVersion| {
            let known = VERSIONS.iter().find(|(_, known)| *known == Some(*version));
            known.map_or("", |(name, _)| *name)
        };
        (found.iter().map(name).collect::<Vec<_>>().join(" "), wrong.join("\n"))
    }

    #[test]
    fn protocols_are_lists_and_ranges() {
        for (list, found, complaint) in [
            ("TLSv1.2", "TLSv1.2", ""),
            ("tlsv1.3, TLSv1.2", "TLSv1.2 TLSv1.3", ""),
            ("TLSv1.2+", "TLSv1.2 TLSv1.3", ""),
            ("TLSv1.3+", "TLSv1.3", ""),
            ("TLSv1.2-TLSv1.3", "TLSv1.2 TLSv1.3", ""),
            ("TLSv1,TLSv1.2", "TLSv1.2", "TLSv1 is not spoken"),
            ("TLSv1.1+", "TLSv1.2 TLSv1.3", "TLSv1.1 is not spoken"),
            ("TLSv1.3-TLSv1.2", "", "not recognized; accepted are TLSv1.2 and TLSv1.3"),
            ("SSLv3", "", "--ssl-protocols: SSLv3: SSL protocol not recognized"),
            ("", "", ""),
        ] {
            let (versions, wrong) = versions(list);
            assert_eq!(versions, found, "{list}");
            assert!(wrong.contains(complaint), "{list}: {wrong}");
            assert_eq!(wrong.is_empty(), complaint.is_empty(), "{list}: {wrong}");
        }
    }

    #[test]
    fn cipher_lists_mean_what_openssl_means() {
        let short = |cipher: &&Cipher| {
            cipher.name.replace("ECDHE-", "").replace("-GCM", "").replace("-POLY1305", "")
        };
        let everything = "ECDSA-AES256-SHA384 ECDSA-AES128-SHA256 ECDSA-CHACHA20 RSA-AES256-SHA384 \
                          RSA-AES128-SHA256 RSA-CHACHA20";
        for (list, found, complaint) in [
            ("HIGH:!aNULL:!MD5", everything, ""),
            ("DEFAULT@SECLEVEL=2", everything, ""),
            ("DEFAULT@SECLEVEL=5", everything, "no cipher @SECLEVEL=5"),
            ("ECDHE-RSA-AES128-GCM-SHA256", "RSA-AES128-SHA256", ""),
            ("aRSA+AESGCM:!AES256", "RSA-AES128-SHA256", ""),
            ("ALL:-AES:+aECDSA", "RSA-CHACHA20 ECDSA-CHACHA20", ""),
            ("!CHACHA20:ECDHE+aRSA", "RSA-AES256-SHA384 RSA-AES128-SHA256", ""),
            ("AES128:AES256:@STRENGTH:!aECDSA", "RSA-AES256-SHA384 RSA-AES128-SHA256", ""),
            ("AES256-SHA", "", "--ssl-ciphers: no cipher AES256-SHA; accepted are ECDHE-ECDSA-"),
            ("3DES", "", ""),
        ] {
            let mut wrong = Vec::new();
            let ciphers = allowed_ciphers(list, &mut wrong);
            assert_eq!(ciphers.iter().map(short).collect::<Vec<_>>().join(" "), found, "{list}");
            let wrong = wrong.join("\n");
            assert!(wrong.contains(complaint), "{list}: {wrong}");
            assert_eq!(wrong.is_empty(), complaint.is_empty(), "{list}: {wrong}");
        }
    }

    #[test]
    fn a_version_without_a_cipher_is_not_offered() {
        let (policy, wrong) = TlsPolicy::from_options(None, Some("3DES"), None);
        assert_eq!((policy.versions(), wrong.len()), (&[&rustls::version::TLS13][..], 0));
        let suites = Some("TLS_AES_128_GCM_SHA256:TLS_AES_128_CCM_SHA256");
        let (policy, wrong) = TlsPolicy::from_options(Some("TLSv1.3"), None, suites);
        assert_eq!(policy.versions(), [&rustls::version::TLS13]);
        let of_13 = policy.suites.iter().filter(|s| s.version() == &rustls::version::TLS13);
        assert_eq!(of_13.count(), 1);
        assert!(wrong[0].starts_with("--ssl-ciphersuites: no cipher TLS_AES_128_CCM_SHA256"));
        let (policy, wrong) = TlsPolicy::from_options(Some("TLSv1.2"), Some("3DES"), None);
        assert!(policy.versions().is_empty());
        assert_eq!(wrong, ["the TLS options leave no version with a cipher; ssl: does not work"]);
    }
}
