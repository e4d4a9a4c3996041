//! A side that sends and drains eager messages.

use anyhow::{Result, bail};
use egret::net::vi::{Lane, SendError};

use super::side::{END, Mode, PATIENCE, Side, mark};

impl Side {
    /// Sends, as soon as there is room.
    pub(super) fn send_eager(&self, round: u64) -> Result<()> {
        loop {
            match self.vi.send_eager(Lane::Talk, round, &[&self.slice]) {
                Ok(_) => return Ok(()),
                Err(SendError::Full) => drop(self.vi.nic().poll()),
                Err(why) => return Err(why.into()),
            }
        }
    }

    /// Drains until the message of this round is there, and looks at each.
    pub(super) fn drain(&mut self, round: u64) -> Result<()> {
        let mut wrong = None;
        while self.came < round {
            let (came, taken) = (&mut self.came, self.taken);
            self.vi.drain().wait(EAGER_BATCH, PATIENCE, |_, tag, bytes| {
                *came += 1;
                let ends = [bytes.first(), bytes.last()];
                let is_right = ends.iter().flatten().all(|end| **end == mark(tag));
                if tag != *came || bytes.len() != taken || !is_right {
                    wrong = Some((tag, bytes.len()));
                }
            })?;
            if let Some((tag, bytes)) = wrong {
                bail!("message {tag} of {bytes} bytes came damaged, or {} was due", self.came);
            }
        }
        Ok(())
    }

    /// Tells the other side that everything of a run has come, if that is not known otherwise.
    pub(super) fn tell_all_came(&mut self) -> Result<()> {
        if self.mode == Mode::Eager {
            self.vi.send_eager(Lane::Talk, END, &[])?;
        }
        Ok(())
    }

    /// Hears that.
    pub(super) fn hear_all_came(&mut self) -> Result<()> {
        if self.mode == Mode::Eager {
            self.vi.drain().wait(1, PATIENCE, |_, _, _| {})?;
        }
        Ok(())
    }
}

/// Eager messages drained at once.
const EAGER_BATCH: usize = 256;
