//! An AF_XDP port's configuration in an interface's `options` (ovs: `lib/netdev-afxdp.c`,
//! `netdev_afxdp_set_config`).

use std::collections::BTreeMap;

/// How frames are passed from the driver to the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpMode {
    /// The driver writes frames directly to the shared memory.
    NativeWithZerocopy,
    /// The driver runs the program; frames are copied once.
    Native,
    /// The kernel runs the program after the driver, on any device; the slowest mode.
    Generic,
}

/// An AF_XDP port's options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XdpOptions {
    /// The requested mode (`xdp-mode`); `None` selects the fastest that the device supports.
    pub mode: Option<XdpMode>,
    /// Number of the device's receive queues that are used, from the first (`n_rxq`).
    pub queues: u16,
    /// Whether the kernel may request to be woken, which saves system calls (`use-need-wakeup`).
    pub need_wakeup: bool,
}

impl XdpMode {
    /// The modes, the fastest first.
    pub const ALL: [XdpMode; 3] = [XdpMode::NativeWithZerocopy, XdpMode::Native, XdpMode::Generic];

    /// Returns its name in Open vSwitch.
    pub fn name(self) -> &'static str {
        match self {
            XdpMode::NativeWithZerocopy => "native-with-zerocopy",
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        }
    }
}

impl Default for XdpOptions {
    fn default() -> Self {
        XdpOptions { mode: None, queues: 1, need_wakeup: true }
    }
}

impl XdpOptions {
    /// Maximum number of queues (ovs: `lib/netdev-afxdp.c`, `MAX_XSKQ`).
    pub const QUEUES_MAX: u16 = 16;

    /// Parses an interface's `options`; those with other names are ignored.
    ///
    /// # Errors
    /// The invalid option, with its valid values.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<Self, String> {
        let get = |name: &str| options.get(name).map(String::as_str);
        let mode = match get("xdp-mode").map(str::to_ascii_lowercase).as_deref() {
            None | Some("best-effort") => None,
            Some("skb") => Some(XdpMode::Generic),
            Some(name) => match XdpMode::ALL.iter().find(|mode| mode.name() == name) {
                Some(mode) => Some(*mode),
                None => {
                    return Err(format!(
                        "options:xdp-mode is \"{name}\"; it has to be best-effort, \
                         native-with-zerocopy, native or generic"
                    ));
                }
            },
        };
        let queues = match get("n_rxq") {
            None => 1,
            Some(text) => match text.parse::<i64>() {
                // Less than one becomes one, as in Open vSwitch.
                Ok(queues) if queues <= Self::QUEUES_MAX.into() => queues.max(1) as u16,
                _ => {
                    return Err(format!(
                        "options:n_rxq is \"{text}\"; it has to be a number up to {}",
                        Self::QUEUES_MAX
                    ));
                }
            },
        };
        let need_wakeup = match get("use-need-wakeup") {
            None | Some("true") => true,
            Some("false") => false,
            Some(text) => {
                return Err(format!(
                    "options:use-need-wakeup is \"{text}\"; it has to be true or false"
                ));
            }
        };
        Ok(XdpOptions { mode, queues, need_wakeup })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_or_refused_in_words() {
        let check = |pairs: &[(&str, &str)], expect: Result<(Option<XdpMode>, u16, bool), &str>| {
            let options =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let found = XdpOptions::parse(&options.collect());
            let found = found.map(|found| (found.mode, found.queues, found.need_wakeup));
            assert_eq!(found, expect.map_err(str::to_owned), "{pairs:?}");
        };
        check(&[], Ok((None, 1, true)));
        check(&[("xdp-mode", "best-effort"), ("n_rxq", "4")], Ok((None, 4, true)));
        check(&[("xdp-mode", "Native")], Ok((Some(XdpMode::Native), 1, true)));
        check(&[("xdp-mode", "generic")], Ok((Some(XdpMode::Generic), 1, true)));
        check(&[("xdp-mode", "skb")], Ok((Some(XdpMode::Generic), 1, true)));
        let zerocopy = Some(XdpMode::NativeWithZerocopy);
        check(&[("xdp-mode", "native-with-zerocopy")], Ok((zerocopy, 1, true)));
        check(&[("use-need-wakeup", "false"), ("n_rxq", "0")], Ok((None, 1, false)));
        check(
            &[("xdp-mode", "fast")],
            Err("options:xdp-mode is \"fast\"; it has to be best-effort, native-with-zerocopy, \
                 native or generic"),
        );
        check(&[("n_rxq", "17")], Err("options:n_rxq is \"17\"; it has to be a number up to 16"));
        check(&[("n_rxq", "x")], Err("options:n_rxq is \"x\"; it has to be a number up to 16"));
        check(
            &[("use-need-wakeup", "1")],
            Err("options:use-need-wakeup is \"1\"; it has to be true or false"),
        );
    }
}
