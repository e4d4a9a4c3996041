//! The numbers of types of which only a trait is known.

use std::any::{Any, TypeId, type_name};
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{DynamicEntry, DynamicReaders, TypeOf, find};
use crate::describe::{ReadPlan, Schema};
use crate::error::WireError;
use crate::fault::{Fault, planted};
use crate::reader::Reader;
use crate::wire::{Stop, Written};
use crate::writer::Writer;

/// The numbers that types have on one connection, in one direction.
///
/// A writer that has none explains each type where it is first met, so that its
/// stream can be read by itself. One that is given those of a connection writes
/// the number alone wherever the other side surely has the explanation, which crosses the
/// connection once. How it crosses depends on the connection:
///
/// | | made by | the explanation |
/// |---|---|---|
/// | announced | [`new`](Self::new) | travels by itself, ahead of the first message that needs it: [`news`](Self::news) at the sender, [`learn`](Self::learn) at the receiver. Not for a flushing writer, whose chunks leave before |
/// | in order | [`in_order`](Self::in_order) | stands where the type is first met. Every message arrives, in order, and is read |
/// | acknowledged | [`until_acknowledged`](Self::until_acknowledged) | stands in each message, until [`acknowledge`](Self::acknowledge) says that one of them has arrived; if nothing ever is acknowledged, as on ports that lose messages, in each |
///
/// A receiver that comes later learns the [`table`](Self::table). Of a type that differs at the two sides, the explanation has the
/// structure, so that it is read by a [plan](ReadPlan).
///
/// ```
/// # use egret_stream::{Dynamic, Names, Reader, Wire, Writer, dynamic, register};
/// # trait Shape: Dynamic {}
/// # dynamic!(Shape);
/// # #[derive(Wire)]
/// # struct Square(f64);
/// # impl Shape for Square {}
/// # register!(Square as dyn Shape);
/// let shape: Box<dyn Shape> = Box::new(Square(2.0));
/// let mut writer = Writer::new().with_names(Names::new());
/// writer.write(&shape)?;
/// let message = writer.to_vec();
/// let news = writer.take_names().and_then(|mut names| names.news());
///
/// let mut known = Names::new();
/// known.learn(&news.expect("a type that the reader does not know yet"))?;
/// let back: Box<dyn Shape> = Reader::new(&message).with_names(known).read()?;
///
/// // Where messages arrive in order, the first explains and the others need not.
/// let (mut here, mut there) = (Names::in_order(), Names::in_order());
/// let mut sizes = Vec::new();
/// for _ in 0..2 {
///     let mut writer = Writer::new().with_names(here);
///     writer.write(&shape)?;
///     here = writer.take_names().expect("they were given");
///     let message = writer.to_vec();
///     let mut reader = Reader::new(&message).with_names(there);
///     let back: Box<dyn Shape> = reader.read()?;
///     there = reader.take_names().expect("they were given");
///     sizes.push(message.len());
/// }
/// assert_eq!(sizes[1], 4 + 8, "a number and a side");
/// # let _ = back;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Names {
    known: Vec<KnownType>,
    numbers: BTreeMap<TypeId, u32>,
    scope: NamesScope,
    /// How many the other side was told, or how many a finished value needs.
    settled: usize,
    /// How many there were when the message began.
    before: usize,
    /// How many the other side has.
    acknowledged: usize,
    /// Those explained in this message, of which so many by values that are finished.
    explained: (Vec<u32>, usize),
}

/// How far numbers reach, and how they are explained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum NamesScope {
    /// One stream, which explains them itself.
    #[default]
    Stream,
    /// A connection, apart from the messages.
    Announced,
    /// A connection, in the first message.
    InOrder,
    /// A connection, in each message until it is acknowledged.
    Acknowledged,
}

#[derive(Debug)]
struct KnownType {
    id: Option<TypeId>,
    name: Cow<'static, str>,
    fingerprint: u64,
    /// Its structure: here, or at the writer until that is of no use.
    schema: TypeSchema,
    /// The way to read it that was looked up last.
    entry: Option<DynamicEntry>,
    /// How to read it if it is another version.
    plan: Option<ReadPlan>,
}

