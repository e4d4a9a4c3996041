//! The names under which nics are found.

use rustix::net::SocketAddrUnix;
use thiserror::Error;

use super::peer::own_user;

/// A host's name that no socket can have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the name of host {host:?} takes {bytes} bytes as a socket, {NAME_MAX} at most; \
     letters, digits, `.`, `_` and `-` take one, other bytes three"
)]
pub(in super::super) struct NameTooLong {
    /// The host.
    pub host: String,
    /// What its socket's name would take.
    pub bytes: usize,
}

/// The socket of this user's nic `host`.
pub(in super::super) fn address(host: &str) -> Result<SocketAddrUnix, NameTooLong> {
    let name = socket_name(own_user(), host);
    SocketAddrUnix::new_abstract_name(name.as_bytes())
        .map_err(|_| NameTooLong { host: host.to_owned(), bytes: name.len() })
}

/// Different hosts have different names, and `/proc/net/unix` shows them whole.
pub(in super::super) fn socket_name(user: u32, host: &str) -> String {
    let mut name = format!("egret/{user}/");
    for byte in host.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => name.push(byte.into()),
            _ => name += &format!("%{byte:02x}"),
        }
    }
    name
}

/// What the kernel takes, without the zero that the name begins with.
const NAME_MAX: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_these_for_ever() {
        assert_eq!(socket_name(0, "node-1.a_B"), "egret/0/node-1.a_B");
        assert_eq!(socket_name(1000, "a/b%\0é"), "egret/1000/a%2fb%25%00%c3%a9");
        assert_eq!(socket_name(7, ""), "egret/7/");
    }

    #[test]
    fn a_name_is_as_long_as_the_kernel_takes_it() {
        let room = NAME_MAX - socket_name(own_user(), "").len();
        let fits = "h".repeat(room);
        assert_eq!(address(&fits).unwrap().abstract_name().map(<[u8]>::len), Some(NAME_MAX));
        let error = address(&format!("{fits}h")).unwrap_err();
        assert_eq!(error.bytes, 108);
        let said = error.to_string();
        assert!(said.contains("takes 108 bytes as a socket, 107 at most"), "{said}");
    }
}
