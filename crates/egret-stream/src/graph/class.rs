//! The classes of a graph: which types its objects have, found by a walk over them.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use egret_net::buf::{self, Kind};

use super::check::{self, Check};
use super::compact::{self, Moves};
use super::dynamic;
use super::error::{GraphError, GraphRefusal};
use super::object::{Object, Target};
use super::slot;
use super::store::Store;

/// One type of object.
#[doc(hidden)]
pub struct GraphClass {
    pub(super) id: TypeId,
    pub(super) name: String,
    /// Of its structure; what it refers to is there by name.
    pub(super) fingerprint: u64,
    /// Bytes from one slot to the next.
    pub(super) stride: usize,
    /// Bytes of an element, if it is a slice or a text.
    pub(super) element: Option<usize>,
    /// Checks the objects of the class; gives how many slots are empty.
    pub(super) check: fn(&mut Check<'_>, usize) -> Result<u32, Box<GraphRefusal>>,
    /// Renews the references of all objects of the class.
    pub(super) renew_refs: fn(&mut Store, usize, &mut Moves<'_>) -> Result<(), GraphError>,
    /// How to see it as an object of a trait, by trait.
    pub(super) ways: Vec<(TypeId, &'static (dyn Any + Sync))>,
}

impl GraphClass {
    /// Whether its objects are known as ones of a trait.
    pub(super) fn is_a(&self, id: TypeId) -> bool {
        self.ways.iter().any(|(wanted, _)| *wanted == id)
    }
}

impl fmt::Debug for GraphClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Class").field(&self.name).finish()
    }
}

/// The classes of all graphs with one type of root.
#[derive(Debug)]
pub(super) struct GraphClasses {
    pub(super) all: Vec<GraphClass>,
    /// What a message with such a graph says it carries.
    pub(super) kind: Kind,
}

impl GraphClasses {
    /// The classes of graphs whose root is a `Root`: walked once.
    ///
    /// # Panics
    ///
    /// If there are more than a reference can tell apart.
    #[inline]
    pub(super) fn of<Root: Object>() -> &'static Self {
        Root::hint().classes(TypeId::of::<Root>(), Self::find::<Root>)
    }

    fn find<Root: Object>() -> &'static Self {
        let id = TypeId::of::<Root>();
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().get(&id) {
            return found;
        }
        let walked = Box::leak(Box::new(Self::walk::<Root>()));
        known().entry(id).or_insert(walked)
    }

    fn walk<Root: Object>() -> Self {
        let mut all = Vec::new();
        let mut open: Vec<fn(&mut DescribeObject<'_>)> = vec![<Root as Target>::enter];
        let mut next = 0;
        while let Some(enter) = open.get(next).copied() {
            next += 1;
            let mut found = Vec::new();
            enter(&mut DescribeObject { classes: &mut all, open: &mut found, text: String::new() });
            open.extend(found);
        }
        assert!(
            all.len() <= CLASSES_MAX,
            "a graph of `{}` has {} classes, and a reference tells {CLASSES_MAX} apart",
            short_name::<Root>(),
            all.len()
        );
        for (at, class) in all.iter().enumerate() {
            let other: Option<&GraphClass> =
                all[..at].iter().find(|other| other.fingerprint == class.fingerprint);
            assert!(
                other.is_none(),
                "two types `{}` of a graph have the same name and structure: nobody there could \
                 tell one from the other",
                class.name
            );
        }
        let seed = buf::fingerprint(buf::FINGERPRINT_SEED, b"graph");
        let hash =
            |hash, class: &GraphClass| buf::fingerprint(hash, &class.fingerprint.to_le_bytes());
        // Leaked as the classes are, so that none of the messages that say it has a copy.
        let name: &str = Box::leak(format!("Graph<{}>", short_name::<Root>()).into_boxed_str());
        let kind = Kind { fingerprint: all.iter().fold(seed, hash), name: name.into() };
        Self { all, kind }
    }
}

/// Takes the description of a type; see [`Object::describe`].
pub struct DescribeObject<'w> {
    classes: &'w mut Vec<GraphClass>,
    /// What was found to be referred to.
    open: &'w mut Vec<fn(&mut DescribeObject<'_>)>,
    text: String,
}

impl fmt::Debug for DescribeObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Describe").field(&self.text).finish()
    }
}

