//! What `egret info --hosts` asks of a machine, and what the machine answers.
//!
//! Every answer is a frame behind [`GREETING`]. The two sides may be of different versions: fields and kinds are added, never
//! renamed, and a field that is not there has its default.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// What a machine is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum InfoOrder {
    /// Say what the machine is.
    Report,
    /// Say what the time is.
    Time,
    /// Listen as a node would, at this place if one is said, and answer with the token those who connect.
    Listen { place: Option<String>, token: PairToken },
    /// Try to reach those who listen.
    Reach { peers: Vec<PeerPorts>, token: PairToken },
}

/// What the machine answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum InfoAnswer {
    Report(Box<HostReport>),
    /// Nanoseconds since 1970, by the clock of the machine.
    Time(u64),
    Listens(ListenPorts),
    /// For each of those it was to reach.
    Reached(Vec<PeerWays>),
}

/// A machine, as it says itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct HostReport {
    /// The version of egret there.
    pub(super) egret: String,
    pub(super) optimized: bool,
    /// By which a launcher and an outpost understand each other.
    pub(super) job_protocol: u32,
    /// By which nodes understand each other.
    pub(super) wire_protocol: u16,
    pub(super) architecture: String,
    /// `little` or `big`.
    pub(super) byte_order: String,
    pub(super) cores: usize,
    pub(super) fabrics: Vec<HostFabric>,
    /// What the kernel does not grant of what shared memory uses.
    pub(super) denied: Vec<String>,
    /// That a process may lock; absent if there is no such limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lockable_bytes: Option<u64>,
    /// That a process may have open; absent if there is no such limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files: Option<u64>,
    /// To which the process may raise that by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files_max: Option<u64>,
    /// The first and the last port that the system chooses.
    pub(super) ports: (u16, u16),
    /// The address of the machine that the connection with it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<String>,
    /// The address of the machine that asks, in the same connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked_from: Option<String>,
}

/// A fabric there, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostFabric {
    pub(super) name: String,
    pub(super) available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

/// Where a machine listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListenPorts {
    pub(super) tcp: ListenPort,
    pub(super) udp: ListenPort,
}

/// A port, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListenPort {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

impl From<Result<SocketAddr, String>> for ListenPort {
    fn from(opened: Result<SocketAddr, String>) -> Self {
        match opened {
            Ok(address) => Self { address: Some(address), why: None },
            Err(why) => Self { address: None, why: Some(why) },
        }
    }
}

/// A machine to be reached.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct PeerPorts {
    /// Its number.
    pub(super) peer: usize,
    pub(super) tcp: Option<SocketAddr>,
    pub(super) udp: Option<SocketAddr>,
}

/// Whether a machine was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PeerWays {
    pub(super) peer: usize,
    pub(super) tcp: PairWay,
    pub(super) udp: PairWay,
}

/// Whether one machine reaches another in one way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PairWay {
    pub(super) reached: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

impl From<Result<(), String>> for PairWay {
    fn from(reached: Result<(), String>) -> Self {
        Self { reached: reached.is_ok(), why: reached.err() }
    }
}

/// By which the machines of one check know each other: it is no secret, but no other process has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PairToken {
    /// What a caller says by udp.
    pub(super) question: u64,
    /// What it is answered, and what who connects by tcp is told.
    pub(super) answer: u64,
}

/// What a machine says before its first answer.
pub(super) const GREETING: &[u8] = b"egret info\n";
/// Bytes of one answer or order: the ports of ten thousand machines.
pub(super) const MESSAGE_MAX: usize = 4 << 20;
