//! Moments and deadlines.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// How long a call may wait.
///
/// ```
/// use std::time::Duration;
///
/// use egret_net::rt::Deadline;
///
/// assert_eq!(Deadline::from(Duration::from_secs(30)), Deadline::DEFAULT);
/// assert_eq!(Deadline::UntilDead.until(), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// At most this long, counted from the call.
    In(Duration),
    /// As long as the peer lives. A wait that concerns no single peer, as that of a drain or of a
    /// queue of several connections, lasts for ever.
    UntilDead,
}

impl Deadline {
    /// Half a minute: for calls that have no reason to wait shorter or longer.
    pub const DEFAULT: Self = Self::In(Duration::from_secs(30));
    /// Not at all: the call takes what is there now.
    pub const NOW: Self = Self::In(Duration::ZERO);

    /// The moment it passes, counted from now; `None` if it never does.
    #[must_use]
    pub fn until(self) -> Option<Instant> {
        self.until_from(super::now())
    }

    /// The moment it passes, counted from `now`; `None` if it never does.
    #[must_use]
    pub fn until_from(self, now: Instant) -> Option<Instant> {
        match self {
            Self::In(duration) => now.checked_add(duration),
            Self::UntilDead => None,
        }
    }

    /// The deadline that passes at `until`, counted from now.
    #[must_use]
    pub fn left(until: Option<Instant>) -> Self {
        until.map_or(Self::UntilDead, |until| Self::In(until.since(super::now())))
    }
}

impl From<Duration> for Deadline {
    fn from(duration: Duration) -> Self {
        Self::In(duration)
    }
}

/// A moment, in nanoseconds since the start of the process or of its simulated
/// [`Runtime`](super::Runtime).
///
/// Moments of different runtimes must not be compared; nothing on the wire carries one.
///
/// ```
/// use std::time::Duration;
///
/// use egret_net::rt;
///
/// let start = rt::now();
/// rt::sleep(Duration::from_millis(2));
/// assert!(rt::now() - start >= Duration::from_millis(2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The moment `nanos` nanoseconds after its runtime began.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since its runtime began.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// `self + duration`, or `None` if that is more than 584 years away.
    #[must_use]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Self)
    }

    /// The time from `earlier` to `self`, zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration).expect("a moment within 584 years")
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}
