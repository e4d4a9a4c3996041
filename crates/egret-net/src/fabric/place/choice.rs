//! Which address others can reach.

use std::net::IpAddr;

use super::interface::is_link_local;
use super::{ListenAddress, NetworkInterface};
use crate::vi::OpenError;

/// Chooses an address that others can reach, and says why.
///
/// Of the interfaces that are up and not loopback, and their addresses that are
/// not good on one link only: first the one that the default route goes over (of
/// several the one with the lowest metric), then one with a private address, then
/// the one with the lowest number; IPv4 before IPv6.
///
/// # Errors
///
/// If there is none, with what is in the way of each interface.
pub(super) fn reachable(
    host: &str,
    interfaces: &[NetworkInterface],
) -> Result<ListenAddress, OpenError> {
    let candidates = interfaces
        .iter()
        .filter(|interface| interface.is_up && !interface.is_loopback)
        .flat_map(|interface| interface.addresses.iter().map(move |ip| (interface, *ip)));
    let reaching: Vec<_> = candidates.filter(|(_, ip)| reaches(ip)).collect();
    let best = reaching.iter().min_by_key(|(interface, ip)| rank(interface, ip));
    let Some((interface, ip)) = best else {
        return Err(OpenError::Unreachable { host: host.to_owned(), why: obstacles(interfaces) });
    };
    let at = interface.at(*ip);
    let why = reason(interface, ip, &reaching);
    Ok(ListenAddress { bind: at, told: at, interface: Some(interface.name.clone()), why })
}

const fn reaches(ip: &IpAddr) -> bool {
    !(is_link_local(ip) || ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

type AddressRank = ((bool, u32), bool, u32, bool);

/// The least is the best.
fn rank(interface: &NetworkInterface, ip: &IpAddr) -> AddressRank {
    let metric = metric(interface, ip);
    let route = (metric.is_none(), metric.unwrap_or(0));
    (route, !is_private(ip), interface.index, ip.is_ipv6())
}

fn metric(interface: &NetworkInterface, ip: &IpAddr) -> Option<u32> {
    interface.default_route[usize::from(ip.is_ipv6())]
}

const fn is_private(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private(),
        IpAddr::V6(ip) => ip.is_unique_local(),
    }
}

/// In the words of the rule.
fn reason(
    interface: &NetworkInterface,
    ip: &IpAddr,
    reaching: &[(&NetworkInterface, IpAddr)],
) -> String {
    let others = || reaching.iter().filter(|(other, _)| other.index != interface.index);
    if others().next().is_none() {
        return "it is the only interface that others can reach".to_owned();
    }
    if let Some(own) = metric(interface, ip) {
        let mut routes = others().filter_map(|(other, ip)| metric(other, ip));
        return match routes.any(|other| other >= own) {
            true => format!("the default route with the lowest metric, {own}, goes over it"),
            false => "the default route goes over it".to_owned(),
        };
    }
    match (is_private(ip), others().any(|(_, ip)| is_private(ip))) {
        (true, false) => "no default route, and it alone has a private address".to_owned(),
        (true, true) => "no default route, and it is the first with a private address".to_owned(),
        (false, _) => "no default route and no private address, and it is the first".to_owned(),
    }
}

/// Why no interface will do.
fn obstacles(interfaces: &[NetworkInterface]) -> String {
    let obstacle = |interface: &NetworkInterface| {
        let what = match interface {
            NetworkInterface { is_loopback: true, .. } => "is loopback",
            NetworkInterface { is_up: false, .. } => "is down",
            NetworkInterface { addresses, .. } if addresses.is_empty() => "has no address",
            _ => "has addresses of its link only",
        };
        format!("{} {what}", interface.name)
    };
    let told: Vec<_> = interfaces.iter().map(obstacle).collect();
    if told.is_empty() { "no interfaces".to_owned() } else { told.join(", ") }
}
