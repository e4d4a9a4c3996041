//! Channels, as the links of a nic have them.

use std::future::Future;
use std::sync::Arc;

use egret_net::rt::Deadline;

use super::error::ChannelError;
use super::reader::Listener;
use super::writer::Writer;
use crate::Links;

impl Links {
    /// Waits for a channel to whoever [listens](Self::listen) by that name at `host`.
    ///
    /// # Errors
    ///
    /// If there is no link to it, nobody accepts such channels there, or not in time.
    pub fn wait_channel(
        &self,
        host: &str,
        name: &str,
        deadline: impl Into<Deadline>,
    ) -> Result<Writer, ChannelError> {
        Writer::wait_open(&self.core, host, name, deadline.into())
    }

    /// A channel to whoever [listens](Self::listen) by that name at `host`. The deadline is for
    /// the link, if there is none yet.
    ///
    /// # Errors
    ///
    /// If there is no link to it, or nobody accepts such channels there.
    pub fn channel<D: Into<Deadline>>(
        &self,
        host: &str,
        name: &str,
        deadline: D,
    ) -> impl Future<Output = Result<Writer, ChannelError>> + Send + use<D> {
        Writer::open(Arc::clone(&self.core), host.to_owned(), name.to_owned(), deadline.into())
    }

    /// Accepts channels of a name, of which at most `backlog` wait to be accepted.
    ///
    /// # Errors
    ///
    /// If somebody accepts them already.
    pub fn listen(&self, name: &str, backlog: usize) -> Result<Listener, ChannelError> {
        Listener::new(&self.core, name, backlog)
    }
}
