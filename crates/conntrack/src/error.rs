//! Errors in an operator's requests.

use base::limits::TRACKING_THREADS;

/// An invalid request. The messages for tuples and limits are Open vSwitch's (ovs: `lib/ofp-ct.c`,
/// `lib/ct-dpif.c`).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// A timeout policy has an unknown timeout.
    #[error("{name} is no timeout of a policy; ovs-vsctl(8), add-zone-tp, lists them")]
    UnknownTimeout {
        /// The given name.
        name: String,
    },
    /// `key=` without a value.
    #[error("field {key} missing value")]
    MissingValue {
        /// The field.
        key: String,
    },
    /// A value that does not fit the field.
    #[error("failed to parse field {key}")]
    BadValue {
        /// The field.
        key: String,
    },
    /// A field that tuples do not have.
    #[error("invalid conntrack tuple field: {key}")]
    UnknownField {
        /// The field.
        key: String,
    },
    /// An IPv4 and an IPv6 address in one request.
    #[error("the L3 protocol does not match {value}")]
    MixedFamilies {
        /// The later address.
        value: String,
    },
    /// A field given twice.
    #[error("{key} is set multiple times")]
    Repeated {
        /// The field.
        key: String,
    },
    /// The mark of a flush is not a number, or has an invalid mask.
    #[error("failed to parse mark")]
    BadMark,
    /// The label of a flush is not a number, or has an invalid mask.
    #[error("failed to parse labels")]
    BadLabels,
    /// ICMP fields without `ct_nw_proto` of ICMP before them.
    #[error("invalid L4 fields")]
    NotIcmp,
    /// Ports without `ct_nw_proto`.
    #[error("port is set without protocol")]
    PortWithoutProtocol,
    /// A zone limit without both `zone` and `limit`.
    #[error("failed to parse zone limit")]
    IncompleteLimit,
    /// A field that zone limits do not have.
    #[error("invalid zone limit field: {key}")]
    UnknownLimitField {
        /// The field.
        key: String,
    },
    /// A filter has an unknown field.
    #[error(
        "{key} is nothing to choose connections by; zone, network, source, destination, port, \
         protocol, mark, label and state are"
    )]
    UnknownFilter {
        /// The given key.
        key: String,
    },
    /// The maximum number of tracking threads is reached.
    #[error("{} threads track packets, and no more may; use fewer workers", TRACKING_THREADS - 1)]
    TooManyTrackers,
    /// A flush of one whole tuple found no connection.
    #[error("no connection has this original tuple in zone {zone}; give the tuple before NAT")]
    NoSuchConnection {
        /// The zone that was searched.
        zone: u16,
    },
}
