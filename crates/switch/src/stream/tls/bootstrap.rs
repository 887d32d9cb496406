//! Takes the CA certificate from the first peer, if its file does not exist yet (ovs: `lib/stream-ssl.c`,
//! `do_ca_cert_bootstrap`).

use rustls_pki_types::CertificateDer;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Readable by all, writable by none.
const FILE_MODE: u32 = 0o444;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const TAG_SEQUENCE: u8 = 0x30;
const TAG_VERSION: u8 = 0xa0;

/// Writes the last certificate of a peer's chain, which must be self-signed. The connection must be made
/// again, and is then verified.
///
/// # Errors
/// The chain has no such certificate, or the file cannot be created. An existing file is not changed.
pub fn store(file: &Path, shown: &[CertificateDer<'_>]) -> io::Result<()> {
    let refuse =
        |words: &str| Err(io::Error::other(format!("could not bootstrap CA cert: {words}")));
    let Some(last) = shown.last() else { return refuse("no certificate presented by peer") };
    if issuer_and_subject(last).is_none_or(|(issuer, subject)| issuer != subject) {
        return refuse("self-signed certificate not last in the chain that the peer presented");
    }
    let mut options = OpenOptions::new();
    let mut created = match options.write(true).create_new(true).mode(FILE_MODE).open(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            log::info!(
                target: "stream_ssl",
                "reading CA cert {} created by another process", file.display()
            );
            return Ok(());
        }
        created => created?,
    };
    if let Err(error) = created.write_all(pem(last).as_bytes()) {
        // A partial certificate would be used the next time.
        std::fs::remove_file(file)?;
        return Err(error);
    }
    log::info!(target: "stream_ssl", "successfully bootstrapped CA cert to {}", file.display());
    Ok(())
}

/// Returns the encoded names of a certificate's issuer and subject (RFC 5280, 4.1).
fn issuer_and_subject<'a>(certificate: &'a CertificateDer<'_>) -> Option<(&'a [u8], &'a [u8])> {
    let (tag, mut rest, _) = element(certificate)?;
    let to_be_signed = (tag == TAG_SEQUENCE).then(|| element(rest))??;
    rest = to_be_signed.1;
    if element(rest)?.0 == TAG_VERSION {
        rest = element(rest)?.2;
    }
    let mut next = || {
        let (_, content, after) = element(rest)?;
        rest = after;
        Some(content)
    };
    let (_serial, _algorithm, issuer, _validity) = (next()?, next()?, next()?, next()?);
    Some((issuer, next()?))
}

/// Returns the tag and content of the first DER element, and the rest.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, length], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match length {
        short @ 0..=0x7f => (usize::from(short), rest),
        long => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            let add = |sum: usize, digit: &u8| sum.checked_mul(256)?.checked_add((*digit).into());
            (digits.iter().try_fold(0, add)?, rest)
        }
    };
    let (content, behind) = rest.split_at_checked(length)?;
    Some((tag, content, behind))
}

/// Returns a certificate as text (RFC 7468).
fn pem(certificate: &[u8]) -> String {
    let mut digits = Vec::new();
    for three in certificate.chunks(3) {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = BASE64[(bits >> (18 - 6 * place) & 63) as usize];
            digits.push(if place <= three.len() { digit } else { b'=' });
        }
    }
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in digits.chunks(64) {
        text.extend(line.iter().map(|digit| char::from(*digit)));
        text.push('\n');
    }
    text + "-----END CERTIFICATE-----\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls_pki_types::pem::PemObject;

    #[test]
    fn what_is_written_is_read_back() {
        for length in 0..70u8 {
            let bytes: Vec<u8> = (0..length).map(|n| n.wrapping_mul(37)).collect();
            let back = CertificateDer::from_pem_slice(pem(&bytes).as_bytes()).unwrap();
            assert_eq!(back.as_ref(), bytes);
        }
    }

    #[test]
    fn lengths_that_lead_out_of_the_bytes_are_refused() {
        let cases: [&[u8]; 6] = [
            &[],
            &[0x30],
            &[0x30, 5, 1],
            &[0x30, 0x82, 1],
            &[0x30, 0x89, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
        ];
        for bytes in cases {
            assert!(element(bytes).is_none(), "{bytes:?}");
            assert!(issuer_and_subject(&CertificateDer::from(bytes)).is_none());
        }
    }

    #[test]
    fn nothing_is_stored_of_a_peer_that_shows_nothing() {
        let error = store(Path::new("/nonexistent/ca"), &[]).unwrap_err().to_string();
        assert_eq!(error, "could not bootstrap CA cert: no certificate presented by peer");
    }
}
