//! Which machine a node is on, as far as meeting in memory goes.

use std::os::unix::fs::MetadataExt;

use egret_net::rt;

use crate::pool::Location;

/// Which machine this is. Two processes with equal answers can meet over `shm`: it is one
/// system since it was started, one network namespace, in which names of sockets are, one
/// user namespace, in which a number is a user, and one user. Where that cannot be told no two are equal.
///
/// In a simulated world each host is a machine, and what is said of it depends on nothing outside of the world.
pub(super) fn machine(host: &str) -> String {
    if rt::is_simulated() {
        return format!("simulated/{host}");
    }
    let told = || {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let space = std::fs::read_link("/proc/self/ns/net").ok()?;
        let users = std::fs::read_link("/proc/self/ns/user").ok()?;
        let user = std::fs::metadata("/proc/self").ok()?.uid();
        Some(format!("{}/{}/{}/{user}", boot.trim(), space.display(), users.display()))
    };
    told().unwrap_or_else(|| format!("unknown/{:016x}", rt::random()))
}

/// The location of this node: what the settings say, and where they say nothing what the system says. In a
/// simulated world each host is one.
pub(super) fn location(said: Location, host: &str) -> Location {
    if rt::is_simulated() {
        return said.or(Location { host: host.to_owned(), ..Location::default() });
    }
    said.or(Location::of_process())
}

/// Whether processes on these two may reach each other over loopback: one system and one network
/// namespace, of whichever user, or a machine that cannot be told.
pub(super) fn may_share_loopback(one: &str, other: &str) -> bool {
    let network = |machine: &str| machine.match_indices('/').nth(1).map(|(end, _)| end);
    match (network(one), network(other)) {
        (Some(end), Some(at)) => one[..end] == other[..at],
        (None, _) | (_, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_one_machine_share_loopback_and_machines_do_not() {
        let told = machine("");
        let user = told.rfind('/').unwrap();
        assert!(may_share_loopback(&told, &format!("{}/7", &told[..user])));
        assert!(may_share_loopback("b/net:[1]/user:[1]/0", "b/net:[1]/user:[2]/7"));
        assert!(!may_share_loopback("b/net:[1]/user:[1]/0", "b/net:[2]/user:[1]/0"));
        assert!(!may_share_loopback("b/net:[1]/user:[1]/0", "c/net:[1]/user:[1]/0"));
        assert!(may_share_loopback("unknown/01", "unknown/02"));
    }

    #[test]
    fn a_machine_is_a_system_two_namespaces_and_a_user() {
        let told = machine("");
        assert_eq!(told, machine(""));
        let users = std::fs::read_link("/proc/self/ns/user").unwrap();
        let network = std::fs::read_link("/proc/self/ns/net").unwrap();
        for part in [users, network] {
            assert!(told.contains(part.to_str().unwrap()), "{told}");
        }
    }
}
