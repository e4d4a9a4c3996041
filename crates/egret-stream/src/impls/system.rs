//! Times and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::through;
use crate::describe::Describe;
use crate::error::Invalid;
use crate::reader::Reader;
use crate::wire::{FromWire, Stop, Wire, WireSize, Written};
use crate::writer::Writer;

through!(
    Duration as (u64, u32),
    "duration",
    |value| (value.as_secs(), value.subsec_nanos()),
    |read| (read.1 < NANOS).then(|| Duration::new(read.0, read.1))
);

through!(
    SystemTime as (bool, Duration),
    "system time",
    |value| match value.duration_since(UNIX_EPOCH) {
        Ok(after) => (false, after),
        Err(before) => (true, before.duration()),
    },
    |read| match read {
        (false, after) => UNIX_EPOCH.checked_add(after),
        (true, before) if before.is_zero() => None,
        (true, before) => UNIX_EPOCH.checked_sub(before),
    }
);

through!(Ipv4Addr as [u8; 4], "IPv4 address", |value| value.octets(), |read| Some(Ipv4Addr::from(
    read
)));
through!(Ipv6Addr as [u8; 16], "IPv6 address", |value| value.octets(), |read| Some(
    Ipv6Addr::from(read)
));
through!(
    SocketAddrV4 as (Ipv4Addr, u16),
    "IPv4 address and port",
    |value| (*value.ip(), value.port()),
    |read| Some(SocketAddrV4::new(read.0, read.1))
);
through!(
    SocketAddrV6 as (Ipv6Addr, u16, u32, u32),
    "IPv6 address and port",
    |value| (*value.ip(), value.port(), value.flowinfo(), value.scope_id()),
    |read| Some(SocketAddrV6::new(read.0, read.1, read.2, read.3))
);

const NANOS: u32 = 1_000_000_000;

/// An address of one of two families.
macro_rules! families {
    ($($type:ident $name:literal)*) => {$(
        impl Wire for $type {
            const SIZE: WireSize = WireSize::at_least(5);
            fn describe(d: &mut Describe) {
                d.word($name);
            }
            fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
                match self {
                    Self::V4(address) => {
                        w.array([4])?;
                        address.write(w)
                    }
                    Self::V6(address) => {
                        w.array([6])?;
                        address.write(w)
                    }
                }
            }
        }
        impl<'a> FromWire<'a> for $type {
            fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
                match r.array()? {
                    [4] => FromWire::read(r).map(Self::V4),
                    [6] => FromWire::read(r).map(Self::V6),
                    _ => Err(r.fail(Invalid::new($name))),
                }
            }
        }
    )*};
}

families!(IpAddr "IP address" SocketAddr "IP address and port");
