//! What is compared of an interface before an object is called through it.

use egret_net::rt::waits::WaitObject;
use std::any::TypeId;
use std::fmt;

use egret_stream::Wire;

use crate::rmi::CallError;
use crate::rmi::callee::objects::{CALL, CALL_IN_ORDER};
use crate::rmi::callee::target::is_gated;
use crate::rmi::caller::call_site::UNTOLD;
use crate::rmi::interface::{RemoteInterface, RemoteMethod};

/// An interface by its name and the signatures of its methods. Both sides of a call
/// have one: that of a stub says what is needed, that of an object what there is.
#[derive(Debug)]
pub(crate) struct InterfaceTable {
    /// The trait, in this program.
    pub(crate) id: TypeId,
    pub(crate) interface: &'static str,
    methods: Vec<MethodSignature>,
    /// Whether some of them take `&mut self`.
    has_gate: bool,
}

/// An interface as stubs have it, whatever its type.
#[derive(Debug)]
pub(crate) struct StubInterface {
    pub(crate) table: fn() -> InterfaceTable,
    pub(crate) interface: &'static str,
    /// The name of a method, by its number at the stub.
    pub(crate) method: fn(usize) -> &'static str,
}

impl WaitObject for StubInterface {
    fn name(&self, method: usize) -> String {
        format!("{}::{}", self.interface, (self.method)(method))
    }
}

impl StubInterface {
    pub(crate) const fn of<I: RemoteInterface + ?Sized>() -> &'static Self {
        const {
            &Self {
                table: InterfaceTable::of::<I>,
                interface: I::NAME,
                method: |at| I::METHODS.get(at).map_or("?", |method| method.name),
            }
        }
    }
}

/// What a stub needs of an interface, as the object's node is asked.
#[derive(Debug, Wire)]
pub(crate) struct NeededInterface {
    pub(crate) interface: String,
    pub(crate) methods: Vec<NeededMethod>,
}

/// A method that a stub needs, by its name and the fingerprints of its types.
#[derive(Debug, Wire)]
pub(crate) struct NeededMethod {
    pub(crate) name: String,
    pub(crate) takes: u64,
    pub(crate) answers: u64,
}

/// What the object's node says to that.
#[derive(Debug, Wire)]
pub(crate) enum InterfaceReply {
    /// The number of each method, and whether some of them take `&mut self`.
    Methods {
        numbers: Vec<u8>,
        has_gate: bool,
    },
    /// No object has an interface of that number.
    UnknownInterface,
    OtherInterface {
        theirs: String,
    },
    UnknownMethod {
        name: String,
    },
    OtherTypes {
        method: String,
        theirs: String,
    },
}

/// The methods of a stub, as the object's node has them.
#[derive(Debug)]
pub(crate) struct MethodNumbers {
    pub(crate) numbers: Box<[u8]>,
    /// The handler of calls of them.
    pub(crate) handler: u8,
}

/// A method by its name and types, each as it is written and by its fingerprint.
#[derive(Debug, PartialEq, Eq)]
struct MethodSignature {
    name: &'static str,
    takes: (u64, &'static str),
    answers: (u64, &'static str),
}

impl InterfaceTable {
    pub(crate) fn of<I: RemoteInterface + ?Sized>() -> Self {
        const { assert!(I::METHODS.len() <= METHODS_MAX, "a remote trait has at most 200 methods") };
        let methods = I::METHODS.iter().map(MethodSignature::of).collect();
        let has_gate = is_gated::<I>();
        Self { id: TypeId::of::<I>(), interface: I::NAME, methods, has_gate }
    }

    /// What a stub of it needs.
    pub(crate) fn needs(&self) -> NeededInterface {
        let methods = self.methods.iter().map(|it| {
            let (takes, answers) = it.fingerprints();
            NeededMethod { name: it.name.to_owned(), takes, answers }
        });
        NeededInterface { interface: self.interface.to_owned(), methods: methods.collect() }
    }

    /// Fails unless this is the interface of that name.
    pub(crate) fn check_name(&self, theirs: &str) -> Result<(), CallError> {
        if self.interface == theirs { Ok(()) } else { Err(self.other_interface(theirs)) }
    }

    /// That an object has another interface.
    pub(crate) fn other_interface(&self, theirs: &str) -> CallError {
        let (ours, theirs) = (self.interface.to_owned(), theirs.to_owned());
        CallError::OtherInterface { ours, theirs, call: UNTOLD }
    }

    /// What an object of this interface says to what a stub needs.
    pub(crate) fn meet(&self, needs: &NeededInterface) -> InterfaceReply {
        if self.interface != needs.interface {
            return InterfaceReply::OtherInterface { theirs: self.interface.to_owned() };
        }
        let numbers = needs.methods.iter().map(|need| self.find(need));
        let has_gate = self.has_gate;
        match numbers.collect() {
            Ok(numbers) => InterfaceReply::Methods { numbers, has_gate },
            Err(met) => met,
        }
    }

    fn find(&self, need: &NeededMethod) -> Result<u8, InterfaceReply> {
        let at = self.methods.iter().position(|known| known.name == need.name);
        let at = at.ok_or_else(|| InterfaceReply::UnknownMethod { name: need.name.clone() })?;
        let known = &self.methods[at];
        if known.fingerprints() == (need.takes, need.answers) {
            return Ok(u8::try_from(at).expect("at most 200"));
        }
        Err(InterfaceReply::OtherTypes { method: need.name.clone(), theirs: known.to_string() })
    }

    /// The numbers of the methods of a stub, as the object's node has answered.
    pub(crate) fn numbers(&self, met: InterfaceReply) -> Result<MethodNumbers, CallError> {
        match met {
            InterfaceReply::Methods { numbers, has_gate }
                if numbers.len() == self.methods.len() =>
            {
                let handler = if has_gate { CALL_IN_ORDER } else { CALL };
                Ok(MethodNumbers { numbers: numbers.into(), handler })
            }
            InterfaceReply::Methods { numbers, .. } => {
                let (have, want) = (numbers.len(), self.methods.len());
                let why = format!("numbers of {have} methods, for an interface that has {want}");
                Err(CallError::Unreadable { why, call: UNTOLD })
            }
            InterfaceReply::UnknownInterface => Err(CallError::UnknownObject { call: UNTOLD }),
            InterfaceReply::OtherInterface { theirs } => Err(self.other_interface(&theirs)),
            InterfaceReply::UnknownMethod { name } => {
                Err(CallError::UnknownMethod { name, call: UNTOLD })
            }
            InterfaceReply::OtherTypes { method, theirs } => {
                let ours = self.methods.iter().find(|it| it.name == method);
                let ours = ours.map_or_else(String::new, MethodSignature::to_string);
                Err(CallError::TypeMismatch { method, ours, theirs, call: UNTOLD })
            }
        }
    }
}

impl MethodSignature {
    fn of<I: ?Sized>(method: &RemoteMethod<I>) -> Self {
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

impl fmt::Display for MethodSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { takes, answers, .. } = self;
        write!(f, "{} ({:016x}) -> {} ({:016x})", takes.1, takes.0, answers.1, answers.0)
    }
}

/// Methods of an interface: their numbers are bytes.
pub(crate) const METHODS_MAX: usize = 200;
