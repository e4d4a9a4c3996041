//! What two ports agree on.

use std::collections::BTreeMap;
use std::fmt;

use egret_stream::Wire;

use crate::pool::{Property, Requirement};

/// What a send port and a receive port agree on before they are connected: how many ports there are at
/// each side, what the messages hold, in which order they come, and what the network may do to them.
///
/// A type is a value: a program makes it once, at both sides alike, and gives it to each port. Ports whose types
/// differ are not connected, and the error lists the [differences](Self::differences).
///
/// ```
/// use egret_node::port::PortType;
///
/// let results = PortType::many_to_one();
/// let state = PortType::one_to_many().unreliable().property("unit", "mm");
/// assert_eq!(
///     state.differences(&PortType::one_to_many().unreliable()),
///     ["property \"unit\": here \"mm\", there none"]
/// );
/// assert!(results.differences(&PortType::many_to_one().window(16)).is_empty(), "a matter of one side");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub struct PortType {
    pub(super) senders: PortCount,
    pub(super) receivers: PortCount,
    pub(super) payload: PortPayload,
    pub(super) order: PortOrder,
    pub(super) is_reliable: bool,
    pub(super) properties: BTreeMap<String, String>,
    /// What a fabric must give that carries the messages.
    pub(super) requirement: Requirement,
    /// Messages of one connection that may wait to be received.
    pub(super) window: u32,
    /// Upcalls of one port that may run at once.
    pub(super) upcalls: u32,
}

/// How many ports there may be at one side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub(super) enum PortCount {
    One,
    Many,
}

/// What messages hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub(super) enum PortPayload {
    Bytes,
    Objects,
    Graphs,
}

/// In which order messages are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub(super) enum PortOrder {
    Fifo,
    Unordered,
}

impl PortType {
    const fn of(senders: PortCount, receivers: PortCount) -> Self {
        Self {
            senders,
            receivers,
            payload: PortPayload::Objects,
            order: PortOrder::Fifo,
            is_reliable: true,
            properties: BTreeMap::new(),
            requirement: Requirement::ANY,
            window: WINDOW,
            upcalls: 1,
        }
    }

    /// One send port to one receive port: each of them has one connection at a time.
    #[must_use]
    pub const fn one_to_one() -> Self {
        Self::of(PortCount::One, PortCount::One)
    }

    /// One send port to any number of receive ports, of which each has this one sender.
    #[must_use]
    pub const fn one_to_many() -> Self {
        Self::of(PortCount::One, PortCount::Many)
    }

    /// Any number of send ports to one receive port; each send port has one connection.
    #[must_use]
    pub const fn many_to_one() -> Self {
        Self::of(PortCount::Many, PortCount::One)
    }

    /// Any number of send ports to any number of receive ports.
    #[must_use]
    pub const fn many_to_many() -> Self {
        Self::of(PortCount::Many, PortCount::Many)
    }

    /// Messages are bytes and arrays, without objects.
    #[must_use]
    pub const fn bytes(mut self) -> Self {
        self.payload = PortPayload::Bytes;
        self
    }

    /// Messages hold values of any type that derives [`Wire`](egret_stream::Wire); as they do if nothing is said.
    #[must_use]
    pub const fn objects(mut self) -> Self {
        self.payload = PortPayload::Objects;
        self
    }

    /// Messages hold [graphs](egret_stream::graph::Graph).
    #[must_use]
    pub const fn graphs(mut self) -> Self {
        self.payload = PortPayload::Graphs;
        self
    }

    /// Messages of one connection may overtake each other. They are received once all the same.
    #[must_use]
    pub const fn unordered(mut self) -> Self {
        self.order = PortOrder::Unordered;
        self
    }

    /// Messages may be lost, and overtake each other; none comes twice. They have 4 KB at most
    /// ([`DATAGRAM_MAX`](super::DATAGRAM_MAX)) and are sent without waiting: for what is stale soon.
    #[must_use]
    pub const fn unreliable(mut self) -> Self {
        self.is_reliable = false;
        self
    }

