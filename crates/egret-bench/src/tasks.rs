//! What the second process of a benchmark can take part in.

use super::peer::NamedTask;
use super::{
    channels, connect, datagrams, duo, graph_trip, many, probe, quiet, rmi_calls, served, still,
};

/// The tasks of all benchmarks.
pub(crate) const TASKS: &[&dyn NamedTask] = &[
    &channels::CHANNEL,
    &connect::CONNECTS,
    &datagrams::DATAGRAMS,
    &duo::LEADER,
    &duo::MESSAGES,
    &graph_trip::GRAPHS,
    &many::MANY,
    &probe::LIMIT,
    &probe::LIMIT_LEADER,
    &probe::SOCKET,
    &quiet::QUIET,
    &rmi_calls::CALLED,
    &rmi_calls::CALLER,
    &served::REQUESTS,
    &still::STILL,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_task_has_a_name_of_its_own() {
        let names: BTreeSet<_> = TASKS.iter().map(|task| task.name()).collect();
        assert_eq!(names.len(), TASKS.len());
    }
}
