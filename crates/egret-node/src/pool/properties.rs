//! Properties of fabrics, by which a program chooses.

use std::collections::BTreeMap;
use std::fmt;

use egret_net::vi::{Limits, Reliability};
use egret_stream::Wire;

/// The properties of a fabric. Every fabric has the fields; further properties of a fabric have keys
/// of their own.
///
/// ```
/// use egret_node::node::{Latency, Properties, Property};
///
/// let light = Properties::network().latency(Latency::Memory).with("colour", "infrared");
/// assert!(light.has(&Property::RELIABLE));
/// assert!(light.has(&Property::new("colour", "infrared")));
/// assert_eq!(light.find("latency"), Some("memory"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub struct Properties {
    /// Whether the fabric itself loses nothing. Links lose nothing over any.
    pub reliable: bool,
    /// Whether the fabric itself keeps the order. Links keep it over any.
    pub ordered: bool,
    /// How long a short message takes.
    pub latency: Latency,
    /// Whether memory of a peer can be read and written by key.
    pub remote_memory: bool,
    /// Whether only nodes on one machine can meet there.
    pub same_machine: bool,
    /// Whether no other host can read what is sent: not the machines and the wires in between,
    /// nor other users of this one.
    pub private: bool,
    /// Whatever else there is to say.
    pub more: BTreeMap<String, String>,
}

/// How long a short message takes; [`Properties`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Wire)]
#[non_exhaustive]
pub enum Latency {
    /// About as long as memory takes: a microsecond or less.
    Memory,
    /// What a network and the system take: tens of microseconds.
    Network,
    /// Any time.
    Any,
}

impl Properties {
    /// A reliable network, and nothing more.
    #[must_use]
    pub const fn network() -> Self {
        Self {
            reliable: true,
            ordered: true,
            latency: Latency::Network,
            remote_memory: true,
            same_machine: false,
            private: false,
            more: BTreeMap::new(),
        }
    }

    /// The properties of a fabric of this project, or of a network with these limits.
    pub(crate) fn of(fabric: &str, limits: &Limits) -> Self {
        let reliable = limits.offers(Reliability::Delivery);
        let network =
            Self { reliable, ordered: reliable, remote_memory: reliable, ..Self::network() };
        let known = match fabric {
            // Who can read the memory of a process can do more than that.
            "shm" => {
                Self { latency: Latency::Memory, same_machine: true, private: true, ..network }
            }
            "sim" => Self { latency: Latency::Any, ..network },
            _ => network,
        };
        known.with("transfer_max", &limits.transfer_max.to_string())
    }

    /// With this latency.
    #[must_use]
    pub const fn latency(mut self, latency: Latency) -> Self {
        self.latency = latency;
        self
    }

    /// Private, or not.
    #[must_use]
    pub const fn private(mut self, private: bool) -> Self {
        self.private = private;
        self
    }

    /// For nodes of one machine only, or not.
    #[must_use]
    pub const fn same_machine(mut self, same_machine: bool) -> Self {
        self.same_machine = same_machine;
        self
    }

    /// With something else to say. What is called like a field is never found: the field is.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.more.insert(key.to_owned(), value.to_owned());
        self
    }

    /// What stands under a key; the fields have their names.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<&str> {
        let yes = |yes: bool| Some(if yes { "true" } else { "false" });
        match key {
            "reliable" => yes(self.reliable),
            "ordered" => yes(self.ordered),
            "latency" => Some(self.latency.name()),
            "remote_memory" => yes(self.remote_memory),
            "same_machine" => yes(self.same_machine),
            "private" => yes(self.private),
            other => self.more.get(other).map(String::as_str),
        }
    }

    /// Whether it gives what is required: a latency is a limit, and a shorter one is given as well; all else is equal
    /// or not.
    pub(crate) fn gives(&self, property: &Property) -> bool {
        let most = Latency::ALL.into_iter().find(|latency| latency.name() == property.value);
        match most.filter(|_| property.key == "latency") {
            Some(most) => self.latency <= most,
            None => self.has(property),
        }
    }

    /// Whether it has a property.
    #[must_use]
    pub fn has(&self, property: &Property) -> bool {
        self.find(&property.key) == Some(&property.value)
    }

    /// All of them, as keys and values.
    #[must_use]
    pub fn all(&self) -> Vec<Property> {
        let keys = FIELDS.iter().copied().chain(self.more.keys().map(String::as_str));
        keys.filter_map(|key| Some(Property::new(key, self.find(key)?))).collect()
    }
}

impl Latency {
    const ALL: [Self; 3] = [Self::Memory, Self::Network, Self::Any];

    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Any => "any",
        }
    }
}

/// A property of a fabric, to be [required](crate::node::Config::require) or
/// [rejected](crate::node::Config::reject) for a node, or [required](super::Requirement) for a link;
/// [`Properties`] has an example.
///
/// Who requires a latency is given that one or a shorter one. Any other property is given by what has it with just this
/// value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    key: std::borrow::Cow<'static, str>,
    value: std::borrow::Cow<'static, str>,
}

impl Property {
    /// Loses nothing.
    pub const RELIABLE: Self = Self::is("reliable");
    /// Keeps the order.
    pub const ORDERED: Self = Self::is("ordered");
    /// Takes about as long as memory.
    pub const FAST: Self = Self::known("latency", "memory");
    /// Memory of a peer can be read and written by key.
    pub const REMOTE_MEMORY: Self = Self::is("remote_memory");
    /// Is for nodes of one machine.
    pub const SAME_MACHINE: Self = Self::is("same_machine");
    /// No other process can read.
    pub const PRIVATE: Self = Self::is("private");

    /// What it is about.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn into_parts(self) -> (String, String) {
        (self.key.into_owned(), self.value.into_owned())
    }

    /// Any other.
    #[must_use]
    pub fn new(key: &str, value: &str) -> Self {
        Self { key: key.to_owned().into(), value: value.to_owned().into() }
    }

    const fn is(key: &'static str) -> Self {
        Self::known(key, "true")
    }

    const fn known(key: &'static str, value: &'static str) -> Self {
        use std::borrow::Cow::Borrowed;
        Self { key: Borrowed(key), value: Borrowed(value) }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

const FIELDS: [&str; 6] =
    ["reliable", "ordered", "latency", "remote_memory", "same_machine", "private"];