    /// A property of the program's own, under a key: both sides must say the same.
    #[must_use]
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.properties.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Requires a property of the fabric that carries the messages. A port is not made if no fabric of its node has it, and receives
    /// over those that have.
    ///
    /// ```
    /// use egret_net::rt::Deadline;
    /// use egret_node::node::Property;
    /// use egret_node::port::{PortError, PortType};
    ///
    /// let pool = egret_node::local::pool(2)?;
    /// let secrets = PortType::many_to_one().require(Property::PRIVATE);
    /// let sink = pool[0].receive_port::<String>("secrets", &secrets)?;
    /// let mut port = pool[1].send_port::<String>(&secrets)?;
    /// port.connect("secrets", Deadline::DEFAULT)?;
    /// assert_eq!(port.fabric(sink.id()), Some("shm")); // which does not leave the machine
    ///
    /// let red = PortType::many_to_one().require(Property::new("colour", "red"));
    /// let why = pool[1].send_port::<String>(&red).unwrap_err();
    /// assert!(matches!(why, PortError::Unsupported { .. }), "{why}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn require(mut self, property: Property) -> Self {
        self.requirement = std::mem::take(&mut self.requirement).require(property);
        self
    }

    /// Prefers a fabric, of those that give what is required. It is the send port's type that says so.
    #[must_use]
    pub fn prefer(mut self, fabric: &str) -> Self {
        self.requirement = std::mem::take(&mut self.requirement).prefer(fabric);
        self
    }

    /// Lets so many messages of each connection wait at the receive port, instead of 256. It is the receive
    /// port's type that says so.
    ///
    /// # Panics
    ///
    /// If that is none.
    #[must_use]
    pub const fn window(mut self, messages: u32) -> Self {
        assert!(messages > 0, "a window of nothing lets nothing through");
        self.window = messages;
        self
    }

    /// Lets so many upcalls of a receive port run at once, instead of one; those of one connection run one at a time.
    ///
    /// # Panics
    ///
    /// If that is none.
    #[must_use]
    pub const fn concurrent_upcalls(mut self, upcalls: u32) -> Self {
        assert!(upcalls > 0, "without upcalls nothing is received");
        self.upcalls = upcalls;
        self
    }

    /// What is different, in words; nothing if ports of the two types can be connected. How many messages may wait, how many
    /// upcalls may run and which fabric is preferred is the affair of one side.
    #[must_use]
    pub fn differences(&self, there: &Self) -> Vec<String> {
        let mut all = Vec::new();
        let mut compare = |what: &str, ours: String, theirs: String| {
            if ours != theirs {
                all.push(format!("{what}: here {ours}, there {theirs}"));
            }
        };
        compare("send ports", self.senders.to_string(), there.senders.to_string());
        compare("receive ports", self.receivers.to_string(), there.receivers.to_string());
        compare("payload", self.payload.to_string(), there.payload.to_string());
        compare("order", self.order.to_string(), there.order.to_string());
        let loss = |is_reliable| if is_reliable { "reliable" } else { "unreliable" }.to_owned();
        compare("messages", loss(self.is_reliable), loss(there.is_reliable));
        let needs = |of: &Self| of.requirement.without_preference().to_string();
        compare("fabric", needs(self), needs(there));
        let keys = self.properties.keys().chain(there.properties.keys());
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let shown = |of: &Self| {
                of.properties.get(key).map_or_else(|| "none".to_owned(), |it| format!("{it:?}"))
            };
            compare(&format!("property {key:?}"), shown(self), shown(there));
        }
        all
    }
}

impl fmt::Display for PortCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "one",
            Self::Many => "many",
        })
    }
}

impl fmt::Display for PortPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes",
            Self::Objects => "objects",
            Self::Graphs => "graphs",
        })
    }
}

impl fmt::Display for PortOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fifo => "fifo",
            Self::Unordered => "unordered",
        })
    }
}

/// Messages of one connection that may wait to be received, if nothing is said.
const WINDOW: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_type_makes_a_difference_of_its_own() {
        let one = PortType::one_to_one();
        let differs = |other: PortType, what: &str| {
            let all = one.differences(&other);
            assert_eq!(all.len(), 1, "{all:?}");
            assert!(all[0].starts_with(what), "{all:?}");
        };
        differs(PortType::many_to_one(), "send ports: here one, there many");
        differs(PortType::one_to_many(), "receive ports: here one, there many");
        differs(PortType::one_to_one().bytes(), "payload: here objects, there bytes");
        differs(PortType::one_to_one().graphs(), "payload: here objects, there graphs");
        differs(PortType::one_to_one().unordered(), "order: here fifo, there unordered");
        differs(PortType::one_to_one().unreliable(), "messages: here reliable, there unreliable");
        differs(
            PortType::one_to_one().property("a", "b"),
            "property \"a\": here none, there \"b\"",
        );
        let private = PortType::one_to_one().require(Property::PRIVATE);
        differs(private, "fabric: here any fabric, there private=true");
        assert!(one.differences(&PortType::one_to_one().prefer("tcp")).is_empty());
        assert!(
            one.differences(&PortType::one_to_one().window(3).concurrent_upcalls(2)).is_empty()
        );
        let all = PortType::many_to_many().bytes().unordered().unreliable().property("a", "b");
        assert_eq!(one.differences(&all).len(), 6);
    }
}
