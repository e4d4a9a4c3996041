//! What is compared of an interface before an object is called through it.

use egret_net::rt::waits::WaitObject;
use std::any::TypeId;
use std::collections::BTreeMap;

use egret_stream::{ReadPlan, Schema, Wire, WireError};

use crate::rmi::CallError;
use crate::rmi::callee::target::is_gated;
use crate::rmi::callee::versions::SCHEMAS_MAX;
use crate::rmi::caller::call_site::UNTOLD;
use crate::rmi::fault;
use crate::rmi::interface::{MethodType, RemoteInterface, RemoteMethod};

/// An interface by its name and the signatures of its methods. Both sides of a call
/// have one: that of a stub says what is needed, that of an object what there is.
#[derive(Debug)]
pub(crate) struct InterfaceTable {
    /// The trait, in this program.
    pub(crate) id: TypeId,
    pub(crate) interface: &'static str,
    pub(crate) methods: Vec<MethodSignature>,
    /// Whether some of them take `&mut self`.
    has_gate: bool,
}

/// An interface as stubs have it, whatever its type.
#[derive(Debug)]
pub(crate) struct StubInterface {
    /// The trait.
    pub(crate) id: fn() -> TypeId,
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
                id: TypeId::of::<I>,
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
    /// The schema of the arguments, if the object's node has said that the types differ.
    pub(crate) schema: Option<String>,
}

/// What the object's node says to that.
#[derive(Debug, Wire)]
pub(crate) enum InterfaceReply {
    /// Each method that was asked for, and whether some of the interface take `&mut self`.
    Methods {
        methods: Vec<MethodReply>,
        has_gate: bool,
    },
    /// No object has an interface of that number.
    UnknownInterface,
    OtherInterface {
        theirs: String,
    },
}

/// What the object's node says to a method that a stub needs.
#[derive(Debug, Wire)]
pub(crate) enum MethodReply {
    /// Its number; the types are the same.
    Same(u8),
    /// The interface has no method of that name.
    Unknown,
    /// The types differ: more is said to who sends the schema of the arguments.
    Other,
    /// Its number; the node reads the arguments by the schema that it was sent. With the schema of what the
    /// method returns, if the fingerprint differs.
    Planned(u8, Option<String>),
    /// The arguments cannot be read: the field, what it is at the object and what at the stub.
    Refused { field: String, here: String, there: String },
}

/// The methods of a stub, as the object's node has them.
#[derive(Debug)]
pub(crate) struct MethodNumbers {
    /// By the numbers at the stub; [`NOT_SAME`] of one that is among the others.
    pub(crate) numbers: Box<[u8]>,
    /// The handler of calls of them.
    pub(crate) handler: u8,
    /// Whether some are read by plans: each connection carries their schemas once.
    pub(crate) is_planned: bool,
    /// Those that the object's node does not have as they are here, by their numbers at the stub.
    pub(crate) others: BTreeMap<usize, OtherMethod>,
}

/// A method of a stub that is not the same at the object's node.
#[derive(Debug)]
pub(crate) enum OtherMethod {
    Unknown,
    Planned(PlannedMethod),
    /// Its first use is refused: the field, what it is here and what at the object.
    Refused {
        field: String,
        ours: String,
        theirs: String,
    },
}

/// A method whose types are another version at the object's node.
#[derive(Debug)]
pub(crate) struct PlannedMethod {
    pub(crate) number: u8,
    /// By which the object's node finds its plan.
    pub(crate) version: u64,
    /// How the answer is read, if it differs, and the fingerprint of what that makes.
    pub(crate) answers: Option<(ReadPlan, u64)>,
}

/// A method as its caller has it, at the object's node: for calls by a stub with other types.
#[derive(Debug)]
pub(crate) struct MethodVersion {
    /// How the arguments are read.
    pub(crate) args: ReadPlan,
    /// Whether the caller reads what the method returns by a plan.
    pub(crate) is_answer_planned: bool,
}

/// A method by its name and types.
#[derive(Debug)]
pub(crate) struct MethodSignature {
    pub(crate) name: &'static str,
    pub(crate) args: &'static [&'static str],
    pub(crate) takes: TypeSignature,
    pub(crate) answers: TypeSignature,
}

/// A type by its fingerprint; its schema is made when it is asked for.
#[derive(Debug)]
pub(crate) struct TypeSignature {
    pub(crate) fingerprint: u64,
    schema: fn() -> Schema,
}

