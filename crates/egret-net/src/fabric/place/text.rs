//! Addresses as people write them.

use std::net::Ipv6Addr;

use super::NetworkInterface;

/// What stands before a port, and the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostText<'a> {
    pub what: &'a str,
    pub port: Option<u16>,
}

impl<'a> HostText<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        if let Some((inside, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
            return match (rest, rest.strip_prefix(':').and_then(port)) {
                ("", _) => Self { what: inside, port: None },
                (_, Some(port)) => Self { what: inside, port: Some(port) },
                _ => Self { what: text, port: None },
            };
        }
        match text.rsplit_once(':') {
            // More than one sign, and no brackets: an IPv6 address alone.
            Some((what, number)) if !what.contains(':') => match port(number) {
                Some(port) => Self { what, port: Some(port) },
                None => Self { what: text, port: None },
            },
            _ => Self { what: text, port: None },
        }
    }
}

/// Digits alone: no sign, no space.
fn port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// An IPv6 address with the number or the name of an interface behind it, and that
/// interface's number.
pub(super) fn scoped(text: &str, known: &[NetworkInterface]) -> Option<(Ipv6Addr, u32)> {
    let (ip, scope) = text.split_once('%')?;
    let named = known.iter().find(|interface| interface.name == scope).map(|named| named.index);
    Some((ip.parse().ok()?, named.or_else(|| scope.parse().ok())?))
}

/// Whether it cannot be meant as an address.
pub(super) fn is_word(text: &str) -> bool {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    !is_number && !text.contains([':', '%', '[', ']', '/'])
}
