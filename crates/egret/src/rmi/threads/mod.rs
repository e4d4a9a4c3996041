//! Which thread runs a method: the one that has received the call, an idle one in the background, or a
//! worker.

pub(crate) mod cores;
pub(crate) mod fair_queue;
pub(crate) mod pace;
pub(crate) mod worker_rules;
pub(crate) mod workers;
