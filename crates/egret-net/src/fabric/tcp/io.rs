//! What an end uses of its surroundings.

use crate::vi::{Keys, Notices};

/// What an end uses of its surroundings during one call.
pub(super) struct Io<'a> {
    pub keys: &'a Keys,
    pub notices: &'a mut Notices,
}
