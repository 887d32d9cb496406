//! Shared parts of views: ICMP and ICMPv6, and the ports of TCP, UDP and SCTP.

/// The fields of ICMP and ICMPv6 headers (RFC 4443 section 2.1).
pub(crate) mod icmp_field {
    pub const TYPE: usize = 0;
    pub const CODE: usize = 1;
    pub const CHECKSUM: usize = 2;
    pub const REST: usize = 4;
    pub const ECHO_ID: usize = 4;
    pub const ECHO_SEQ: usize = 6;
}

/// The ports of a transport protocol.
pub(crate) mod port_field {
    pub const SOURCE: usize = 0;
    pub const DESTINATION: usize = 2;
}

/// Defines `new_checked` and the accessors that ICMP and ICMPv6 share. The including module defines
/// `is_error` and the types.
macro_rules! icmp_view {
    ($View:ident) => {
        impl<T: AsRef<[u8]>> $View<T> {
            /// A view of `bytes`.
            ///
            /// # Errors
            /// Fewer than 8 bytes.
            #[inline]
            pub fn new_checked(bytes: T) -> Result<Self, $crate::Malformed> {
                let len = bytes.as_ref().len();
                $crate::Malformed::unless_holds($crate::Header::$View, HEADER_LEN, len)?;
                Ok($View { bytes })
            }

            /// The bytes that the view was made of.
            pub fn into_inner(self) -> T {
                self.bytes
            }

            /// The type, such as [`ECHO_REQUEST`].
            pub fn icmp_type(&self) -> u8 {
                $crate::octets::u8_at(self.bytes.as_ref(), field::TYPE)
            }

            /// The code within the type.
            pub fn code(&self) -> u8 {
                $crate::octets::u8_at(self.bytes.as_ref(), field::CODE)
            }

            /// The checksum in the packet.
            pub fn checksum(&self) -> u16 {
                $crate::octets::u16_at(self.bytes.as_ref(), field::CHECKSUM)
            }

            /// The four bytes after the checksum. Their meaning depends on the type, such as the flags of a
            /// neighbour advertisement or the MTU of a "packet too big".
            pub fn rest(&self) -> u32 {
                $crate::octets::u32_at(self.bytes.as_ref(), field::REST)
            }

            /// The identifier of a query or its reply.
            pub fn echo_id(&self) -> u16 {
                $crate::octets::u16_at(self.bytes.as_ref(), field::ECHO_ID)
            }

            /// The sequence number of a query or its reply.
            pub fn echo_seq(&self) -> u16 {
                $crate::octets::u16_at(self.bytes.as_ref(), field::ECHO_SEQ)
            }

            /// Returns whether the message is an error, whose payload is the start of the packet that caused
            /// it.
            pub fn is_error(&self) -> bool {
                is_error(self.icmp_type())
            }

            /// The bytes after the header: echo data, or for errors the quoted packet.
            pub fn payload(&self) -> &[u8] {
                let bytes = self.bytes.as_ref();
                $crate::octets::range(bytes, HEADER_LEN, bytes.len())
            }
        }
    };
}

/// Defines the accessors of ports, which are at the same offsets in TCP, UDP and SCTP.
macro_rules! transport_view {
    ($View:ident) => {
        impl<T: AsRef<[u8]>> $View<T> {
            /// The bytes that the view was made of.
            pub fn into_inner(self) -> T {
                self.bytes
            }

            /// The source port.
            pub fn source_port(&self) -> u16 {
                $crate::octets::u16_at(self.bytes.as_ref(), field::SOURCE)
            }

            /// The destination port.
            pub fn destination_port(&self) -> u16 {
                $crate::octets::u16_at(self.bytes.as_ref(), field::DESTINATION)
            }
        }
    };
}

pub(crate) use {icmp_view, transport_view};
