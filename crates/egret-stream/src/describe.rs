//! What a type looks like on the wire, in words and as 64 bits.

use std::any::type_name;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use egret_net::buf;

use crate::fault::{Fault, planted};
use crate::wire::Wire;

mod plan;
mod tree;

pub(crate) use plan::{FieldStep, PlanSteps, tag_bytes};
pub use plan::{PlanCursor, ReadPlan};
use tree::BY_MODULE;
pub(crate) use tree::{Form, SchemaTree, Takes};

/// The structure of a type: names, order, types and how they are represented.
///
/// Two sides can read each other if their schemas are equal; their
/// [fingerprints](fingerprint) tell, and [`difference`](Self::difference) says what
/// is different.
///
/// ```
/// use egret_stream::{Schema, Wire};
///
/// mod here {
///     #[derive(egret_stream::Wire)]
///     pub struct Order { pub id: u32, pub prices: Vec<f64> }
/// }
/// mod there {
///     #[derive(egret_stream::Wire)]
///     pub struct Order { pub id: u32, pub prices: Vec<f32> }
/// }
/// let (here, there) = (Schema::of::<here::Order>(), Schema::of::<there::Order>());
/// assert_eq!(
///     here.difference(&there).unwrap(),
///     "Order.prices[]: here it is `f64`, there `f32`"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    text: String,
    /// The lines of fields that a reader can do without; of a schema that came from elsewhere they
    /// are not known.
    defaulted: Vec<usize>,
}

impl Schema {
    /// The schema of `T`.
    #[must_use]
    pub fn of<T: Wire + ?Sized>() -> Self {
        let mut describe = Describe::default();
        T::describe(&mut describe);
        Self { text: describe.text, defaulted: describe.defaulted }
    }

    /// A schema that came from elsewhere, as [text](Self::as_str).
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self { text: text.to_owned(), defaulted: Vec::new() }
    }

    /// One line for each type, indented below what it is part of.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether values hold others of which a trait alone is known, whose types are told by [names](crate::Names).
    ///
    /// ```
    /// assert!(!egret_stream::Schema::of::<Vec<String>>().has_dynamic());
    /// ```
    #[must_use]
    pub fn has_dynamic(&self) -> bool {
        let of_line = |line: &str| {
            line.trim_start().rsplit(": ").next().is_some_and(|word| word.starts_with("dyn "))
        };
        self.text.lines().any(of_line)
    }

    /// 64 bits that differ if the schema does.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let hash = buf::fingerprint(buf::FINGERPRINT_SEED, self.text.as_bytes());
        // FNV alone leaves the upper bits to the last few characters.
        let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }

    /// The first difference to the schema of the other side, in words.
    #[must_use]
    pub fn difference(&self, there: &Self) -> Option<String> {
        let (mut ours, mut theirs) = (self.text.lines(), there.text.lines());
        let mut path = Vec::new();
        loop {
            let (our, their) = (ours.next(), theirs.next());
            if our.is_none() && their.is_none() {
                return None;
            }
            let line = our.or(their).unwrap_or_default();
            enter(&mut path, line);
            if our != their {
                return Some(tell(&path, our, their));
            }
        }
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Goes to `line`: its step replaces those at its depth and below.
fn enter<'t>(path: &mut Vec<(usize, &'t str)>, line: &'t str) {
    let text = line.trim_start();
    let depth = line.len() - text.len();
    path.retain(|(above, _)| *above < depth);
    path.push((depth, text));
}

/// `Order.prices[]: here it is …, there …`
fn tell(path: &[(usize, &str)], ours: Option<&str>, theirs: Option<&str>) -> String {
    let mut place = String::new();
    for (at, (_, text)) in path.iter().enumerate() {
        let is_last = at + 1 == path.len();
        match text.split_once(": ") {
            Some((name, _)) => write!(place, ".{name}").expect("a string takes it"),
            None if at == 0 && !is_last => {
                place.push_str(text.split(' ').nth(1).unwrap_or(text));
            }
            None if at > 0 => place.push_str("[]"),
            None => {}
        }
    }
    let is = |line: Option<&str>| line.map(|line| line.trim_start().to_owned());
    let what = |line: &Option<String>, full: bool| match line {
        None => "nothing more".to_owned(),
        Some(line) if full => format!("`{line}`"),
        Some(line) => format!("`{}`", line.split_once(": ").map_or(&line[..], |(_, ty)| ty)),
    };
    let (ours, theirs) = (is(ours), is(theirs));
    let name = |line: &Option<String>| {
        line.as_ref().and_then(|line| line.split_once(": ").map(|(name, _)| name.to_owned()))
    };
    let renamed = name(&ours) != name(&theirs);
    if renamed {
        let end = place.rfind('.').unwrap_or(0);
        place.truncate(end);
    }
    let place = if place.is_empty() { "the whole".to_owned() } else { place };
    format!("{place}: here it is {}, there {}", what(&ours, renamed), what(&theirs, renamed))
}

