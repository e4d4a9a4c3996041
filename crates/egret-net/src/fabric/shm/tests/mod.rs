//! What holds for memory, rings and bells whatever the peer does, and that the
//! checks for it can fail.

mod bell;
mod checker;
mod conformance;
mod copy;
mod cord;
mod hostile;
mod memory;
mod nonsense;
mod planted;
mod processes;
mod ring;

use super::foreign::Foreign;
use super::memory::Own;

/// New memory, and the same as a peer sees it.
fn shared(bytes: usize) -> (Own, Foreign) {
    let own = Own::new(bytes).unwrap();
    let foreign = foreign_of(&own);
    (own, foreign)
}

/// What a peer makes of the memory's descriptor.
fn foreign_of(own: &Own) -> Foreign {
    let fd = own.fd().try_clone_to_owned().unwrap();
    Foreign::map(fd, own.len() as u64).unwrap()
}
