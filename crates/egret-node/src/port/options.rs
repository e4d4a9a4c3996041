//! The name of a receive port, and whom it accepts.

use std::fmt;

use super::SenderId;

/// The name of a receive port, and how it begins; a name alone is one, too.
///
/// ```
/// use egret_node::port::{PortType, ReceiveOptions};
///
/// let pool = egret_node::local::pool(1)?;
/// let only_here = ReceiveOptions::new("log").accept(|sender| sender.node.rank == 0).disabled();
/// let lines = pool[0].receive_port::<String>(only_here, &PortType::many_to_one())?;
/// lines.enable(); // those who asked meanwhile are connected now
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReceiveOptions {
    pub(super) name: String,
    pub(super) accept: Option<AcceptSender>,
    pub(super) is_disabled: bool,
}

/// Decides whether a sender may connect.
type AcceptSender = Box<dyn Fn(SenderId) -> bool + Send + Sync>;

impl ReceiveOptions {
    /// A receive port of this name, which accepts all senders of its type.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), accept: None, is_disabled: false }
    }

    /// Asks `accept` about each sender. It runs on the thread that receives, and must not wait.
    #[must_use]
    pub fn accept(mut self, accept: impl Fn(SenderId) -> bool + Send + Sync + 'static) -> Self {
        self.accept = Some(Box::new(accept));
        self
    }

    /// Lets senders wait for their connections until the port is [enabled](super::PortControl::enable).
    #[must_use]
    pub const fn disabled(mut self) -> Self {
        self.is_disabled = true;
        self
    }
}

impl From<&str> for ReceiveOptions {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for ReceiveOptions {
    fn from(name: String) -> Self {
        Self::new(&name)
    }
}

impl fmt::Debug for ReceiveOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveOptions").field("name", &self.name).finish_non_exhaustive()
    }
}
