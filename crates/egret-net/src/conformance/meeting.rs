//! Where the two sides of a case wait for each other, without using the fabric
//! that is being tested.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

/// A place for two to meet, as one of them sees it. Each counts how often it
/// has come, and may go on when the other has come as often.
///
/// Between processes this is a pair of pipes or a socket of the harness.
pub trait Meeting: fmt::Debug {
    /// Comes once more, and says how often that is now.
    fn come(&self) -> u64;
    /// How often the other has come. Never blocks.
    fn other(&self) -> u64;
}

/// A meeting for two sides on one thread.
#[must_use]
pub fn meeting() -> (Box<dyn Meeting>, Box<dyn Meeting>) {
    let (a, b) = (Rc::default(), Rc::default());
    let one = Counts { own: Rc::clone(&a), other: Rc::clone(&b) };
    let two = Counts { own: b, other: a };
    (Box::new(one), Box::new(two))
}

#[derive(Debug)]
struct Counts {
    own: Rc<Cell<u64>>,
    other: Rc<Cell<u64>>,
}

impl Meeting for Counts {
    fn come(&self) -> u64 {
        self.own.set(self.own.get() + 1);
        self.own.get()
    }

    fn other(&self) -> u64 {
        self.other.get()
    }
}
