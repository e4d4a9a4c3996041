//! Asking the system where a host is, without waiting for the answer.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::Peer;
use crate::rt;

/// Where a host is, as far as it is known.
#[derive(Debug)]
pub(crate) enum Whereabouts {
    /// The system will say, when it is asked.
    Unasked { name: String, port: u16 },
    /// The system is being asked.
    Asked(Resolving),
    /// At these, to be tried in turn; at none if nobody knows the host.
    At(Vec<SocketAddr>),
}

impl Whereabouts {
    /// Of a host, as a program writes it.
    pub(crate) fn of(host: &str) -> Self {
        match Peer::read(host) {
            None => Self::At(Vec::new()),
            Some(Peer::At(all)) => Self::At(all),
            Some(Peer::Named { name, port }) => Self::Unasked { name, port },
        }
    }

    /// Asks the system, as soon as it may be asked, and looks for the answer.
    pub(crate) fn look_up(&mut self) {
        if let Self::Unasked { name, port } = self
            && let Some(asked) = Resolving::start(name, *port, || ())
        {
            *self = Self::Asked(asked);
        }
        if let Self::Asked(asked) = self
            && let Some(all) = asked.poll()
        {
            *self = Self::At(all);
        }
    }

    /// The addresses, once they are known.
    pub(crate) fn known(&self) -> Option<&[SocketAddr]> {
        match self {
            Self::At(all) => Some(all),
            Self::Unasked { .. } | Self::Asked(_) => None,
        }
    }
}

/// A question under way. The system's answer has no deadline, so a thread waits for
/// it; who drops this does not.
pub(crate) struct Resolving(Arc<Mutex<Option<Resolved>>>);

/// The system's answer: at most [`ADDRESSES_MAX`], none if it knows no such host or cannot say.
type Resolved = Vec<SocketAddr>;

impl Resolving {
    /// Asks where `name` is, and calls `wake` when it is known. `None` if so many
    /// questions are under way that one more must wait.
    fn start(name: &str, port: u16, wake: impl FnOnce() + Send + 'static) -> Option<Self> {
        let question = Question::begin()?;
        let answer = Arc::default();
        let (kept, name) = (Arc::clone(&answer), name.to_owned());
        let ask = move || {
            let resolved = resolve(&name, port);
            *lock(&kept) = Some(resolved);
            drop(question);
            wake();
        };
        // Without a thread to wait, there is no answer.
        if rt::spawn_on_machine("egret-resolve", ask).is_err() {
            *lock(&answer) = Some(Resolved::new());
        }
        Some(Self(answer))
    }

    /// The answer, if it is there.
    fn poll(&self) -> Option<Resolved> {
        lock(&self.0).clone()
    }
}

impl fmt::Debug for Resolving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resolving").field(&self.poll()).finish()
    }
}

fn resolve(name: &str, port: u16) -> Resolved {
    let addresses = (name, port).to_socket_addrs();
    addresses.map_or_else(|_| Resolved::new(), |all| all.take(ADDRESSES_MAX).collect())
}

fn lock(answer: &Mutex<Option<Resolved>>) -> std::sync::MutexGuard<'_, Option<Resolved>> {
    answer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One of the questions under way.
struct Question;

impl Question {
    fn begin() -> Option<Self> {
        let more = |count| (count < QUESTIONS_MAX).then_some(count + 1);
        QUESTIONS.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Self)
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        QUESTIONS.fetch_sub(1, Relaxed);
    }
}

static QUESTIONS: AtomicUsize = AtomicUsize::new(0);
/// Threads that wait for the system at the same time.
const QUESTIONS_MAX: usize = 16;
/// Addresses of one host.
const ADDRESSES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answer(name: &str) -> Resolved {
        let me = rt::current();
        let resolving = Resolving::start(name, 7, move || me.unpark()).expect("few questions");
        let until = rt::now() + Duration::from_secs(60);
        loop {
            if let Some(resolved) = resolving.poll() {
                return resolved;
            }
            assert!(rt::now() < until, "no answer about {name}");
            rt::park(Some(until));
        }
    }

    #[test]
    fn the_system_says_where_a_host_is() {
        let addresses = answer("localhost");
        assert!(!addresses.is_empty());
        assert!(
            addresses.iter().all(|at| at.ip().is_loopback() && at.port() == 7),
            "{addresses:?}"
        );
        assert_eq!(answer("no such host"), []);
    }

    #[test]
    fn questions_are_bounded() {
        let questions: Vec<_> = std::iter::from_fn(Question::begin).collect();
        assert!(questions.len() <= QUESTIONS_MAX);
        assert!(Resolving::start("localhost", 7, || ()).is_none());
        drop(questions);
        assert!(Question::begin().is_some());
    }
}
