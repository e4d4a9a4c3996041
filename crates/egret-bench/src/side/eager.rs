//! A side that sends and drains eager messages.

use anyhow::{Result, bail};
use egret::vi::{Drain, Lane, PostError, Sink};

use super::connection::{BenchConnection, END, Mode, PATIENCE, mark};

impl BenchConnection {
    /// Sends, as soon as there is room.
    pub(crate) fn send_eager(&mut self, round: u64) -> Result<()> {
        loop {
            match self.vi.send_eager(Lane::Talk, round, &[&self.slice]) {
                Ok(_) => return Ok(()),
                Err(PostError::LaneFull) => {
                    self.vi.nic().poll();
                    // Over posted messages this is how a side hears of room.
                    self.take_what_came(|drain, sink| Ok(drain.take(1, sink)))?;
                }
                Err(why) => return Err(why.into()),
            }
        }
    }

    /// Drains until the message of this round is there.
    pub(crate) fn drain(&mut self, round: u64) -> Result<()> {
        while self.came < round {
            self.take_what_came(|drain, sink| Ok(drain.wait(EAGER_BATCH, PATIENCE, sink)?))?;
        }
        Ok(())
    }

    /// Drains, and looks at each message.
    fn take_what_came(
        &mut self,
        drain: impl FnOnce(&Drain, &mut Sink<'_>) -> Result<usize>,
    ) -> Result<()> {
        let (mut wrong, came, taken) = (None, &mut self.came, self.taken);
        drain(self.vi.drain(), &mut |_, tag, bytes| {
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
        Ok(())
    }

    /// Sends the other side that everything of a run has come, if it does not know that otherwise.
    pub(crate) fn confirm_all_came(&mut self) -> Result<()> {
        if self.mode == Mode::Eager {
            self.vi.send_eager(Lane::Talk, END, &[])?;
        }
        Ok(())
    }

    /// Waits for that message of the other side.
    pub(crate) fn wait_confirmed(&mut self) -> Result<()> {
        if self.mode == Mode::Eager {
            self.vi.drain().wait(1, PATIENCE, |_, _, _| {})?;
        }
        Ok(())
    }
}

/// Eager messages drained at once.
const EAGER_BATCH: usize = 256;
