//! Where a nic of a network fabric listens, and where a peer is.
//!
//! A nic's [host](crate::vi::NicOptions::host) says where it listens:
//!
//! | host | listens |
//! |---|---|
//! | empty, `localhost`, or any plain word | on loopback |
//! | `192.0.2.7`, `2001:db8::7`, `fe80::7%eth0` | at this address |
//! | `eth0` | at the address of this interface |
//! | `reachable` | at an address that others can reach, chosen by a rule: of the interfaces that are up and not loopback, first the one of the default route, then one with a private address, then the first |
//! | `0.0.0.0`, `::` | at all addresses; peers are told the one that `reachable` chooses |
//!
//! Each may be followed by `:` and a port (IPv6 addresses in brackets then);
//! without one the system chooses a port. What the nic is called afterwards,
//! [`Nic::host`](crate::vi::Nic::host), is what peers connect to.
//!
//! No nic listens to other machines by accident: a word that means nothing else
//! means loopback.

mod choice;
mod interface;
mod netlink;
mod peer;
mod resolve;
mod text;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

use rustix::io::Errno;

use self::choice::reachable;
use self::interface::{NetworkInterface, interfaces};
pub(crate) use self::peer::PeerAddress;
pub(crate) use self::resolve::HostLookup;
use self::text::HostText;
use crate::vi::OpenError;

/// Where a nic listens, and why there.
///
/// ```
/// use egret_net::fabric::place::ListenAddress;
///
/// let place = ListenAddress::of("localhost:4000")?;
/// assert_eq!(place.bind.to_string(), "127.0.0.1:4000");
/// assert_eq!(place.why, "asked for");
/// # Ok::<(), egret_net::vi::OpenError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenAddress {
    /// What to bind to; port 0 if the system is to choose.
    pub bind: SocketAddr,
    /// What peers connect to. The same, unless that is all addresses.
    pub told: SocketAddr,
    /// The name of its interface, if it is one of this machine's.
    pub interface: Option<String>,
    /// Why this one, in words.
    pub why: String,
}

impl ListenAddress {
    /// Where a nic with this host listens.
    ///
    /// # Errors
    ///
    /// If that is nowhere on this machine.
    pub fn of(host: &str) -> Result<Self, OpenError> {
        Self::among(host, interfaces)
    }

    /// The same, on a machine with these interfaces.
    fn among(
        host: &str,
        interfaces: impl FnOnce() -> Result<Vec<NetworkInterface>, Errno>,
    ) -> Result<Self, OpenError> {
        let HostText { what, port } = HostText::read(host);
        let listed = || interfaces().map_err(unlisted(host));
        let port_asked = port.unwrap_or(0);
        match what {
            "" => return Ok(Self::loopback(port_asked, "nothing else was asked for")),
            "localhost" => return Ok(Self::loopback(port_asked, "asked for")),
            "reachable" => return reachable(host, &listed()?).map(|place| place.with(port_asked)),
            _ => {}
        }
        if let Ok(ip) = what.parse::<IpAddr>() {
            return Self::at(host, SocketAddr::new(ip, port_asked), listed);
        }
        // Without the list, a word is a word.
        let known = listed().or_else(|why| match port {
            None if text::is_word(what) => Ok(Vec::new()),
            _ => Err(why),
        })?;
        if let Some((ip, scope)) = text::scoped(what, &known) {
            let at = SocketAddrV6::new(ip, port_asked, 0, scope);
            return Self::at(host, at.into(), || Ok(known));
        }
        match known.iter().find(|interface| interface.name == what) {
            Some(interface) => interface.place(host).map(|place| place.with(port_asked)),
            None if port.is_none() && text::is_word(what) => {
                Ok(Self::loopback(0, "a name alone means loopback"))
            }
            None => {
                let names: Vec<_> = known.iter().map(|known| known.name.as_str()).collect();
                Err(OpenError::UnknownAddress { host: host.to_owned(), known: names.join(", ") })
            }
        }
    }

    fn loopback(port: u16, why: &str) -> Self {
        let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        Self { bind: at, told: at, interface: Some("lo".to_owned()), why: why.to_owned() }
    }

    /// At an address that was given.
    fn at(
        host: &str,
        at: SocketAddr,
        interfaces: impl FnOnce() -> Result<Vec<NetworkInterface>, OpenError>,
    ) -> Result<Self, OpenError> {
        if !at.ip().is_unspecified() {
            let known = interfaces().unwrap_or_default();
            let owner = known.iter().find(|interface| interface.addresses.contains(&at.ip()));
            let interface = owner.map(|interface| interface.name.clone());
            return Ok(Self { bind: at, told: at, interface, why: "asked for".to_owned() });
        }
        let mut known = interfaces()?;
        if at.is_ipv4() {
            known.iter_mut().for_each(|interface| interface.addresses.retain(IpAddr::is_ipv4));
        }
        let mut place = reachable(host, &known)?.with(at.port());
        place.bind = at;
        place.why = format!("all addresses, and told is this one: {}", place.why);
        Ok(place)
    }

    fn with(mut self, port: u16) -> Self {
        self.bind.set_port(port);
        self.told.set_port(port);
        self
    }
}

/// The error of a nic at `host` if the interfaces of this machine are not to be had.
fn unlisted(host: &str) -> impl FnOnce(Errno) -> OpenError {
    let host = host.to_owned();
    |why| OpenError::Refused {
        host,
        why: format!("the interfaces of this machine cannot be listed: {why}"),
    }
}

#[cfg(test)]
mod tests;
