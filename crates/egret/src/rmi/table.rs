//! What is compared of an interface before an object is called through it.

use std::fmt;

use egret_net::buf::{FINGERPRINT_SEED, fingerprint};
use egret_node::am::Needed;

use super::CallError;
use super::interface::{Interface, Method};

/// An interface by its name and the signatures of its methods. Both sides of a connection
/// have one: that of a stub says what is needed, that of an object what there is.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) interface: &'static str,
    methods: Vec<Signature>,
}

/// A method by its name and types, each as it is written and by its fingerprint.
#[derive(Debug, PartialEq, Eq)]
struct Signature {
    name: &'static str,
    takes: (u64, &'static str),
    answers: (u64, &'static str),
}

impl Table {
    pub(crate) fn of<I: Interface + ?Sized>() -> Self {
        Self { interface: I::NAME, methods: I::METHODS.iter().map(Signature::of).collect() }
    }

    /// What a mapping of an object needs: the interface, and then each of its methods.
    pub(crate) fn needed(&self) -> Vec<Needed> {
        let name = self.interface;
        let interface = (fingerprint(FINGERPRINT_SEED, name.as_bytes()), name);
        let interface = Needed::new(INTERFACE, interface, (0, ""));
        let methods = self.methods.iter().map(|it| Needed::new(it.name, it.takes, it.answers));
        std::iter::once(interface).chain(methods).collect()
    }

    /// The names of the methods, in their order.
    pub(crate) fn methods(&self) -> impl Iterator<Item = &'static str> {
        self.methods.iter().map(|method| method.name)
    }

    /// Fails unless this is the interface of that name.
    pub(crate) fn check_name(&self, theirs: &str) -> Result<(), CallError> {
        if self.interface == theirs { Ok(()) } else { Err(self.other_interface(theirs)) }
    }

    /// That an object has another interface.
    pub(crate) fn other_interface(&self, theirs: &str) -> CallError {
        CallError::OtherInterface { ours: self.interface.to_owned(), theirs: theirs.to_owned() }
    }

    /// Where an object of this node has each method; fails as a mapping of an object of
    /// another node does.
    pub(crate) fn find_in(&self, object: &Self) -> Result<Vec<usize>, CallError> {
        self.check_name(object.interface)?;
        self.methods.iter().map(|method| object.find(method)).collect()
    }

    fn find(&self, method: &Signature) -> Result<usize, CallError> {
        let at = self.methods.iter().position(|known| known.name == method.name);
        let at = at.ok_or_else(|| CallError::UnknownMethod { name: method.name.to_owned() })?;
        let known = &self.methods[at];
        if known.fingerprints() == method.fingerprints() {
            return Ok(at);
        }
        let (ours, theirs) = (method.to_string(), known.to_string());
        Err(CallError::TypeMismatch { method: method.name.to_owned(), ours, theirs })
    }
}

impl Signature {
    fn of<I: ?Sized>(method: &Method<I>) -> Self {
        let (takes, answers) = (&method.takes, &method.answers);
        Self {
            name: method.name,
            takes: ((takes.fingerprint)(), takes.name),
            answers: ((answers.fingerprint)(), answers.name),
        }
    }

    const fn fingerprints(&self) -> (u64, u64) {
        (self.takes.0, self.answers.0)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { takes, answers, .. } = self;
        write!(f, "{} ({:016x}) -> {} ({:016x})", takes.1, takes.0, answers.1, answers.0)
    }
}

/// The handler that stands for the interface itself; no method has such a name.
pub(crate) const INTERFACE: &str = "#interface";
