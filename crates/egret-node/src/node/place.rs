//! Which machine a node is on, as far as meeting in memory goes.

use std::os::unix::fs::MetadataExt;

use egret_net::rt;

/// Which machine this is. Two processes with equal answers can meet over `shm`: it is one
/// system since it was started, one network namespace, in which names of sockets are, one
/// user namespace, in which a number is a user, and one user. Where that cannot be told no two are equal.
pub(super) fn machine() -> String {
    let told = || {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let space = std::fs::read_link("/proc/self/ns/net").ok()?;
        let users = std::fs::read_link("/proc/self/ns/user").ok()?;
        let user = std::fs::metadata("/proc/self").ok()?.uid();
        Some(format!("{}/{}/{}/{user}", boot.trim(), space.display(), users.display()))
    };
    told().unwrap_or_else(|| format!("unknown/{:016x}", rt::random()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_a_system_two_namespaces_and_a_user() {
        let told = machine();
        assert_eq!(told, machine());
        let users = std::fs::read_link("/proc/self/ns/user").unwrap();
        let network = std::fs::read_link("/proc/self/ns/net").unwrap();
        for part in [users, network] {
            assert!(told.contains(part.to_str().unwrap()), "{told}");
        }
    }
}
