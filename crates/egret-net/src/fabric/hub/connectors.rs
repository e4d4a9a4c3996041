//! The connections that a nic is making, by their numbers.

use std::collections::BTreeMap;

use super::patience::Patience;
use crate::fabric::{After, Made};
use crate::rt::Instant;
use crate::vi::ConnectError;

/// Somebody who knocks until there is an answer or the time is up.
pub(in crate::fabric) trait Connecting {
    /// When to look at it again at the latest.
    fn deadline(&self) -> Option<Instant>;

    /// What it asks for, once there is an answer.
    fn into_patience(self) -> Patience;
}

/// How it stands with a connection that is being made.
#[derive(Debug)]
pub(in crate::fabric) enum Outcome<M> {
    /// It goes on.
    Pending,
    Made(M),
    Failed(ConnectError),
}

/// When to look at one of them at the latest.
pub(in crate::fabric) fn deadline<K>(all: &BTreeMap<K, impl Connecting>) -> Option<Instant> {
    all.values().filter_map(Connecting::deadline).min()
}

/// Takes one out that does not go on: it, and what came of it.
pub(in crate::fabric) fn over<K: Ord, C, M>(
    all: &mut BTreeMap<K, C>,
    id: &K,
    outcome: Outcome<M>,
) -> Option<(C, Result<M, ConnectError>)> {
    let result = match outcome {
        Outcome::Pending => return None,
        Outcome::Failed(why) => Err(why),
        Outcome::Made(made) => Ok(made),
    };
    Some((all.remove(id)?, result))
}

/// Tells the program what came of one.
pub(in crate::fabric) fn settle(
    connector: impl Connecting,
    result: Result<Made, ConnectError>,
    after: &mut After,
) {
    after.settle(connector.into_patience().request.promise, result);
}

/// The nic goes down.
pub(in crate::fabric) fn shut<K>(all: BTreeMap<K, impl Connecting>, after: &mut After) {
    all.into_values().for_each(|one| settle(one, Err(ConnectError::NicDown), after));
}
