//! What a node knows of a channel that is read here.

use std::sync::Arc;
use std::task::Waker;

use super::control::Control;
use super::incoming::{Begin, Incoming, Next};
use super::table::remember;
use crate::link::LinkError;
use crate::link::lands::Lands;
use crate::links::behind::Sleeper;
use crate::links::slots::Key;

/// A channel that is read here.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(super) link: Key,
    pub(super) number: u64,
    /// The host that writes it.
    pub(super) host: String,
    pub(super) incoming: Incoming,
    /// Where what is written to it lands.
    pub(super) lands: Arc<Lands>,
    died: Option<LinkError>,
    abandoned: bool,
    waker: Option<Sleeper>,
}

impl Reading {
    pub(super) fn new(
        (link, peer, lands): (Key, &str, Arc<Lands>),
        number: u64,
        incoming: Incoming,
    ) -> Self {
        let host = peer.to_owned();
        Self { link, number, host, incoming, lands, died: None, abandoned: false, waker: None }
    }

    /// Whether there is a message to read; nothing, if that is not known yet.
    pub(crate) fn poll_begin(&mut self, waker: Option<&Waker>) -> Option<Result<bool, LinkError>> {
        match self.incoming.begin() {
            Begin::Message => Some(Ok(true)),
            Begin::Ended => Some(Ok(false)),
            Begin::Nothing => self.nothing(waker),
        }
    }

    /// What comes next of the message that is read.
    pub(crate) fn poll_next(&mut self, waker: Option<&Waker>) -> Option<Result<Next, LinkError>> {
        match self.incoming.next() {
            Next::Nothing => self.nothing(waker),
            next => Some(Ok(next)),
        }
    }

    fn nothing<T>(&mut self, waker: Option<&Waker>) -> Option<Result<T, LinkError>> {
        if let Some(why) = &self.died {
            return Some(Err(why.clone()));
        }
        remember(&mut self.waker, waker);
        None
    }

    /// The rest of the message that is read is not wanted.
    pub(crate) fn skip(&mut self) {
        self.incoming.skip();
    }

    /// Whether it is one of this link, and that lives.
    pub(super) fn is_of(&self, link: Key) -> bool {
        self.link == link && self.is_live()
    }

    pub(super) const fn is_live(&self) -> bool {
        self.died.is_none()
    }

    pub(super) fn died(&mut self, why: &LinkError) {
        if !self.incoming.is_ended() {
            self.died = Some(why.clone());
            self.incoming.cut();
        }
        self.wake();
    }

    /// Its handle is gone; what the writer is to be told.
    pub(super) fn abandon(&mut self) -> Option<Control<'static>> {
        self.abandoned = true;
        self.incoming.stop().filter(|_| self.is_live())
    }

    /// Whether nobody can ask for anything of it, and nothing comes for it, any more.
    pub(super) const fn is_done(&self) -> bool {
        self.abandoned && (self.incoming.is_ended() || self.died.is_some())
    }

    pub(super) fn wake(&mut self) {
        self.waker.take().into_iter().for_each(Sleeper::wake);
    }
}
