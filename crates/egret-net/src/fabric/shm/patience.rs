//! How often to look at a line that the peer would rather keep.

/// When to read the peer's counts while its ring is silent.
#[derive(Debug)]
pub(super) struct Patience {
    polls: u32,
    /// Polls until the next look.
    left: u32,
}

impl Patience {
    /// A few polls: the peer takes and does not answer.
    const LEAST: u32 = 4;
    /// Longer than a small answer takes.
    const MOST: u32 = 1 << 10;

    /// Whether it is time to look.
    #[inline]
    pub(super) const fn is_over(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// What the counts say came by a slot.
    #[inline]
    pub(super) const fn talked(&mut self) {
        (self.polls, self.left) = (Self::MOST, Self::MOST);
    }

    /// There was a look, and perhaps news.
    pub(super) const fn looked(&mut self, news: bool) {
        if news {
            self.polls = Self::LEAST;
        }
        self.left = self.polls;
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self { polls: Self::LEAST, left: Self::LEAST }
    }
}
