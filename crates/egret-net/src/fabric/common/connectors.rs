//! The connections that a nic is making, by their numbers.

use std::collections::BTreeMap;

use super::connect_retry::ConnectRetry;
use crate::fabric::{After, NewConnection};
use crate::rt::Instant;
use crate::vi::ConnectError;

/// A connector of some fabric: it makes attempts until there is an answer or its deadline has passed.
pub(in crate::fabric) trait PendingConnector {
    /// When to look at this connector again at the latest.
    fn deadline(&self) -> Option<Instant>;

    /// The request, once there is an answer.
    fn into_retry(self) -> ConnectRetry;
}

/// The state of a connection that is being made.
#[derive(Debug)]
pub(in crate::fabric) enum ConnectOutcome<M> {
    /// There is no answer yet.
    Pending,
    Made(M),
    Failed(ConnectError),
}

/// The earliest deadline of these connectors.
pub(in crate::fabric) fn deadline<K>(all: &BTreeMap<K, impl PendingConnector>) -> Option<Instant> {
    all.values().filter_map(PendingConnector::deadline).min()
}

/// Removes a connector that has an outcome: the connector, and its result.
pub(in crate::fabric) fn over<K: Ord, C, M>(
    all: &mut BTreeMap<K, C>,
    id: &K,
    outcome: ConnectOutcome<M>,
) -> Option<(C, Result<M, ConnectError>)> {
    let result = match outcome {
        ConnectOutcome::Pending => return None,
        ConnectOutcome::Failed(why) => Err(why),
        ConnectOutcome::Made(made) => Ok(made),
    };
    Some((all.remove(id)?, result))
}

/// Settles the promise of a connector with its result.
pub(in crate::fabric) fn settle(
    connector: impl PendingConnector,
    result: Result<NewConnection, ConnectError>,
    after: &mut After,
) {
    after.settle(connector.into_retry().request.promise, result);
}

/// The nic goes down.
pub(in crate::fabric) fn shut<K>(all: BTreeMap<K, impl PendingConnector>, after: &mut After) {
    all.into_values().for_each(|one| settle(one, Err(ConnectError::NicDown), after));
}
