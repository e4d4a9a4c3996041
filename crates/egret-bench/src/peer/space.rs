//! The two processes in network namespaces of their own, with a link between.

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use egret::fabric::place::ListenAddress;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The names of both, as `ip netns` has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spaces {
    pub(crate) here: String,
    pub(crate) there: String,
}

impl std::str::FromStr for Spaces {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let is_name = |name: &str| !name.is_empty() && !name.contains(['/', ',', '.']);
        match text.split_once(',') {
            Some((here, there)) if is_name(here) && is_name(there) => {
                Ok(Self { here: here.to_owned(), there: there.to_owned() })
            }
            _ => Err("two names of network namespaces, with a comma"),
        }
    }
}

/// Moves this thread, and the threads it starts from now on, into a namespace.
pub(crate) fn enter(name: &str) -> Result<()> {
    let path = format!("/run/netns/{name}");
    let space = File::open(&path).with_context(|| path.clone())?;
    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("entering {path}"))
}

/// A socket that others reach, for a limit.
pub(crate) fn bind() -> Result<UdpSocket> {
    let at = ListenAddress::of(REACHABLE)?.bind;
    UdpSocket::bind(at).with_context(|| format!("binding to {at}"))
}

/// What a nic is opened with that others reach.
pub(crate) const REACHABLE: &str = "reachable";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_are_read() {
        let spaces = Spaces { here: "a".to_owned(), there: "b-1".to_owned() };
        assert_eq!("a,b-1".parse(), Ok(spaces));
        for text in ["", "a", "a,", ",b", "a,b,c", "a,../b"] {
            assert!(text.parse::<Spaces>().is_err(), "{text}");
        }
    }
}
