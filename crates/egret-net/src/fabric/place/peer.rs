//! Where a peer is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use super::text::{HostText, scoped};
use super::{NetworkInterface, interfaces};

/// A host to connect to, as it is written in an [`Address`](crate::vi::Address).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PeerAddress {
    /// At one of these, to be tried in turn.
    At(Vec<SocketAddr>),
    /// The system knows where.
    Named {
        /// What to ask it for.
        name: String,
        /// The peer's port.
        port: u16,
    },
}

impl PeerAddress {
    /// Reads it; `None` if no peer can be there. A port belongs to it.
    pub(crate) fn read(host: &str) -> Option<Self> {
        Self::among(host, || interfaces().unwrap_or_default())
    }

    pub(super) fn among(host: &str, known: impl FnOnce() -> Vec<NetworkInterface>) -> Option<Self> {
        let HostText { what, port } = HostText::read(host);
        let port = port.filter(|port| *port != 0)?;
        if let Ok(ip) = what.parse::<IpAddr>() {
            return Some(Self::At(vec![SocketAddr::new(ip, port)]));
        }
        match what {
            "" => None,
            "localhost" => {
                let both = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
                Some(Self::At(both.map(|ip| SocketAddr::new(ip, port)).into()))
            }
            _ if what.contains('%') => {
                let (ip, scope) = scoped(what, &known())?;
                Some(Self::At(vec![SocketAddrV6::new(ip, port, 0, scope).into()]))
            }
            _ if is_name(what) => Some(Self::Named { name: what.to_owned(), port }),
            _ => None,
        }
    }
}

/// Whether it may be the name of a host.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.len() <= NAME_MAX && text.chars().all(fits) && !is_number
}

const NAME_MAX: usize = 253;
