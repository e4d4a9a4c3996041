//! What a link, a call or a port needs of the fabric that carries it.

use std::fmt;

use egret_stream::Wire;

use super::{Properties, Property};

/// What is required of the fabric that leads to a node, and which fabric is preferred among those that give that. The
/// default is any fabric. [`NodeHandle::route_with`](crate::node::NodeHandle::route_with) chooses by it,
/// [`NodeHandle::link`](crate::node::NodeHandle::link) connects, and
/// [`NodeHandle::can`](crate::node::NodeHandle::can) says without a peer whether a node has such a fabric.
///
/// A fabric gives a property to two nodes if it gives that to both. An unknown fabric may be preferred: then the
/// preference says nothing.
///
/// ```
/// use egret_node::node::{NodeError, Property, Requirement};
///
/// let pool = egret_node::local::pool(2)?;
/// let (here, there) = (&pool[0], pool[1].id());
///
/// let quiet = Requirement::default().require(Property::PRIVATE).prefer("tcp");
/// assert_eq!(quiet.to_string(), "private=true, tcp preferred");
/// assert_eq!(here.route_with(there, &quiet)?.fabric, "tcp");
///
/// let red = Requirement::from(Property::new("colour", "red"));
/// let why = here.route_with(there, &red).unwrap_err();
/// assert!(matches!(&why, NodeError::Unsuitable { fabrics, .. } if fabrics.len() >= 2));
/// assert!(why.to_string().contains("tcp: it has no colour"), "{why}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Wire)]
#[must_use]
pub struct Requirement {
    /// Keys and values, in order and each once.
    needed: Vec<(String, String)>,
    preferred: Option<String>,
}

impl Requirement {
    /// Any fabric.
    pub(crate) const ANY: Self = Self { needed: Vec::new(), preferred: None };

    /// With another property that the fabric must give.
    pub fn require(mut self, property: Property) -> Self {
        self.add(property.into_parts());
        self
    }

    /// Takes this fabric if it gives what is required and connects, in place of a preference before.
    pub fn prefer(mut self, fabric: &str) -> Self {
        self.preferred = Some(fabric.to_owned());
        self
    }

    /// What this and another require, with the preference of the other if it has one.
    #[doc(hidden)]
    pub fn and(mut self, other: &Self) -> Self {
        other.needed.iter().for_each(|property| self.add(property.clone()));
        self.preferred = other.preferred.clone().or(self.preferred);
        self
    }

    /// Whether any fabric will do, and none is preferred.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        self.needed.is_empty() && self.preferred.is_none()
    }

    /// The required properties that a fabric with these properties does not give.
    #[must_use]
    pub fn missing(&self, properties: &Properties) -> Vec<Property> {
        let all = self.needed.iter().map(|(key, value)| Property::new(key, value));
        all.filter(|needed| !properties.gives(needed)).collect()
    }

    /// The required properties alone.
    pub(crate) fn without_preference(&self) -> Self {
        Self { needed: self.needed.clone(), preferred: None }
    }

    /// The fabric that is preferred.
    pub(crate) fn preferred(&self) -> Option<&str> {
        self.preferred.as_deref()
    }

    /// Whether a fabric must have some property.
    pub(crate) const fn has_needed(&self) -> bool {
        !self.needed.is_empty()
    }

    fn add(&mut self, property: (String, String)) {
        if let Err(at) = self.needed.binary_search(&property) {
            self.needed.insert(at, property);
        }
    }
}

impl From<Property> for Requirement {
    fn from(property: Property) -> Self {
        Self::default().require(property)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = self.needed.iter().map(|(key, value)| format!("{key}={value}"));
        let preferred = self.preferred.iter().map(|fabric| format!("{fabric} preferred"));
        let all: Vec<_> = needed.chain(preferred).collect();
        f.write_str(if all.is_empty() { "any fabric" } else { "" })?;
        f.write_str(&all.join(", "))
    }
}

/// Why a fabric with these properties does not give what is required; none if it does. `who` has the fabric.
pub(crate) fn lacking(
    requirement: &Requirement,
    properties: &Properties,
    who: &str,
) -> Option<String> {
    let missing = requirement.missing(properties);
    let told = missing.iter().map(|needed| {
        let key = needed.key();
        let has = match properties.find(key) {
            Some(value) => format!("{who} has {key}={value}"),
            None => format!("{who} has no {key}"),
        };
        format!("{has}, and {needed} is required")
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Latency;

    #[test]
    fn the_order_of_properties_makes_no_other_requirement() {
        let one = Requirement::from(Property::PRIVATE).require(Property::FAST);
        let other = Requirement::from(Property::FAST).require(Property::PRIVATE);
        assert_eq!(one, other);
        assert_eq!(one.clone().require(Property::FAST), one, "once is enough");
        assert_eq!(one.to_string(), "latency=memory, private=true");
        let both = Requirement::from(Property::FAST).prefer("shm");
        let both = both.and(&Requirement::from(Property::PRIVATE).prefer("tcp"));
        assert_eq!(both, one.clone().prefer("tcp"));
        assert_eq!(Requirement::default().prefer("tcp").and(&one), one.prefer("tcp"));
        assert_eq!(Requirement::default().to_string(), "any fabric");
        assert!(Requirement::default().is_any());
        assert!(!Requirement::default().prefer("tcp").is_any());
    }

    #[test]
    fn a_requirement_arrives_as_it_was_sent() {
        let sent = Requirement::from(Property::new("colour", "red")).prefer("lamp");
        let mut writer = egret_stream::Writer::new();
        writer.write(&sent).unwrap();
        assert_eq!(egret_stream::read::<Requirement>(&writer.to_vec()).unwrap(), sent);
    }

    #[test]
    fn a_shorter_latency_is_given_and_other_values_are_equal_or_not() {
        let latency = |name| Requirement::from(Property::new("latency", name));
        let with = |latency| Properties::network().latency(latency);
        for (needed, least) in
            [("memory", Latency::Memory), ("network", Latency::Network), ("any", Latency::Any)]
        {
            for given in [Latency::Memory, Latency::Network, Latency::Any] {
                let is_given = latency(needed).missing(&with(given)).is_empty();
                assert_eq!(is_given, given <= least, "{given:?} for {needed}");
            }
        }
        assert_eq!(latency("soon").missing(&with(Latency::Memory)).len(), 1, "no such latency");
        let quiet = Properties::network().private(true).with("colour", "red").with("private", "no");
        let all = Requirement::from(Property::PRIVATE).require(Property::new("colour", "red"));
        assert_eq!(all.missing(&quiet), []);
        let told = lacking(&all, &Properties::network().with("colour", "blue"), "it").unwrap();
        let [colour, private] = [
            "it has colour=blue, and colour=red is required",
            "it has private=false, and private=true is required",
        ];
        assert_eq!(told, format!("{colour}; {private}"));
        let told = lacking(&all, &quiet.with("colour", "green"), "rank 3").unwrap();
        assert_eq!(told, "rank 3 has colour=green, and colour=red is required");
    }
}
