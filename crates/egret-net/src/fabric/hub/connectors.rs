//! The connections that a nic is making.

use std::collections::BTreeMap;

use super::patience::Patience;
use crate::fabric::{After, Made};
use crate::rt::Instant;
use crate::vi::ConnectError;

/// Somebody who knocks until there is an answer or the time is up.
pub(in crate::fabric) trait Connector {
    /// When to look at it again at the latest.
    fn deadline(&self) -> Option<Instant>;

    /// What it asks for, once there is an answer.
    fn into_patience(self) -> Patience;
}

/// How it stands with a connection that is being made.
#[derive(Debug)]
pub(in crate::fabric) enum Outcome<M> {
    /// It goes on.
    Knocking,
    Made(M),
    Failed(ConnectError),
}

impl<M> Outcome<M> {
    /// What follows from a refusal, unless another knock may mend it.
    pub(in crate::fabric) fn refused(why: Option<ConnectError>) -> Self {
        why.map_or(Self::Knocking, Self::Failed)
    }
}

/// The connectors of a nic by their numbers.
#[derive(Debug)]
pub(in crate::fabric) struct Connectors<K, C>(BTreeMap<K, C>);

impl<K, C> Default for Connectors<K, C> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Copy, C: Connector> Connectors<K, C> {
    pub(in crate::fabric) fn insert(&mut self, id: K, connector: C) {
        self.0.insert(id, connector);
    }

    pub(in crate::fabric) fn get_mut(&mut self, id: &K) -> Option<&mut C> {
        self.0.get_mut(id)
    }

    pub(in crate::fabric) fn remove(&mut self, id: &K) -> Option<C> {
        self.0.remove(id)
    }

    pub(in crate::fabric) fn contains_key(&self, id: &K) -> bool {
        self.0.contains_key(id)
    }

    /// Their numbers, while they come and go.
    pub(in crate::fabric) fn ids(&self) -> Vec<K> {
        self.0.keys().copied().collect()
    }

    /// When to look at one of them at the latest.
    pub(in crate::fabric) fn deadline(&self) -> Option<Instant> {
        self.0.values().filter_map(Connector::deadline).min()
    }

    /// Takes one out that does not go on: it, and what came of it.
    pub(in crate::fabric) fn over<M>(
        &mut self,
        id: K,
        outcome: Outcome<M>,
    ) -> Option<(C, Result<M, ConnectError>)> {
        let result = match outcome {
            Outcome::Knocking => return None,
            Outcome::Failed(why) => Err(why),
            Outcome::Made(made) => Ok(made),
        };
        Some((self.0.remove(&id)?, result))
    }

    /// The nic goes down.
    pub(in crate::fabric) fn shut(&mut self, after: &mut After) {
        for connector in std::mem::take(&mut self.0).into_values() {
            settle(connector, Err(ConnectError::NicDown), after);
        }
    }
}

/// Tells the program what came of it.
pub(in crate::fabric) fn settle(
    connector: impl Connector,
    result: Result<Made, ConnectError>,
    after: &mut After,
) {
    after.settle(connector.into_patience().request.promise, result);
}
