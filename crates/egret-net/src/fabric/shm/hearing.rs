//! One end of a connection: what the peer says over its socket.

use super::datapath::{Conn, GONE, ISOLATED};
use super::foreign::Foreign;
use super::gate::Pass;
use super::layout::REGION_MAX;
use super::rendezvous::{ControlError, Message};
use super::wire::Item;
use crate::fabric::hub::bytes::Malformed;
use crate::vi::ViError;

impl Conn {
    /// Makes sure that what an item refers to is known here: its announcement
    /// left before the item did. A type may stay without its name.
    #[cold]
    pub(super) fn announced(&mut self, item: &Item) {
        for _ in 0..ANNOUNCED_AT_ONCE {
            if self.leaving.is_some() || self.knows(item) {
                break;
            }
            match self.hear() {
                Ok(true) => {}
                Ok(false) => break,
                // Items may have left before that.
                Err(why) => self.leaving = Some(why),
            }
        }
    }

    /// Takes the control messages that are there.
    ///
    /// # Errors
    ///
    /// If one of them is the last.
    pub(super) fn hear_all(&mut self) -> Result<(), Box<ViError>> {
        if let Some(why) = self.leaving.take() {
            return Err(why);
        }
        for _ in 0..HEARD_AT_ONCE {
            if !self.hear()? {
                break;
            }
        }
        Ok(())
    }

    /// Takes one control message. `false`: there is none.
    fn hear(&mut self) -> Result<bool, Box<ViError>> {
        let heard = self.parts.control.poll().map_err(|error| match error {
            ControlError::PeerGone { .. } => GONE,
            ControlError::Protocol { why: Malformed(what), .. } => ViError::Protocol(what),
            ControlError::System { .. } => ViError::PeerDied { why: "its socket failed" },
        })?;
        let Some((message, fds)) = heard else { return Ok(false) };
        match message {
            Message::Region { number } => {
                let fd = fds.into_iter().next().ok_or(NO_MEMORY)?;
                let region = Foreign::map(fd, REGION_MAX)
                    .map_err(|_| ViError::Protocol("a region that cannot be mapped safely"))?;
                self.receiver.add_region(number.into(), region)?;
            }
            Message::Commons { number, plan } => {
                let fd = fds.into_iter().next().ok_or(NO_MEMORY)?;
                self.commons.as_mut().ok_or(ISOLATED)?.add(number, &fd, &plan)?;
            }
            Message::Direct { secret, gate, number, place, len } => {
                let commons = self.commons.as_mut().ok_or(ISOLATED)?;
                commons.learn(secret, Pass { gate, number }, (place, len))?;
            }
            Message::Kind(kind) => self.receiver.incoming.learn(kind),
            Message::Goodbye(farewell) => return Err(farewell.into_error().into()),
        }
        Ok(true)
    }
}

/// Control messages read at once.
const HEARD_AT_ONCE: usize = 64;
/// And for one item: more than a socket holds, so that what was said before the
/// item is among them, and a peer that says something for ever is not waited for.
const ANNOUNCED_AT_ONCE: usize = 2048;
const NO_MEMORY: ViError = ViError::Protocol("a region without its memory");
