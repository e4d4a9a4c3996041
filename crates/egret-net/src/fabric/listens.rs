//! What a connector knows of the listener that it wants.

use std::time::Duration;

use crate::vi::{Address, ConnectError};

/// Whether somebody listens for a service and a tag, as the host says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listens {
    Yes,
    /// For the service, and not with this tag.
    OtherTag,
    No,
}

impl Listens {
    /// What a connector that stops waiting is told; `None` if there is a listener.
    pub(crate) fn error(self, to: &Address, waited: Duration) -> Option<ConnectError> {
        let to = to.clone();
        match self {
            Self::Yes => None,
            Self::OtherTag => Some(ConnectError::OtherTag { to, waited }),
            Self::No => Some(ConnectError::NotListening { to, waited }),
        }
    }
}
