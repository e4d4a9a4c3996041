//! Where a nic of a network fabric listens.

use egret::fabric::place::ListenAddress;
use serde::Serialize;

/// What a nic's host means on this machine.
#[derive(Debug, Serialize)]
pub(crate) struct PlaceInfo {
    /// The host that a nic is opened with.
    pub(crate) host: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interface: Option<String>,
    /// Why there, or why nowhere.
    pub(crate) why: String,
}

/// The default, and the rule.
pub(crate) fn all() -> Vec<PlaceInfo> {
    ["", "reachable"].into_iter().map(one).collect()
}

fn one(host: &'static str) -> PlaceInfo {
    match ListenAddress::of(host) {
        Ok(place) => {
            let address = Some(place.told.ip().to_string());
            PlaceInfo { host, address, interface: place.interface, why: place.why }
        }
        Err(error) => PlaceInfo { host, address: None, interface: None, why: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_unless_told_otherwise() {
        let [default, reachable] = &all()[..] else { panic!("two") };
        assert_eq!((default.host, default.address.as_deref()), ("", Some("127.0.0.1")));
        assert_eq!(default.interface.as_deref(), Some("lo"));
        assert_ne!(reachable.address.as_deref(), Some("127.0.0.1"));
        assert_eq!(reachable.address.is_some(), reachable.interface.is_some());
        assert!(!reachable.why.is_empty());
    }
}
