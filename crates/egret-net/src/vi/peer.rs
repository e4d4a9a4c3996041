//! What is known of the other end of a connection.

use super::{PublicKey, Trust, Vi, WhyIsolated};

impl Vi {
    /// The other end's host, as it says itself. What it has proven is its
    /// [key](Self::peer_key).
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.handle.made.peer
    }

    /// The key that the other end has proven: a peer with the same key is the same process, in the same
    /// life. `None` on fabrics where nics have no keys.
    #[must_use]
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.handle.made.key
    }

    /// Whether what the two ends say is encrypted: no host between them can read it or change it
    /// unnoticed. Who the other end is says its [key](Self::peer_key); of nics without a secret it
    /// may be anybody. Memory of one machine, as of `shm`, is not encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.handle.made.is_encrypted
    }

    /// How far the two sides trust each other, for the life of the connection.
    /// A program that wants cooperation or nothing looks here and drops the connection.
    #[must_use]
    pub fn trust(&self) -> Trust {
        self.handle.made.trust
    }

    /// Why the connection is isolated although its nic asked for
    /// [`Trust::Cooperating`]. `None` if it is not, if the nic did not ask, and
    /// on fabrics that know one level only.
    #[must_use]
    pub fn why_isolated(&self) -> Option<WhyIsolated> {
        self.handle.made.why_isolated
    }
}