impl DescribeObject<'_> {
    /// A type without parts, or what stands before one.
    pub fn word(&mut self, word: &str) {
        self.text.push_str(word);
        self.text.push(' ');
    }

    /// A type with a name and parts.
    pub fn named(&mut self, kind: &str, name: &str, parts: impl FnOnce(&mut Self)) {
        self.word(&format!("{kind} {name} {{"));
        parts(self);
        self.word("}");
    }

    /// A part with a name.
    pub fn field<T: Object>(&mut self, name: &str) {
        self.word(&format!("{name}:"));
        T::describe(self);
    }

    /// One way to be of several, with the number that it has in memory.
    pub fn variant(&mut self, name: &str, number: i128, parts: impl FnOnce(&mut Self)) {
        self.named(&format!("{number} ="), name, parts);
    }

    /// A reference to a `T`.
    pub fn reference<T: Target + ?Sized>(&mut self, word: &str) {
        self.word(&format!("{word} {}", short_name::<T>()));
        self.open.push(T::enter);
    }

    /// Enters a class after this.
    pub(super) fn later(&mut self, enter: fn(&mut DescribeObject<'_>)) {
        self.open.push(enter);
    }

    pub(super) fn enter_object<T: Object>(&mut self) {
        const {
            assert!(align_of::<T>() <= slot::ALIGN, "an object is aligned to 8 bytes at most");
        }
        T::hint().learn(self.classes.len());
        self.enter::<T>(slot::stride(size_of::<T>()), None, check::objects::<T>, |describe| {
            T::describe(describe);
            let sizes = format!("of {} bytes at {}", size_of::<T>(), align_of::<T>());
            describe.word(&sizes);
            if T::REFS { compact::renew_objects::<T> } else { compact::renew_nothing }
        });
    }

    pub(super) fn enter_slice<T: Object>(&mut self) {
        const {
            assert!(align_of::<T>() <= slot::ALIGN, "an object is aligned to 8 bytes at most");
            assert!(size_of::<T>() > 0, "elements without size hold no bytes");
        }
        let element = Some(size_of::<T>());
        self.enter::<[T]>(slot::SPAN_STRIDE, element, check::slices::<T>, |describe| {
            describe.word("slice of");
            T::describe(describe);
            describe.word(&format!("of {} bytes at {}", size_of::<T>(), align_of::<T>()));
            if T::REFS { compact::renew_slices::<T> } else { compact::renew_nothing }
        });
    }

    pub(super) fn enter_text(&mut self) {
        self.enter::<str>(slot::SPAN_STRIDE, Some(1), check::texts, |describe| {
            describe.word("text");
            compact::renew_nothing
        });
    }

    fn enter<T: ?Sized + 'static>(
        &mut self,
        stride: usize,
        element: Option<usize>,
        check: fn(&mut Check<'_>, usize) -> Result<u32, Box<GraphRefusal>>,
        describe: impl FnOnce(&mut Self) -> RenewAll,
    ) {
        let id = TypeId::of::<T>();
        if self.classes.iter().any(|class| class.id == id) {
            return;
        }
        let name = short_name::<T>();
        let renew_refs = describe(self);
        let fingerprint = buf::fingerprint(buf::FINGERPRINT_SEED, self.text.as_bytes());
        self.text.clear();
        let ways = dynamic::ways(id);
        self.classes.push(GraphClass {
            id,
            name,
            fingerprint,
            stride,
            element,
            check,
            renew_refs,
            ways,
        });
    }
}

type RenewAll = fn(&mut Store, usize, &mut Moves<'_>) -> Result<(), GraphError>;

/// The name of a type without the modules that it lies in.
pub(super) fn short_name<T: ?Sized>() -> String {
    let mut short = String::new();
    let mut word = String::new();
    for character in type_name::<T>().chars() {
        match character {
            ':' => word.clear(),
            _ if character.is_alphanumeric() || character == '_' => word.push(character),
            _ => {
                short.push_str(&word);
                word.clear();
                short.push(character);
            }
        }
    }
    let _ = write!(short, "{word}");
    short
}

/// A reference has 8 bits for the class.
pub(super) const CLASSES_MAX: usize = 255;

static KNOWN: Mutex<BTreeMap<TypeId, &'static GraphClasses>> = Mutex::new(BTreeMap::new());
