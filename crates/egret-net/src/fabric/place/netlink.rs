//! What the kernel tells of links, addresses and routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

/// What matters here of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NetlinkMessage {
    Link { index: u32, name: String, is_up: bool, is_loopback: bool },
    Address { index: u32, ip: IpAddr },
    DefaultRoute { index: u32, is_ipv6: bool, metric: u32 },
}

/// All links, then all addresses, then all default routes.
pub(super) fn ask() -> Result<Vec<NetlinkMessage>, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let mut messages = Vec::new();
    for (number, what) in (1..).zip([GET_LINK, GET_ADDR, GET_ROUTE]) {
        dump(&socket, number, what, &mut messages)?;
    }
    Ok(messages)
}

fn dump(
    socket: &OwnedFd,
    number: u32,
    what: u16,
    into: &mut Vec<NetlinkMessage>,
) -> Result<(), Errno> {
    sendto(socket, &request(number, what), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut buf = vec![0; DATAGRAM_MAX];
    for _ in 0..DATAGRAMS_MAX {
        let (len, _) = recv(socket, &mut *buf, RecvFlags::empty())?;
        if read(buf.get(..len).unwrap_or(&buf), into)? {
            return Ok(());
        }
    }
    Err(Errno::MSGSIZE)
}

fn request(number: u32, what: u16) -> Vec<u8> {
    let len = u32::try_from(HEADER + LINK_FIXED).expect("a small number");
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(what.to_ne_bytes());
    bytes.extend((REQUEST | DUMP).to_ne_bytes());
    bytes.extend(number.to_ne_bytes());
    // The kernel is told no port, and of every family.
    bytes.resize(HEADER + LINK_FIXED, 0);
    bytes
}

/// Reads the messages of one datagram; whether they are the last.
fn read(mut datagram: &[u8], into: &mut Vec<NetlinkMessage>) -> Result<bool, Errno> {
    while let Some(len) = u32_at(datagram, 0) {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let message = datagram.get(HEADER..len).ok_or(Errno::PROTO)?;
        match u16_at(datagram, 4).ok_or(Errno::PROTO)? {
            DONE => return Ok(true),
            ERROR => return Err(error(message)),
            NEW_LINK => into.extend(link(message)),
            NEW_ADDR => into.extend(address(message)),
            NEW_ROUTE => routes(message, into),
            _ => {}
        }
        datagram = datagram.get(aligned(len)..).unwrap_or_default();
    }
    Ok(false)
}

fn error(message: &[u8]) -> Errno {
    let number = u32_at(message, 0).unwrap_or_default().cast_signed();
    Errno::from_raw_os_error(number.saturating_neg().clamp(1, ERRNO_MAX))
}

fn link(message: &[u8]) -> Option<NetlinkMessage> {
    let (index, flags) = (u32_at(message, 4)?, u32_at(message, 8)?);
    let name = attribute(message.get(LINK_FIXED..)?, LINK_NAME)?;
    let name = str::from_utf8(name.strip_suffix(b"\0").unwrap_or(name)).ok()?.to_owned();
    let is_up = flags & UP != 0 && flags & RUNNING != 0;
    Some(NetlinkMessage::Link { index, name, is_up, is_loopback: flags & LOOPBACK != 0 })
}

/// None if it is not ready, on its way out, or changes with time.
fn address(message: &[u8]) -> Option<NetlinkMessage> {
    let (family, index) = (*message.first()?, u32_at(message, 4)?);
    let attributes = message.get(ADDR_FIXED..)?;
    let flags = attribute(attributes, ADDR_FLAGS).and_then(|flags| u32_at(flags, 0));
    let flags = flags.unwrap_or_else(|| u32::from(message[2]));
    if flags & (FAILED | DEPRECATED | TENTATIVE) != 0 || family == IPV6 && flags & TEMPORARY != 0 {
        return None;
    }
    // Of a link between two, this side's.
    let own = attribute(attributes, ADDR_LOCAL).or_else(|| attribute(attributes, ADDR_ADDRESS))?;
    Some(NetlinkMessage::Address { index, ip: ip(family, own)? })
}

fn ip(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        IPV4 => Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()),
        IPV6 => Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?).into()),
        _ => None,
    }
}

