//! Asking the system where a host is, without waiting for the answer.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::rt;

/// A question under way. The system's answer has no deadline, so a thread waits for
/// it; who drops this does not.
pub(crate) struct Resolving(Arc<Mutex<Option<Resolved>>>);

/// The system's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// The host is at these, to be tried in turn; at most [`ADDRESSES_MAX`].
    At(Vec<SocketAddr>),
    /// The system knows no such host, or cannot say.
    Unknown,
}

impl Resolving {
    /// Asks where `name` is, and calls `wake` when it is known. `None` if so many
    /// questions are under way that one more must wait.
    pub(crate) fn start(
        name: &str,
        port: u16,
        wake: impl FnOnce() + Send + 'static,
    ) -> Option<Self> {
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
        if rt::spawn("egret-resolve", ask).is_err() {
            *lock(&answer) = Some(Resolved::Unknown);
        }
        Some(Self(answer))
    }

    /// The answer, if it is there.
    pub(crate) fn poll(&self) -> Option<Resolved> {
        lock(&self.0).clone()
    }
}

impl fmt::Debug for Resolving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resolving").field(&self.poll()).finish()
    }
}

fn resolve(name: &str, port: u16) -> Resolved {
    match (name, port).to_socket_addrs() {
        Ok(addresses) => Resolved::At(addresses.take(ADDRESSES_MAX).collect()),
        Err(_) => Resolved::Unknown,
    }
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
        let Resolved::At(addresses) = answer("localhost") else { panic!("no localhost") };
        assert!(!addresses.is_empty());
        assert!(
            addresses.iter().all(|at| at.ip().is_loopback() && at.port() == 7),
            "{addresses:?}"
        );
        assert_eq!(answer("no such host"), Resolved::Unknown);
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