impl InterfaceTable {
    pub(crate) fn of<I: RemoteInterface + ?Sized>() -> Self {
        const { assert!(I::METHODS.len() <= METHODS_MAX, "a remote trait has at most 200 methods") };
        let methods = I::METHODS.iter().map(MethodSignature::of).collect();
        let has_gate = is_gated::<I>();
        Self { id: TypeId::of::<I>(), interface: I::NAME, methods, has_gate }
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

    /// What an object of this interface says to what a stub needs. `keep` gets the version of a method whose
    /// arguments are read by a plan, and how many bytes its schema has; it says whether there is room for it.
    pub(crate) fn meet(
        &self,
        needs: &NeededInterface,
        mut keep: impl FnMut(u8, u64, MethodVersion, usize) -> bool,
    ) -> InterfaceReply {
        if self.interface != needs.interface {
            return InterfaceReply::OtherInterface { theirs: self.interface.to_owned() };
        }
        let methods = needs.methods.iter().enumerate();
        let methods = methods.map(|(place, need)| self.find(place, need, &mut keep)).collect();
        InterfaceReply::Methods { methods, has_gate: self.has_gate }
    }

    fn find(
        &self,
        place: usize,
        need: &NeededMethod,
        keep: impl FnOnce(u8, u64, MethodVersion, usize) -> bool,
    ) -> MethodReply {
        let mut known = self.methods.iter().enumerate();
        let at =
            known.position(|(at, known)| fault::is_method(known.name == need.name, at == place));
        let Some(at) = at else { return MethodReply::Unknown };
        let (known, number) = (&self.methods[at], u8::try_from(at).expect("at most 200"));
        let is_answer_same = known.answers.fingerprint == need.answers;
        if known.takes.fingerprint == need.takes && is_answer_same {
            return MethodReply::Same(number);
        }
        let Some(text) = &need.schema else { return MethodReply::Other };
        let args = match known.takes.plan(text, Some(need.takes)) {
            Ok(args) => args,
            Err([field, here, there]) => return MethodReply::Refused { field, here, there },
        };
        let version = MethodVersion { args, is_answer_planned: !is_answer_same };
        if !keep(number, need.version(), version, text.len()) {
            let here = format!("no room: {SCHEMAS_MAX} bytes of schemas of one node are kept");
            let (field, there) = (String::new(), "one schema more".to_owned());
            return MethodReply::Refused { field, here, there };
        }
        let answers = (!is_answer_same).then(|| known.answers.text());
        MethodReply::Planned(number, answers)
    }
}

impl NeededMethod {
    /// What tells the types of the caller from those that the method has in other programs. It is never 0.
    pub(crate) fn version(&self) -> u64 {
        (self.takes.rotate_left(1) ^ self.answers).max(1)
    }
}

impl MethodNumbers {
    /// How the answer of a method is read, by the method's number at the stub.
    pub(crate) fn answer_plan(&self, method: usize) -> Option<&(ReadPlan, u64)> {
        match self.others.get(&method)? {
            OtherMethod::Planned(method) => method.answers.as_ref(),
            OtherMethod::Unknown | OtherMethod::Refused { .. } => None,
        }
    }
}

impl MethodSignature {
    fn of<I: ?Sized>(method: &RemoteMethod<I>) -> Self {
        let signature = |ty: &MethodType| {
            let (fingerprint, schema) = (ty.structure)();
            TypeSignature { fingerprint: fingerprint(), schema }
        };
        let (takes, answers) = (signature(&method.takes), signature(&method.answers));
        Self { name: method.name, args: method.args, takes, answers }
    }
}

impl TypeSignature {
    /// The schema, as it travels.
    pub(crate) fn text(&self) -> String {
        (self.schema)().as_str().to_owned()
    }

    /// How a value is read that was written by this schema of the other side, whose fingerprint may be known. Else
    /// the first field that cannot be read, what it is here, and what there; no field if it is the whole.
    pub(crate) fn plan(
        &self,
        text: &str,
        fingerprint: Option<u64>,
    ) -> Result<ReadPlan, [String; 3]> {
        let whole = |there: String| [String::new(), "another schema".to_owned(), there];
        if text.len() > SCHEMA_MAX {
            let bytes = text.len();
            return Err(whole(format!("one of {bytes} bytes, of which {SCHEMA_MAX} are taken")));
        }
        let schema = Schema::from_text(text);
        if fingerprint.is_some_and(|fingerprint| fingerprint != schema.fingerprint()) {
            return Err(whole("one with another fingerprint than was said".to_owned()));
        }
        ReadPlan::of(&schema, &(self.schema)()).map_err(|why| match why {
            WireError::Incompatible { field, here, there } => [field, here, there],
            other => whole(format!("one that cannot be read: {other}")),
        })
    }
}

/// Methods of an interface: their numbers are bytes.
pub(crate) const METHODS_MAX: usize = 200;
/// No number of a method.
pub(crate) const NOT_SAME: u8 = u8::MAX;
/// Most bytes of the schema of one type.
pub(crate) const SCHEMA_MAX: usize = 64 << 10;