/// The structure of a type.
#[derive(Debug)]
enum TypeSchema {
    Here(fn() -> Schema),
    There(Schema),
    Unknown,
}

impl Names {
    /// No names yet; they are announced.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No names yet, of a connection on which each message arrives and is read, in order.
    ///
    /// A receiver that could not read a message may have missed an explanation in its rest, and says
    /// [`NoSuchType`](WireError::NoSuchType) when its number comes: it needs the
    /// [`table`](Self::table) then.
    #[must_use]
    pub fn in_order() -> Self {
        Self { scope: NamesScope::InOrder, ..Self::default() }
    }

    /// No names yet, of a connection that may lose or overtake messages.
    #[must_use]
    pub fn until_acknowledged() -> Self {
        Self { scope: NamesScope::Acknowledged, ..Self::default() }
    }

    /// How many types have a number: what to [acknowledge](Self::acknowledge) when the message that was written last
    /// has arrived.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no type has a number.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The other side has read a message after which there were `count` types: their numbers need
    /// no explanation any more.
    pub fn acknowledge(&mut self, count: usize) {
        self.acknowledged = self.acknowledged.max(count.min(self.known.len()));
    }

    /// What the other side must [learn](Self::learn) before it reads what was
    /// written since the last time; `None` if nothing.
    pub fn news(&mut self) -> Option<Vec<u8>> {
        if self.scope != NamesScope::Announced || self.settled == self.known.len() {
            return None;
        }
        let news = self.told(self.settled);
        self.settled = self.known.len();
        Some(news)
    }

    /// What a receiver that comes now must [learn](Self::learn): all types that have a number.
    #[must_use]
    pub fn table(&self) -> Vec<u8> {
        self.told(0)
    }

    fn told(&self, from: usize) -> Vec<u8> {
        let schemas: Vec<String> = self.known[from..].iter().map(KnownType::structure).collect();
        let fresh: Vec<(u32, u64, &str, &str)> = (0..)
            .zip(&self.known)
            .skip(from)
            .zip(&schemas)
            .map(|((number, known), schema)| (number, known.fingerprint, &*known.name, &**schema))
            .collect();
        let mut writer = Writer::new();
        writer.write(&fresh).expect("numbers and names can be written");
        writer.to_vec()
    }

    /// Takes what the other side's [`news`](Self::news) or [`table`](Self::table) tell.
    ///
    /// # Errors
    ///
    /// If they are not understood, or too many; nothing is learned then.
    pub fn learn(&mut self, news: &[u8]) -> Result<(), WireError> {
        let fresh: Vec<(u32, u64, String, String)> = Reader::new(news).read_last()?;
        let expected = self.known.len()..;
        let in_order = fresh.iter().zip(expected).all(|((number, ..), at)| *number as usize == at);
        if !in_order || self.known.len() + fresh.len() > TYPES_MAX {
            return Err(WireError::Custom("names of types that do not follow".to_owned()));
        }
        let known = |(_, fingerprint, name, schema): (_, _, _, String)| {
            KnownType::there(fingerprint, name, Some(&schema))
        };
        self.known.extend(fresh.into_iter().map(known));
        self.settled = self.known.len();
        Ok(())
    }

    pub(crate) fn of_connection(mut self) -> Self {
        if self.scope == NamesScope::Stream {
            self.scope = NamesScope::Announced;
        }
        self.before = self.known.len();
        self.explained = (Vec::new(), 0);
        self
    }

    pub(crate) fn is_of_connection(&self) -> bool {
        self.scope != NamesScope::Stream
    }

    /// A value is written: what it explained stays explained.
    pub(crate) fn settle(&mut self) {
        if matches!(self.scope, NamesScope::Stream | NamesScope::InOrder) {
            self.settled = self.known.len();
        }
        self.explained.1 = self.explained.0.len();
    }

    /// A value was not written: what it explained was not.
    pub(crate) fn undo(&mut self) {
        if matches!(self.scope, NamesScope::Stream | NamesScope::InOrder) {
            self.forget(self.settled);
        }
        self.explained.0.truncate(self.explained.1);
    }

