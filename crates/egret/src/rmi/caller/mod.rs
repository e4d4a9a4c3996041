//! The caller's side: a stub, where its object is, the connection that all stubs of a node share, the queue
//! of calls that could not be sent at once, and calls that were begun.

pub(crate) mod call_site;
pub(crate) mod failure;
pub(crate) mod meeting;
pub(crate) mod pair;
pub(crate) mod pending;
pub(crate) mod stub;
pub(crate) mod stub_target;
pub(crate) mod unsent;
