//! Asking the system where a host is, without waiting for the answer.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::PeerAddress;
use super::text::HostText;
use crate::rt;

/// Where a host is, as far as it is known.
#[derive(Debug)]
pub(crate) enum HostLookup {
    /// The system will say, when it is asked.
    Unasked { name: String, port: u16 },
    /// The system is being asked.
    Asked(PendingLookup),
    /// At these, to be tried in turn.
    At(Vec<SocketAddr>),
    /// The host name was not resolved, for this reason.
    Nowhere(String),
}

impl HostLookup {
    /// Of a host, as a program writes it.
    pub(crate) fn of(host: &str) -> Self {
        match PeerAddress::read(host) {
            None => Self::Nowhere(match HostText::read(host).port {
                None => "an address has a port, as in 10.0.0.1:7400".to_owned(),
                Some(0) => "port 0 has no listener".to_owned(),
                Some(_) => "it is no address, no name of a host, or of an interface that is not \
                            here"
                    .to_owned(),
            }),
            Some(PeerAddress::At(all)) => Self::At(all),
            Some(PeerAddress::Named { name, port }) => Self::Unasked { name, port },
        }
    }

    /// Asks the system, as soon as it may be asked, and looks for the answer.
    pub(crate) fn look_up(&mut self) {
        if let Self::Unasked { name, port } = self
            && let Some(asked) = PendingLookup::start(name, *port, || ())
        {
            *self = Self::Asked(asked);
        }
        if let Self::Asked(asked) = self
            && let Some(answer) = asked.poll()
        {
            *self = answer.map_or_else(Self::Nowhere, Self::At);
        }
    }

    /// The addresses, once they are known; or why there are none.
    pub(crate) fn known(&self) -> Option<Result<&[SocketAddr], &str>> {
        match self {
            Self::At(all) => Some(Ok(all)),
            Self::Nowhere(why) => Some(Err(why)),
            Self::Unasked { .. } | Self::Asked(_) => None,
        }
    }
}

/// A question under way. The system's answer has no deadline, so a thread waits for
/// it; who drops this does not.
pub(crate) struct PendingLookup(Arc<Mutex<Option<LookupResult>>>);

/// The system's answer: at most [`ADDRESSES_MAX`], or why it has none.
type LookupResult = Result<Vec<SocketAddr>, String>;

impl PendingLookup {
    /// Asks where `name` is, and calls `wake` when it is known. `None` if so many
    /// questions are under way that one more must wait.
    fn start(name: &str, port: u16, wake: impl FnOnce() + Send + 'static) -> Option<Self> {
        let question = AddressQuery::begin()?;
        let answer = Arc::default();
        let (kept, name) = (Arc::clone(&answer), name.to_owned());
        let ask = move || {
            let resolved = resolve(&name, port);
            *lock(&kept) = Some(resolved);
            drop(question);
            wake();
        };
        // Without a thread to wait, there is no answer.
        if let Err(why) = rt::spawn_on_machine("egret-resolve", ask) {
            *lock(&answer) = Some(Err(format!("no thread could ask where it is: {why}")));
        }
        Some(Self(answer))
    }

    /// The answer, if it is there.
    fn poll(&self) -> Option<LookupResult> {
        lock(&self.0).clone()
    }
}

impl fmt::Debug for PendingLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resolving").field(&self.poll()).finish()
    }
}

fn resolve(name: &str, port: u16) -> LookupResult {
    let addresses = (name, port).to_socket_addrs();
    let all = addresses.map_err(|why| format!("the system knows no host of this name: {why}"))?;
    let all: Vec<_> = all.take(ADDRESSES_MAX).collect();
    if all.is_empty() { Err("the system has no address of it".to_owned()) } else { Ok(all) }
}

fn lock(answer: &Mutex<Option<LookupResult>>) -> std::sync::MutexGuard<'_, Option<LookupResult>> {
    answer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One of the questions under way.
struct AddressQuery;

impl AddressQuery {
    fn begin() -> Option<Self> {
        let more = |count| (count < QUESTIONS_MAX).then_some(count + 1);
        QUESTIONS.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Self)
    }
}

impl Drop for AddressQuery {
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

    fn answer(name: &str) -> LookupResult {
        let me = rt::current();
        let resolving = PendingLookup::start(name, 7, move || me.unpark()).expect("few questions");
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
        let addresses = answer("localhost").unwrap();
        assert!(!addresses.is_empty());
        assert!(
            addresses.iter().all(|at| at.ip().is_loopback() && at.port() == 7),
            "{addresses:?}"
        );
        let unknown = answer("no such host").unwrap_err();
        assert!(unknown.starts_with("the system knows no host of this name: "), "{unknown}");
    }

    #[test]
    fn questions_are_bounded() {
        let questions: Vec<_> = std::iter::from_fn(AddressQuery::begin).collect();
        assert!(questions.len() <= QUESTIONS_MAX);
        assert!(PendingLookup::start("localhost", 7, || ()).is_none());
        drop(questions);
        assert!(AddressQuery::begin().is_some());
    }
}