/// The interfaces that a default route goes over.
fn routes(message: &[u8], into: &mut Vec<NetlinkMessage>) {
    let Some(&[family, to_len, _, _, table, _, _, kind]) = message.first_chunk() else { return };
    let Some(attributes) = message.get(ROUTE_FIXED..) else { return };
    if to_len != 0 || kind != UNICAST || table != MAIN || !matches!(family, IPV4 | IPV6) {
        return;
    }
    let number = |kind| attribute(attributes, kind).and_then(|bytes| u32_at(bytes, 0));
    let metric = number(ROUTE_METRIC).unwrap_or(0);
    let mut add = |index| {
        into.push(NetlinkMessage::DefaultRoute { index, is_ipv6: family == IPV6, metric });
    };
    number(ROUTE_LINK).into_iter().for_each(&mut add);
    let mut hops = attribute(attributes, ROUTE_HOPS).unwrap_or_default();
    while let (Some(len), Some(index)) = (u16_at(hops, 0), u32_at(hops, 4)) {
        add(index);
        hops = hops.get(aligned(usize::from(len).max(HOP_FIXED))..).unwrap_or_default();
    }
}

/// The value of the first attribute of this kind.
fn attribute(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let (len, found) = (usize::from(u16_at(attributes, 0)?), u16_at(attributes, 2)?);
        let value = attributes.get(ATTRIBUTE_FIXED..len)?;
        // The upper two bits tell of its inside.
        if found & 0x3fff == kind {
            return Some(value);
        }
        attributes = attributes.get(aligned(len)..)?;
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

const fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

const PATIENCE: Duration = Duration::from_secs(2);
/// The kernel fills no more than this.
const DATAGRAM_MAX: usize = 32 << 10;
/// Some hundred thousand routes.
const DATAGRAMS_MAX: usize = 4096;

const HEADER: usize = 16;
const LINK_FIXED: usize = 16;
const ADDR_FIXED: usize = 8;
const ROUTE_FIXED: usize = 12;
const HOP_FIXED: usize = 8;
const ATTRIBUTE_FIXED: usize = 4;

const ERRNO_MAX: i32 = 4095;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDR: u16 = 20;
const GET_ADDR: u16 = 22;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;

const LINK_NAME: u16 = 3;
const ADDR_ADDRESS: u16 = 1;
const ADDR_LOCAL: u16 = 2;
const ADDR_FLAGS: u16 = 8;
const ROUTE_LINK: u16 = 4;
const ROUTE_METRIC: u16 = 6;
const ROUTE_HOPS: u16 = 9;

const UP: u32 = 1;
const LOOPBACK: u32 = 8;
const RUNNING: u32 = 0x40;
const TEMPORARY: u32 = 1;
const FAILED: u32 = 8;
const DEPRECATED: u32 = 0x20;
const TENTATIVE: u32 = 0x40;
const IPV4: u8 = 2;
const IPV6: u8 = 10;
const UNICAST: u8 = 1;
const MAIN: u8 = 254;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes, &mut Vec::new());
            let kinds = [NEW_LINK, NEW_ADDR, NEW_ROUTE, ERROR, DONE];
            for kind in kinds {
                let len = u32::try_from(HEADER + bytes.len()).unwrap().to_ne_bytes();
                let mut message = [&len[..], &kind.to_ne_bytes(), &[0; 10]].concat();
                message.extend(&bytes);
                let _ = read(&message, &mut Vec::new());
            }
        }
    }

    #[test]
    fn an_error_of_the_kernel_is_returned() {
        let mut bytes = 20_u32.to_ne_bytes().to_vec();
        bytes.extend(ERROR.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend((-13_i32).to_ne_bytes());
        assert_eq!(read(&bytes, &mut Vec::new()), Err(Errno::ACCESS));
    }
}
