//! Meeting an interface: which of a stub's methods the object's node has, and how both sides read what differs.
//!
//! The first question has the names of all methods and the fingerprints of their types. If all are the same, that
//! is all. Methods whose types differ are asked for again, with the schemas of their arguments, as many at a time
//! as a message takes; the answers to those have the schemas of what the methods return.

use std::collections::BTreeMap;

use crate::rmi::CallError;
use crate::rmi::callee::objects::{CALL, CALL_IN_ORDER};
use crate::rmi::caller::call_site::UNTOLD;
use crate::rmi::interface_table::{
    InterfaceReply, InterfaceTable, METHODS_MAX, MethodNumbers, MethodReply, MethodSignature,
    NOT_SAME, NeededInterface, NeededMethod, OtherMethod, PlannedMethod, SCHEMA_MAX,
};

/// An interface that is being met, as far as its object's node has answered.
#[derive(Debug)]
pub(crate) struct InterfaceMeeting {
    table: InterfaceTable,
    /// What is asked for now, by the numbers at the stub.
    asked: Vec<usize>,
    /// What differs and is to be asked for with schemas.
    left: Vec<usize>,
    /// Whether schemas go along.
    is_second: bool,
    has_gate: bool,
    numbers: Box<[u8]>,
    others: BTreeMap<usize, OtherMethod>,
}

impl InterfaceMeeting {
    pub(crate) fn new(table: InterfaceTable) -> Self {
        let count = table.methods.len();
        Self {
            asked: (0..count).collect(),
            left: Vec::new(),
            is_second: false,
            has_gate: false,
            numbers: vec![NOT_SAME; count].into(),
            others: BTreeMap::new(),
            table,
        }
    }

    /// What the object's node is to be asked now.
    pub(crate) fn needs(&self) -> NeededInterface {
        let methods = self.asked.iter().map(|&at| self.need(at)).collect();
        NeededInterface { interface: self.table.interface.to_owned(), methods }
    }

    fn need(&self, at: usize) -> NeededMethod {
        let MethodSignature { name, takes, answers, .. } = &self.table.methods[at];
        let schema = self.is_second.then(|| takes.text());
        let (takes, answers) = (takes.fingerprint, answers.fingerprint);
        NeededMethod { name: (*name).to_owned(), takes, answers, schema }
    }

    /// The object's node has answered. The numbers, unless there is more to ask.
    pub(crate) fn answered(
        &mut self,
        reply: InterfaceReply,
    ) -> Result<Option<MethodNumbers>, CallError> {
        let methods = match reply {
            InterfaceReply::Methods { methods, has_gate } => {
                self.has_gate = has_gate;
                methods
            }
            InterfaceReply::UnknownInterface => {
                return Err(CallError::UnknownObject { call: UNTOLD });
            }
            InterfaceReply::OtherInterface { theirs } => {
                return Err(self.table.other_interface(&theirs));
            }
        };
        let asked = std::mem::take(&mut self.asked);
        if methods.len() != asked.len() {
            let (have, want) = (methods.len(), asked.len());
            return Err(unclear(&format!(
                "numbers of {have} methods, where {want} were asked for"
            )));
        }
        for (at, method) in asked.into_iter().zip(methods) {
            self.method(at, method)?;
        }
        self.ask_more();
        if !self.asked.is_empty() {
            return Ok(None);
        }
        let handler = if self.has_gate { CALL_IN_ORDER } else { CALL };
        let (numbers, others) =
            (std::mem::take(&mut self.numbers), std::mem::take(&mut self.others));
        let is_planned = others.values().any(|other| matches!(other, OtherMethod::Planned(_)));
        Ok(Some(MethodNumbers { numbers, handler, is_planned, others }))
    }

    /// What the object's node says to the method `at`.
    fn method(&mut self, at: usize, reply: MethodReply) -> Result<(), CallError> {
        let other = match reply {
            MethodReply::Same(number) => {
                self.numbers[at] = checked(number)?;
                return Ok(());
            }
            MethodReply::Other if !self.is_second => {
                self.left.push(at);
                return Ok(());
            }
            MethodReply::Other => {
                return Err(unclear("a question for a schema that it has"));
            }
            MethodReply::Unknown => OtherMethod::Unknown,
            MethodReply::Planned(number, theirs) => self.planned(at, checked(number)?, theirs)?,
            MethodReply::Refused { field, here, there } => {
                let field = argument(self.table.methods[at].args, &field);
                OtherMethod::Refused { field, ours: there, theirs: here }
            }
        };
        self.others.insert(at, other);
        Ok(())
    }

    /// A method that reads what is sent; whether what it returns can be read comes out here.
    fn planned(
        &self,
        at: usize,
        number: u8,
        theirs: Option<String>,
    ) -> Result<OtherMethod, CallError> {
        let version = self.need(at).version();
        let ours = &self.table.methods[at].answers;
        let Some(theirs) = theirs else {
            return Ok(OtherMethod::Planned(PlannedMethod { number, version, answers: None }));
        };
        Ok(match ours.plan(&theirs, None) {
            Ok(plan) => {
                let answers = Some((plan, ours.fingerprint));
                OtherMethod::Planned(PlannedMethod { number, version, answers })
            }
            Err([field, ours, theirs]) => {
                OtherMethod::Refused { field: answer(&field), ours, theirs }
            }
        })
    }

    /// Takes as many of those that are left as a message has room for.
    fn ask_more(&mut self) {
        self.is_second = true;
        let mut bytes = 0;
        while let Some(&at) = self.left.last() {
            let schema = self.table.methods[at].takes.text().len();
            if schema > SCHEMA_MAX {
                self.left.pop();
                let (field, theirs) = ("the arguments".to_owned(), "another type".to_owned());
                let ours = format!(
                    "a type whose schema has {schema} bytes, of which {SCHEMA_MAX} are sent"
                );
                self.others.insert(at, OtherMethod::Refused { field, ours, theirs });
                continue;
            }
            bytes += schema;
            if bytes > ROUND_BYTES {
                break;
            }
            self.left.pop();
            self.asked.push(at);
        }
    }
}

fn checked(number: u8) -> Result<u8, CallError> {
    match usize::from(number) < METHODS_MAX {
        true => Ok(number),
        false => Err(unclear(&format!("the number {number} of a method"))),
    }
}

#[cold]
fn unclear(why: &str) -> CallError {
    CallError::Unreadable { why: format!("the interface: {why}"), call: UNTOLD }
}

/// A field of the arguments, which are a tuple, by the names that the arguments have here.
fn argument(names: &[&str], field: &str) -> String {
    let Some(field) = field.strip_prefix("tuple.") else { return "the arguments".to_owned() };
    let end = field.find(['.', '[']).unwrap_or(field.len());
    let (number, rest) = field.split_at(end);
    let name = number.parse().ok().and_then(|number: usize| names.get(number));
    format!("{}{rest}", name.unwrap_or(&number))
}

/// A field of what a method returns.
fn answer(field: &str) -> String {
    let end = field.find(['.', '[']).unwrap_or(field.len());
    format!("the answer{}", &field[end..])
}

/// Most bytes of schemas in one question; one schema has fewer.
const ROUND_BYTES: usize = 128 << 10;
