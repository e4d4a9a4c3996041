//! What the threads of a process wait for, to be shown to people.
//!
//! A function that may wait says so first: what for, and the line of the program that called it ([`scope`]). That is a
//! few stores in memory of the thread. Only when the thread really waits, behind the looks that find what comes at
//! once, the wait enters the list of all ([`show`]), which [`all`] reads; it leaves the list with its scope.
//!
//! What a library function waits for on behalf of a wait of the program is that wait: the outermost scope counts. What
//! a handler waits for, which runs while its thread waits, is a wait of its own ([`aside`]). Until that is over the
//! thread waits for nothing else, so [`all`] has the innermost wait of each thread.

use std::cell::{Cell, OnceCell};
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{Instant, now};

/// What a thread may come to wait for.
#[derive(Debug, Clone, Copy)]
pub struct WaitHint {
    /// The kind of the wait, in a word or two: `answer`, `event`.
    pub kind: &'static str,
    /// The number of the links on which the thread waits; 0 if there are none.
    pub links: u32,
    /// Who is waited for.
    pub peer: WaitPeer,
    /// What is waited for there: the method of this number.
    pub object: Option<(&'static (dyn WaitObject + Sync), usize)>,
    /// The line of the program.
    pub at: &'static Location<'static>,
}

/// Who is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitPeer {
    /// No peer, or any.
    Any,
    /// The peer of the link of this number.
    Link(u64),
    /// The node of this rank and incarnation.
    Node(u32, u64),
}

/// Something with methods that can be waited for.
pub trait WaitObject: std::fmt::Debug {
    /// The name of a method.
    fn name(&self, method: usize) -> String;
}

/// A wait of a thread.
#[derive(Debug, Clone)]
pub struct WaitRecord {
    /// The name of the thread.
    pub thread: Arc<str>,
    /// See [`WaitHint`].
    pub hint: WaitHint,
    /// What is waited for; empty if the kind says it all.
    pub object: String,
    /// When the wait began.
    pub since: Instant,
}

impl WaitHint {
    /// A wait for any peer, at the line that calls this.
    #[must_use]
    #[track_caller]
    #[inline]
    pub const fn of(kind: &'static str, links: u32) -> Self {
        Self { kind, links, peer: WaitPeer::Any, object: None, at: Location::caller() }
    }

    /// The same for a peer.
    #[must_use]
    #[inline]
    pub const fn by(self, peer: WaitPeer) -> Self {
        Self { peer, ..self }
    }
}

/// The calling thread may wait for this until the returned value is dropped.
#[inline]
pub fn scope(hint: WaitHint) -> WaitScope {
    THREAD.with(|own| {
        let (depth, before) = (own.depth.get(), own.hint.get());
        if before.is_some_and(|(known, _)| known == depth) {
            return WaitScope { begun: None, thread: PhantomData };
        }
        let was_shown = own.is_shown.replace(false);
        own.hint.set(Some((depth, hint)));
        WaitScope { begun: Some((before, was_shown)), thread: PhantomData }
    })
}

/// The same for a wait for something with a name, which is listed at once.
pub fn named(hint: WaitHint, object: &str) -> WaitScope {
    let scope = scope(hint);
    if scope.begun.is_some() {
        THREAD.with(|own| own.enter(object.to_owned()));
    }
    scope
}

/// The calling thread waits now, for what its [scope](scope()) says.
#[inline]
pub fn show() {
    THREAD.with(|own| {
        if !own.is_shown.get() {
            own.show();
        }
    });
}

/// What runs until the returned value is dropped is no part of the wait of this thread: a handler.
#[inline]
#[must_use]
pub fn aside() -> WaitAside {
    THREAD.with(|own| own.depth.set(own.depth.get() + 1));
    WaitAside(PhantomData)
}

/// What each thread of this process waits for: its innermost wait.
#[must_use]
pub fn all() -> Vec<WaitRecord> {
    let lists: Vec<_> = lock(&LISTS).iter().filter_map(Weak::upgrade).collect();
    lists.iter().filter_map(|list| lock(list).last().cloned()).collect()
}

