//! OpenFlow errors, and their numbers in each version.

use std::fmt;

/// An OpenFlow error by meaning; its numbers depend on the version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorCode {
    /// Numbers on the wire, for errors without a name here.
    Raw {
        /// `type`
        error_type: u16,
        /// `code`
        code: u16,
    },
    /// OFPHFC_INCOMPATIBLE: no version in common.
    HelloIncompatible,
    /// OFPBRC_BAD_VERSION
    BadVersion,
    /// OFPBRC_BAD_TYPE
    BadType,
    /// OFPBRC_BAD_STAT / BAD_MULTIPART
    BadStat,
    /// OFPBRC_BAD_VENDOR / BAD_EXPERIMENTER
    BadVendor,
    /// OFPBRC_BAD_SUBTYPE / BAD_EXPERIMENTER_TYPE
    BadSubtype,
    /// OFPBRC_EPERM
    RequestEperm,
    /// OFPBRC_IS_SECONDARY: not permitted for a secondary controller.
    IsSecondary,
    /// OFPBRC_BAD_LEN
    BadLen,
    /// OFPBRC_BUFFER_UNKNOWN
    BufferUnknown,
    /// OFPBRC_BAD_TABLE_ID
    BadTableId,
    /// OFPBRC_BAD_PORT
    BadPort,
    /// OFPBRC_BAD_PACKET
    BadPacket,
    /// OFPBAC_BAD_TYPE
    ActionBadType,
    /// OFPBAC_BAD_LEN
    ActionBadLen,
    /// OFPBAC_BAD_VENDOR
    ActionBadVendor,
    /// OFPBAC_BAD_VENDOR_TYPE / BAD_EXP_TYPE
    ActionBadVendorType,
    /// OFPBAC_BAD_OUT_PORT
    ActionBadOutPort,
    /// OFPBAC_BAD_ARGUMENT
    ActionBadArgument,
    /// OFPBAC_TOO_MANY
    ActionTooMany,
    /// OFPBAC_BAD_OUT_GROUP
    ActionBadOutGroup,
    /// OFPBAC_MATCH_INCONSISTENT
    ActionMatchInconsistent,
    /// OFPBAC_UNSUPPORTED_ORDER
    ActionUnsupportedOrder,
    /// OFPBAC_BAD_TAG
    ActionBadTag,
    /// OFPBAC_BAD_SET_TYPE
    ActionBadSetType,
    /// OFPBAC_BAD_SET_LEN
    ActionBadSetLen,
    /// OFPBAC_BAD_SET_ARGUMENT
    ActionBadSetArgument,
    /// OFPBAC_BAD_SET_MASK
    ActionBadSetMask,
    /// OFPBIC_UNKNOWN_INST
    InstructionUnknown,
    /// OFPBIC_UNSUP_INST
    InstructionUnsupported,
    /// OFPBIC_BAD_TABLE_ID
    InstructionBadTableId,
    /// OFPBIC_BAD_EXPERIMENTER
    InstructionBadExperimenter,
    /// OFPBIC_BAD_LEN
    InstructionBadLen,
    /// OFPBIC_DUP_INST / DUP_TYPE
    InstructionDuplicate,
    /// OFPBMC_BAD_TYPE
    MatchBadType,
    /// OFPBMC_BAD_LEN
    MatchBadLen,
    /// OFPBMC_BAD_FIELD
    MatchBadField,
    /// OFPBMC_BAD_VALUE
    MatchBadValue,
    /// OFPBMC_BAD_MASK
    MatchBadMask,
    /// OFPBMC_BAD_PREREQ
    MatchBadPrereq,
    /// OFPBMC_DUP_FIELD
    MatchDuplicateField,
    /// OFPBMC_BAD_WILDCARDS
    MatchBadWildcards,
    /// OFPFMFC_UNKNOWN
    FlowModUnknown,
    /// OFPFMFC_TABLE_FULL
    TableFull,
    /// OFPFMFC_BAD_TABLE_ID
    FlowModBadTableId,
    /// OFPFMFC_OVERLAP
    Overlap,
    /// OFPFMFC_EPERM
    FlowModEperm,
    /// OFPFMFC_BAD_TIMEOUT
    BadTimeout,
    /// OFPFMFC_BAD_COMMAND
    BadCommand,
    /// OFPFMFC_BAD_FLAGS
    BadFlags,
    /// OFPPMFC_BAD_PORT
    PortModBadPort,
    /// OFPPMFC_BAD_HW_ADDR
    PortModBadHwAddr,
    /// OFPTMFC_BAD_TABLE
    TableModBadTable,
    /// OFPTMFC_BAD_CONFIG
    TableModBadConfig,
    /// OFPTMFC_EPERM
    TableModEperm,
    /// OFPTFFC_EPERM
    TableFeaturesEperm,
    /// OFPTFFC_BAD_COMMAND
    TableFeaturesBadCommand,
    /// OFPTFFC_TOO_MANY
    TableFeaturesTooMany,
    /// NXTFFC_DUP_TABLE
    TableFeaturesDuplicate,
    /// OFPQOFC_BAD_PORT
    QueueBadPort,
    /// OFPQOFC_BAD_QUEUE
    QueueBadQueue,
    /// OFPSCFC_BAD_FLAGS
    ConfigBadFlags,
    /// OFPRRFC_STALE
    RoleStale,
    /// OFPRRFC_BAD_ROLE
    RoleBad,
    /// OFPGMFC_GROUP_EXISTS
    GroupExists,
    /// OFPGMFC_INVALID_GROUP
    GroupInvalid,
    /// OFPGMFC_WATCH_UNSUPPORTED
    GroupWatchUnsupported,
    /// OFPGMFC_UNKNOWN_GROUP
    GroupUnknown,
    /// OFPGMFC_BAD_TYPE
    GroupBadType,
    /// OFPGMFC_BAD_COMMAND
    GroupBadCommand,
    /// OFPGMFC_BAD_BUCKET
    GroupBadBucket,
    /// OFPGMFC_BAD_WATCH
    GroupBadWatch,
    /// OFPGMFC_UNKNOWN_BUCKET
    GroupUnknownBucket,
    /// OFPGMFC_BUCKET_EXISTS
    GroupBucketExists,
    /// OFPMMFC_UNKNOWN_METER
    MeterUnknown,
    /// OFPMMFC_INVALID_METER: a flow uses a meter that does not exist.
    MeterInvalid,
    /// OFPMMFC_BAD_COMMAND
    MeterBadCommand,
    /// OFPMMFC_METER_EXISTS
    MeterExists,
    /// OFPMMFC_BAD_FLAGS
    MeterBadFlags,
    /// OFPMMFC_BAD_RATE
    MeterBadRate,
    /// OFPMMFC_BAD_BAND
    MeterBadBand,
    /// OFPMMFC_OUT_OF_METERS
    MeterOutOfMeters,
    /// OFPMMFC_OUT_OF_BANDS
    MeterOutOfBands,
    /// NXTTMFC_BAD_COMMAND: an unknown command of a TLV table-mod.
    TlvBadCommand,
    /// NXTTMFC_BAD_OPT_LEN: an unsupported length of an option's value.
    TlvBadLen,
    /// NXTTMFC_BAD_FIELD_IDX: the field does not exist.
    TlvBadIndex,
    /// NXTTMFC_ALREADY_MAPPED: the field is already mapped to an option.
    TlvMapped,
    /// NXTTMFC_DUP_ENTRY: the option is already mapped to another field.
    TlvDuplicate,
    /// NXTTMFC_TABLE_FULL: the values of all options have no room.
    TlvTableFull,
    /// NXTTMFC_INVALID_TLV_DEL: a flow uses the field.
    TlvInUse,
    /// NXFMFC_INVALID_TLV_FIELD: no option is mapped to the field.
    TlvUnmapped,
    /// OFPBFC_UNKNOWN
    BundleUnknown,
    /// OFPBFC_EPERM
    BundleEperm,
    /// OFPBFC_BAD_ID
    BundleBadId,
    /// OFPBFC_BUNDLE_EXIST
    BundleExists,
    /// OFPBFC_BUNDLE_CLOSED
    BundleClosed,
    /// OFPBFC_BAD_TYPE
    BundleBadType,
    /// OFPBFC_BAD_FLAGS
    BundleBadFlags,
    /// OFPBFC_MSG_UNSUP
    BundleMessageUnsupported,
    /// OFPBFC_MSG_BAD_XID
    BundleMessageBadXid,
    /// OFPBFC_MSG_FAILED
    BundleMessageFailed,
    /// OFPBFC_OUT_OF_BUNDLES
    BundleOutOfBundles,
    /// OFPBFC_MSG_TOO_MANY
    BundleMessageTooMany,
    /// OFPBFC_TIMEOUT
    BundleTimeout,
    /// OFPMOFC_MONITOR_EXISTS
    MonitorExists,
    /// OFPMOFC_UNKNOWN_MONITOR
    MonitorUnknown,
    /// OFPMOFC_BAD_COMMAND
    MonitorBadCommand,
    /// OFPMOFC_BAD_FLAGS
    MonitorBadFlags,
    /// NXBRC_FM_BAD_EVENT
    MonitorBadEvent,
    /// OFPACFC_UNSUPPORTED
    AsyncUnsupported,
    /// OFPBPC_BAD_TYPE
    PropertyBadType,
    /// OFPBPC_BAD_LEN
    PropertyBadLen,
    /// OFPBPC_BAD_VALUE
    PropertyBadValue,
    /// NXBRC_MUST_BE_ZERO: padding that must be zero is not.
    MustBeZero,
    /// NXBAC_MUST_BE_ZERO
    ActionMustBeZero,
    /// NXBAC_BAD_CONJUNCTION
    BadConjunction,
    /// NXBAC_BAD_HEADER_TYPE: `encap` with an unsupported header.
    BadHeaderType,
    /// NXBAC_BAD_ED_PROP: a property of `encap` or `decap` whose length is wrong.
    BadEncapProperty,
    /// NXBAC_UNKNOWN_ED_PROP: `encap` or `decap` with a property that its header does not have.
    UnknownProperty,
    /// NXR_STALE: a continuation of an earlier run of the switch, or of a bridge that was removed.
    ContinuationStale,
    /// NXBRC_NXM_INVALID: a cookie mask in a request to add a flow.
    NxmInvalid,
}

/// Why a message is invalid or a request failed, with a description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfError {
    /// The OpenFlow error.
    pub code: ErrorCode,
    /// What was wrong, and where.
    pub reason: String,
}

impl OfError {
    /// An error with its description.
    pub fn new(code: ErrorCode, reason: impl Into<String>) -> Self {
        OfError { code, reason: reason.into() }
    }
}

impl fmt::Display for OfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.reason)
    }
}

impl std::error::Error for OfError {}
