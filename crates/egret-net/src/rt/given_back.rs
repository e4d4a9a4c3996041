//! The error of an operation that took a value and gives it back.

use std::error::Error;
use std::fmt;

/// The error of an operation that took a value and was refused: the reason, and the value, untouched.
///
/// The error displays as its reason, and `?` turns it into any boxed error.
///
/// ```
/// use egret_net::buf::Pool;
/// use egret_net::rt::GivenBack;
///
/// let pool = Pool::new(64, 1)?;
/// let GivenBack { why, what: mut buf } = pool.take(10)?.typed::<u32>().unwrap_err();
/// assert_eq!(why.to_string(), "10 bytes are no whole number of elements of 4 bytes: resize it first");
/// buf.resize(12);
/// assert_eq!(buf.typed::<u32>()?.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it has the value that was given"]
pub struct GivenBack<T, E> {
    /// Why the operation was refused.
    pub why: E,
    /// The value, untouched.
    pub what: T,
}

impl<T, E: fmt::Debug> fmt::Debug for GivenBack<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenBack").field("why", &self.why).finish_non_exhaustive()
    }
}

impl<T, E: fmt::Display> fmt::Display for GivenBack<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

/// Its source is that of its reason, since the two display the same.
impl<T, E: Error> Error for GivenBack<T, E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.why.source()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_given_back_value_displays_as_its_reason() {
        struct Silent;
        let error = GivenBack { why: io::Error::other("no room"), what: Silent };
        assert_eq!(error.to_string(), "no room");
        assert!(format!("{error:?}").contains("no room"));
        let Silent = error.what;
    }
}