/// Until this is dropped the thread may wait; from [`scope`].
#[derive(Debug)]
#[must_use = "the wait ends when this is dropped"]
pub struct WaitScope {
    /// What was there before, if this is not part of another wait.
    begun: Option<(Option<(u32, WaitHint)>, bool)>,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Drop for WaitScope {
    #[inline]
    fn drop(&mut self) {
        let Some((before, was_shown)) = self.begun else { return };
        // A thread that ends has forgotten its waits.
        _ = THREAD.try_with(|own| {
            own.hint.set(before);
            if own.is_shown.replace(was_shown) {
                own.leave();
            }
        });
    }
}

/// From [`aside`].
#[derive(Debug)]
pub struct WaitAside(PhantomData<*const ()>);

impl Drop for WaitAside {
    #[inline]
    fn drop(&mut self) {
        _ = THREAD.try_with(|own| own.depth.set(own.depth.get() - 1));
    }
}

/// The waits of a thread, the innermost last.
type WaitList = Mutex<Vec<WaitRecord>>;

/// What a thread knows of its waits.
struct ThreadWaits {
    /// How many handlers run on it, one within the other.
    depth: Cell<u32>,
    /// What it may wait for, and at which depth.
    hint: Cell<Option<(u32, WaitHint)>>,
    /// Whether that is in the list.
    is_shown: Cell<bool>,
    list: OnceCell<Arc<WaitList>>,
}

impl ThreadWaits {
    #[cold]
    fn show(&self) {
        let object = self.hint.get().and_then(|(_, hint)| hint.object);
        self.enter(object.map_or_else(String::new, |(object, method)| object.name(method)));
    }

    fn enter(&self, object: String) {
        let Some((_, hint)) = self.hint.get() else { return };
        let list = self.list.get_or_init(|| {
            let list = Arc::new(WaitList::default());
            let mut lists = lock(&LISTS);
            lists.retain(|list| list.strong_count() > 0);
            lists.push(Arc::downgrade(&list));
            list
        });
        #[expect(clippy::disallowed_methods, reason = "this is the seam")]
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed").into();
        lock(list).push(WaitRecord { thread, hint, object, since: now() });
        self.is_shown.set(true);
    }

    #[cold]
    fn leave(&self) {
        if let Some(list) = self.list.get() {
            lock(list).pop();
        }
    }
}

thread_local! {
    static THREAD: ThreadWaits = const {
        ThreadWaits {
            depth: Cell::new(0),
            hint: Cell::new(None),
            is_shown: Cell::new(false),
            list: OnceCell::new(),
        }
    };
}

/// A list is whole whenever it is not locked.
fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Those of all threads that have waited.
static LISTS: Mutex<Vec<Weak<WaitList>>> = Mutex::new(Vec::new());

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds of the waits of this thread.
    fn own() -> Vec<&'static str> {
        let list = THREAD.with(|own| own.list.get().cloned());
        list.map_or_else(Vec::new, |list| lock(&list).iter().map(|wait| wait.hint.kind).collect())
    }

    #[test]
    fn the_outermost_scope_counts_and_what_a_handler_waits_for_too() {
        // Numbers of links that no other test has.
        const OUTER: u32 = 71;
        const HANDLER: u32 = 72;
        let outer = scope(WaitHint::of("outer", OUTER));
        assert!(own().is_empty(), "nothing is listed before the thread waits");
        {
            let _inner = scope(WaitHint::of("inner", 1));
            show();
            show();
            assert_eq!(own(), ["outer"]);
        }
        assert_eq!(own(), ["outer"], "the inner one was a part of it");
        {
            let _aside = aside();
            let _handler = scope(WaitHint::of("handler", HANDLER));
            assert_eq!(own(), ["outer"]);
            show();
            assert_eq!(own(), ["outer", "handler"]);
            let shown =
                all().into_iter().filter(|wait| [OUTER, HANDLER].contains(&wait.hint.links));
            assert!(shown.map(|wait| wait.hint.kind).eq(["handler"]), "the thread waits for that");
        }
        assert_eq!(own(), ["outer"]);
        drop(outer);
        assert!(own().is_empty());
        show();
        assert!(own().is_empty(), "a thread without a scope is not listed");
    }

    #[test]
    fn a_wait_with_a_name_is_listed_with_its_line() {
        let line = line!() + 1;
        let _scope = named(WaitHint::of("name", 7).by(WaitPeer::Node(1, 2)), "grid");
        let listed = all().into_iter().find(|wait| wait.hint.links == 7).unwrap();
        assert_eq!((&listed.object[..], listed.hint.peer), ("grid", WaitPeer::Node(1, 2)));
        assert_eq!((listed.hint.at.line(), listed.hint.at.file()), (line, file!()));
        let other = crate::rt::spawn("other", || {
            let _scope = named(WaitHint::of("other", 8), "");
        });
        other.unwrap().join().unwrap();
        assert!(!all().iter().any(|wait| wait.hint.links == 8), "an ended thread waits no more");
    }
}