    /// The stream begins anew.
    pub(crate) fn clear_inline(&mut self) {
        match self.scope {
            NamesScope::Stream => *self = Self::default(),
            NamesScope::InOrder => self.forget(self.before),
            NamesScope::Announced | NamesScope::Acknowledged => {}
        }
        self.explained = (Vec::new(), 0);
    }

    fn forget(&mut self, from: usize) {
        for known in self.known.drain(from.min(self.known.len())..) {
            if let Some(id) = known.id {
                self.numbers.remove(&id);
            }
        }
        self.settled = self.settled.min(from);
    }

    /// The number of a type, and whether it has to be explained here.
    fn number(&mut self, of: &TypeOf) -> (u32, bool) {
        let met = self.numbers.get(&of.id).copied();
        let number = met.unwrap_or_else(|| {
            let number = u32::try_from(self.known.len()).expect("fewer than 2^32 types");
            self.known.push(KnownType::here(of));
            self.numbers.insert(of.id, number);
            number
        });
        let is_explained = match self.scope {
            NamesScope::Stream | NamesScope::InOrder => met.is_some(),
            NamesScope::Announced => true,
            NamesScope::Acknowledged => {
                let is_known = (number as usize) < self.acknowledged;
                is_known || self.explained.0.contains(&number) || planted(Fault::TooBare)
            }
        };
        if !is_explained && self.scope == NamesScope::Acknowledged {
            self.explained.0.push(number);
        }
        (number, !is_explained)
    }

    /// Whether an explanation says itself that it is one, and has the structure of the type.
    fn is_explained_in_full(&self) -> bool {
        matches!(self.scope, NamesScope::InOrder | NamesScope::Acknowledged)
    }

    /// Takes the explanation of type `number`.
    fn define(&mut self, number: usize, known: KnownType) {
        while self.known.len() < number {
            // Explained in a message that has not arrived.
            self.known.push(KnownType::there(0, String::new(), None));
        }
        match self.known.get_mut(number) {
            None => self.known.push(known),
            Some(before) if before.is_like(&known) => {}
            Some(before) => *before = known,
        }
    }

    /// How to read type `number` as `D`, and by which plan if it differs.
    fn ways<D: ?Sized + 'static>(
        &mut self,
        number: u32,
    ) -> Result<(&'static DynamicReaders<D>, Option<ReadPlan>), WireError> {
        let known = self.known.get_mut(number as usize).filter(|known| !known.name.is_empty());
        let known = known.ok_or(WireError::NoSuchType(number))?;
        let wanted = TypeId::of::<D>();
        let is_found = |entry: &DynamicEntry| (entry.wanted)() == wanted;
        let entry = match known.entry.filter(is_found) {
            Some(entry) => entry,
            None => known.look_up::<D>()?,
        };
        known.entry = Some(entry);
        if let TypeSchema::There(_) = known.schema {
            known.schema = TypeSchema::Unknown;
        }
        let ways: &'static dyn Any = entry.ways;
        let ways = ways.downcast_ref().ok_or_else(|| known.is_no::<D>())?;
        Ok((ways, known.plan.clone()))
    }
}

impl KnownType {
    fn here(of: &TypeOf) -> Self {
        let (name, schema) = (Cow::Borrowed(of.name), TypeSchema::Here(of.schema));
        let fingerprint = (of.fingerprint)();
        Self { id: Some(of.id), name, fingerprint, schema, entry: None, plan: None }
    }

    fn there(fingerprint: u64, name: String, schema: Option<&str>) -> Self {
        let schema = match schema {
            Some(text) => TypeSchema::There(Schema::from_text(text)),
            None => TypeSchema::Unknown,
        };
        Self { id: None, name: Cow::Owned(name), fingerprint, schema, entry: None, plan: None }
    }

    fn is_like(&self, other: &Self) -> bool {
        (&self.name, self.fingerprint) == (&other.name, other.fingerprint)
    }

    /// Its structure as text.
    fn structure(&self) -> String {
        match &self.schema {
            TypeSchema::Here(schema) => schema().to_string(),
            TypeSchema::There(schema) => schema.to_string(),
            TypeSchema::Unknown => String::new(),
        }
    }

