//! Where the two sides of a case wait for each other, without using the fabric
//! that is being tested.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// A meeting for two sides on two threads.
#[must_use]
pub fn meeting_of_threads() -> [Box<dyn Meeting + Send>; 2] {
    let counts = Arc::new([const { AtomicU64::new(0) }; 2]);
    [0, 1].map(|own| -> Box<dyn Meeting + Send> {
        Box::new(Threads { counts: Arc::clone(&counts), own })
    })
}

#[derive(Debug)]
struct Threads {
    counts: Arc<[AtomicU64; 2]>,
    own: usize,
}

impl Meeting for Threads {
    fn come(&self) -> u64 {
        self.counts[self.own].fetch_add(1, Ordering::SeqCst) + 1
    }

    fn other(&self) -> u64 {
        self.counts[1 - self.own].load(Ordering::SeqCst)
    }
}

/// A meeting for two sides that have the ends of a socket, as processes may: a byte
/// each time.
///
/// # Errors
///
/// If the socket cannot be made non-blocking.
pub fn meeting_over(socket: UnixStream) -> std::io::Result<Box<dyn Meeting>> {
    socket.set_nonblocking(true)?;
    let (own, other) = Default::default();
    Ok(Box::new(Bytes { socket: RefCell::new(socket), own, other }))
}

#[derive(Debug)]
struct Bytes {
    socket: RefCell<UnixStream>,
    own: Cell<u64>,
    other: Cell<u64>,
}

impl Meeting for Bytes {
    fn come(&self) -> u64 {
        // One who is gone does not come; the case says what that means.
        _ = self.socket.borrow_mut().write(&[1]);
        self.own.set(self.own.get() + 1);
        self.own.get()
    }

    fn other(&self) -> u64 {
        match self.socket.borrow_mut().read(&mut [0; 64]) {
            Ok(came) => self.other.set(self.other.get() + came as u64),
            Err(why) => debug_assert_eq!(why.kind(), ErrorKind::WouldBlock, "{why}"),
        }
        self.other.get()
    }
}
