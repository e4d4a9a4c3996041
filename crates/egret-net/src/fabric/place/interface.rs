//! The network interfaces of this machine.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use rustix::io::Errno;

use super::ListenAddress;
use super::netlink::{self, NetlinkMessage};
use crate::vi::OpenError;

/// One interface, as far as it matters for where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NetworkInterface {
    /// The kernel's number of it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is switched on and has a link.
    pub is_up: bool,
    /// Whether only this machine is behind it.
    pub is_loopback: bool,
    /// Addresses that can be used, in the kernel's order.
    pub addresses: Vec<IpAddr>,
    /// The metric of a default route over it, for IPv4 and for IPv6.
    pub default_route: [Option<u32>; 2],
}

/// The interfaces of this machine, by number.
///
/// # Errors
///
/// If the kernel does not say.
pub(super) fn interfaces() -> Result<Vec<NetworkInterface>, Errno> {
    let mut interfaces = Vec::new();
    for message in netlink::ask()? {
        let of = |interfaces: &mut Vec<NetworkInterface>, index| {
            interfaces.iter().position(|known: &NetworkInterface| known.index == index)
        };
        match message {
            NetlinkMessage::Link { index, name, is_up, is_loopback } => {
                let (addresses, default_route) = (Vec::new(), [None; 2]);
                interfaces.push(NetworkInterface {
                    index,
                    name,
                    is_up,
                    is_loopback,
                    addresses,
                    default_route,
                });
            }
            NetlinkMessage::Address { index, ip } => {
                if let Some(at) = of(&mut interfaces, index) {
                    interfaces[at].addresses.push(ip);
                }
            }
            NetlinkMessage::DefaultRoute { index, is_ipv6, metric } => {
                if let Some(at) = of(&mut interfaces, index) {
                    let route = &mut interfaces[at].default_route[usize::from(is_ipv6)];
                    *route = Some(route.map_or(metric, |known| known.min(metric)));
                }
            }
        }
    }
    interfaces.sort_by_key(|interface| interface.index);
    Ok(interfaces)
}

impl NetworkInterface {
    /// Where to listen on it, if it was asked for by name.
    pub(super) fn place(&self, host: &str) -> Result<ListenAddress, OpenError> {
        let no_address =
            || OpenError::NoAddress { host: host.to_owned(), interface: self.name.clone() };
        let best = self.addresses.iter().min_by_key(|ip| (is_link_local(ip), ip.is_ipv6()));
        let at = self.at(*best.ok_or_else(no_address)?);
        let (interface, why) = (Some(self.name.clone()), "asked for by name".to_owned());
        Ok(ListenAddress { bind: at, told: at, interface, why })
    }

    /// An address of it, without a port.
    pub(super) fn at(&self, ip: IpAddr) -> SocketAddr {
        match ip {
            IpAddr::V6(v6) if is_link_local(&ip) => SocketAddrV6::new(v6, 0, 0, self.index).into(),
            ip => SocketAddr::new(ip, 0),
        }
    }
}

/// Whether the address is good on one link only.
pub(super) const fn is_link_local(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}
