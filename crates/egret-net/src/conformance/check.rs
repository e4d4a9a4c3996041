//! What a case found wrong: a value, so that a planted fault can be shown to be found.

use std::error::Error;
use std::fmt;
use std::panic::Location;

use super::Role;

/// A case that failed: which, on which side, and what was wrong there.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The case and its level.
    pub case: String,
    /// The side that noticed.
    pub role: Role,
    /// What was expected and what was seen.
    pub what: String,
    /// Where in the suite.
    pub at: &'static Location<'static>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, role, what, at } = self;
        write!(f, "{case}: the {role} at {}:{}: {what}", at.file(), at.line())
    }
}

impl Error for Failure {}

/// What a script returns.
pub(super) type Outcome = Result<(), Wrong>;

/// Something wrong, before it is known on which side of which case. It is no
/// `Error` itself, so that every error becomes one by `?`.
#[derive(Debug)]
pub(super) struct Wrong {
    what: String,
    at: &'static Location<'static>,
}

impl Wrong {
    #[track_caller]
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self::seen_at(what, Location::caller())
    }

    pub(super) fn seen_at(what: impl Into<String>, at: &'static Location<'static>) -> Self {
        Self { what: what.into(), at }
    }

    pub(super) fn into_failure(self, case: String, role: Role) -> Failure {
        Failure { case, role, what: self.what, at: self.at }
    }
}

impl<E: Error> From<E> for Wrong {
    #[track_caller]
    fn from(error: E) -> Self {
        Self::new(format!("unexpected: {error}"))
    }
}

/// Ends the script as failed unless the condition holds.
macro_rules! check {
    ($holds:expr, $($said:tt)+) => {
        if !$holds {
            return Err($crate::conformance::check::Wrong::new(format!($($said)+)));
        }
    };
}

/// Ends the script as failed unless what was seen is what was expected.
macro_rules! check_eq {
    ($seen:expr, $expected:expr, $($said:tt)+) => {
        match (&$seen, &$expected) {
            (seen, expected) => $crate::conformance::check::check!(
                *seen == *expected,
                "{}: expected {expected:?}, saw {seen:?}",
                format_args!($($said)+)
            ),
        }
    };
}

/// Ends the script as failed unless what was seen has this shape.
macro_rules! check_is {
    ($seen:expr, $shape:pat $(if $guard:expr)?, $($said:tt)+) => {
        match &$seen {
            $shape $(if $guard)? => {}
            seen => $crate::conformance::check::check!(
                false,
                "{}: expected {}, saw {seen:?}",
                format_args!($($said)+),
                stringify!($shape)
            ),
        }
    };
}

pub(super) use {check, check_eq, check_is};