/// The fingerprint of a type's [`Schema`]; walked once for each type.
#[must_use]
pub fn fingerprint<T: Wire + ?Sized>() -> u64 {
    let key = (type_name::<T>(), T::describe as fn(&mut Describe) as usize);
    let known = |walked: &BTreeMap<_, _>| walked.get(&key).copied();
    if let Some(found) = known(&WALKED.lock().unwrap_or_else(PoisonError::into_inner)) {
        return found;
    }
    let walked = Schema::of::<T>().fingerprint();
    WALKED.lock().unwrap_or_else(PoisonError::into_inner).insert(key, walked);
    walked
}

static WALKED: Mutex<BTreeMap<(&'static str, usize), u64>> = Mutex::new(BTreeMap::new());

/// Takes the description of a type: see [`Wire::describe`].
#[derive(Debug, Default)]
pub struct Describe {
    text: String,
    depth: usize,
    /// The name of the field that comes next.
    label: Option<String>,
    /// The next line is of a field that a reader can do without.
    is_defaulted: bool,
    /// The next line is of a field that travels by a module.
    is_by_module: bool,
    /// The lines so far, and which of them are of fields that a reader can do without.
    lines: usize,
    defaulted: Vec<usize>,
    /// Types with a name that were described, in order.
    named: Vec<&'static str>,
}

impl Describe {
    /// A type without parts.
    pub fn word(&mut self, word: &str) {
        let indent = self.depth * 2;
        let label = self.label.take().filter(|_| !planted(Fault::Nameless)).unwrap_or_default();
        let how = if std::mem::take(&mut self.is_by_module) { BY_MODULE } else { "" };
        writeln!(self.text, "{:indent$}{label}{word}{how}", "").expect("a string takes it");
        if std::mem::take(&mut self.is_defaulted) {
            self.defaulted.push(self.lines);
        }
        self.lines += 1;
    }

    /// A type with parts that have no names.
    pub fn group(&mut self, word: &str, parts: impl FnOnce(&mut Self)) {
        self.word(word);
        self.depth += 1;
        parts(self);
        self.depth -= 1;
    }

    /// A type with a name, which may be part of itself: where it is met again there
    /// is only a reference.
    pub fn named<T: ?Sized>(&mut self, kind: &str, name: &str, parts: impl FnOnce(&mut Self)) {
        let full = type_name::<T>();
        if let Some(at) = self.named.iter().position(|met| *met == full) {
            return self.word(&format!("{kind} {name} again ({at})"));
        }
        self.named.push(full);
        self.group(&format!("{kind} {name}"), parts);
    }

    /// A type that travels as the bytes it is in memory.
    pub fn plain<T: buf::Plain>(&mut self) {
        let (size, align) = (size_of::<T>(), align_of::<T>());
        let (name, print) = (T::kind().name, T::FINGERPRINT);
        self.word(&format!("plain {name} {print:016x} of {size} bytes at {align}"));
    }

    /// A part with a name.
    pub fn field<T: Wire + ?Sized>(&mut self, name: &str) {
        self.label(name);
        T::describe(self);
    }

    /// Names the part that comes next.
    pub fn label(&mut self, name: &str) {
        self.label = Some(format!("{name}: "));
    }

    /// Says that a reader makes the part that comes next where the writer does not have it.
    pub fn defaulted(&mut self) {
        self.is_defaulted = true;
    }

    /// Says that the part that comes next travels by the functions of a module.
    pub fn by_module(&mut self) {
        self.is_by_module = true;
    }
}
