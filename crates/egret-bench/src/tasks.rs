//! What the second process of a benchmark can take part in.

use crate::am::served;
use crate::graph::trip;
use crate::idle::{quiet, still};
use crate::look::many;
use crate::measure::probe;
use crate::peer::NamedTask;
use crate::port::receiver;
use crate::rmi::calls;
use crate::vi::{datagrams, duo};
use crate::{channel, connect, death};

/// The tasks of all benchmarks.
pub(crate) const TASKS: &[&dyn NamedTask] = &[
    &channel::CHANNEL,
    &connect::CONNECTS,
    &death::MEMBER,
    &datagrams::DATAGRAMS,
    &duo::LEADER,
    &duo::MESSAGES,
    &trip::GRAPHS,
    &many::MANY,
    &probe::LIMIT,
    &probe::LIMIT_LEADER,
    &probe::SOCKET,
    &quiet::QUIET,
    &calls::CALLED,
    &calls::CALLER,
    &receiver::PORTS,
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