    fn look_up<D: ?Sized + 'static>(&mut self) -> Result<DynamicEntry, WireError> {
        let wanted = TypeId::of::<D>();
        let mut same_name = None;
        let found = find(|entry| {
            let is_named = (entry.name)() == self.name;
            same_name = same_name.or(is_named.then_some(*entry));
            is_named && (entry.wanted)() == wanted
        });
        let Some(entry) = found else {
            return Err(match same_name {
                Some(_) => self.is_no::<D>(),
                None => WireError::UnknownType(self.name.to_string()),
            });
        };
        let (theirs, ours) = (self.fingerprint, (entry.fingerprint)());
        if differ(theirs, ours) && self.plan.is_none() {
            let plan = match &self.schema {
                TypeSchema::There(there) => {
                    ReadPlan::of(there, &(entry.schema)()).map_err(|why| why.to_string())
                }
                _ => Err(format!("its fingerprint is {theirs:016x} there and {ours:016x} here")),
            };
            let name = || self.name.to_string();
            let differs = |difference| WireError::Differs { name: name(), difference };
            self.plan = Some(plan.map_err(differs)?);
        }
        Ok(entry)
    }

    fn is_no<D: ?Sized>(&self) -> WireError {
        WireError::NotA { name: self.name.to_string(), wanted: type_name::<D>() }
    }
}

/// Writes which type follows.
#[doc(hidden)]
pub fn write_type(of: &TypeOf, w: &mut Writer<'_>) -> Written {
    let names = w.names();
    let (number, is_new) = names.number(of);
    if !is_new {
        return w.array(number.to_le_bytes());
    }
    let in_full = names.is_explained_in_full();
    let mark = if in_full { EXPLAINED } else { 0 };
    w.array((number | mark).to_le_bytes())?;
    w.array((of.fingerprint)().to_le_bytes())?;
    w.length(of.name.len())?;
    w.copy(of.name.as_bytes())?;
    if in_full {
        let schema = (of.schema)();
        w.length(schema.as_str().len())?;
        w.copy(schema.as_str().as_bytes())?;
    }
    Ok(())
}

/// Reads which type follows, and how it becomes a `D`.
#[doc(hidden)]
pub fn read_type<D: ?Sized + 'static>(
    r: &mut Reader<'_>,
) -> Result<&'static DynamicReaders<D>, Stop> {
    let mut number = u32::from_le_bytes(r.array()?);
    let names = r.names();
    match names.is_explained_in_full() {
        true if number & EXPLAINED != 0 => {
            number &= !EXPLAINED;
            explained(r, number, true)?;
        }
        false if !names.is_of_connection() && number as usize == names.known.len() => {
            explained(r, number, false)?;
        }
        _ => {}
    }
    let (ways, plan) = match r.names().ways(number) {
        Ok(ways) => ways,
        Err(why) => return Err(r.fail(why)),
    };
    if let Some(cursor) = plan.as_ref().and_then(ReadPlan::whole) {
        r.plan_contents(cursor);
    }
    Ok(ways)
}

/// The explanation of a type.
fn explained(r: &mut Reader<'_>, number: u32, in_full: bool) -> Result<(), Stop> {
    let number = number as usize;
    if in_full && number >= TYPES_MAX {
        return Err(r.fail(WireError::Custom("names of too many types".to_owned())));
    }
    let fingerprint = u64::from_le_bytes(r.array()?);
    // The list of types may have room for as many again.
    let new = (number + 1).saturating_sub(r.names().known.len());
    r.charge::<Names>(2 * new * size_of::<KnownType>())?;
    let name = text(r)?;
    let schema = if in_full { Some(text(r)?) } else { None };
    r.names().define(number, KnownType::there(fingerprint, name, schema.as_deref()));
    Ok(())
}

fn text(r: &mut Reader<'_>) -> Result<String, Stop> {
    let len = r.length(1)?;
    match str::from_utf8(r.run(len)?) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(r.fail(WireError::NotUtf8)),
    }
}

fn differ(theirs: u64, ours: u64) -> bool {
    theirs != ours && !planted(Fault::AnyStructure)
}

/// In a number of a type, says that its explanation follows.
const EXPLAINED: u32 = 1 << 31;
/// How many types a connection may announce.
const TYPES_MAX: usize = 1 << 16;
