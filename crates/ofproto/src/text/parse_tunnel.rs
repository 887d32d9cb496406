//! Parsing of `tunnel(...)` in a datapath flow's key.

use super::parentheses::closing;
use super::parse::{ParseError, Reader, error};
use super::parse_options::read_geneve;
use super::tunnel::TUNNEL_FLAGS;
use flow::Field;

impl Reader<'_> {
    /// `tun_id=0x7b,src=1.1.1.1,erspan(ver=1,idx=0x3),flags(-df+key)`
    pub(super) fn tunnel(&mut self, inside: &str) -> Result<(), ParseError> {
        let mut rest = inside.trim();
        while !rest.is_empty() {
            let end = rest.find([',', '(']).unwrap_or(rest.len());
            if rest[end..].starts_with('(') {
                let behind = &rest[end + 1..];
                let Some(close) = closing(behind) else {
                    return error(rest, "the parenthesis is not closed");
                };
                match &rest[..end] {
                    "flags" => self.flags(Field::TunFlags, &TUNNEL_FLAGS, &behind[..close])?,
                    "geneve" => {
                        read_geneve(&mut self.key, &mut self.mask, &behind[..close])?;
                    }
                    "vxlan" => self.tunnel(&behind[..close])?,
                    name => self.fields(name, &behind[..close])?,
                }
                rest = &behind[close + 1..];
            } else {
                self.fields("tunnel", &rest[..end])?;
                rest = &rest[end..];
            }
            rest = rest.trim_start_matches([',', ' ']);
        }
        Ok(())
    }
}
