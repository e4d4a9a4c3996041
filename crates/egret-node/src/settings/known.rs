//! The known settings.

use egret_net::rt::Deadline;
use egret_net::vi::{Encrypt, Trust, Wait};

use super::value::{FabricList, SettingValue};
use crate::pool::Location;

/// The key of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SettingKey {
    Pool,
    Size,
    Rank,
    LocalRank,
    Registry,
    RegistryGrace,
    Secret,
    SecretFd,
    SecretFile,
    Fabrics,
    Trust,
    Encrypt,
    Wait,
    Deadline,
    Listen,
    Location,
    Stall,
    Config,
    Job,
}

impl SettingKey {
    pub(crate) const ALL: [Self; 19] = [
        Self::Pool,
        Self::Size,
        Self::Rank,
        Self::LocalRank,
        Self::Registry,
        Self::RegistryGrace,
        Self::Secret,
        Self::SecretFd,
        Self::SecretFile,
        Self::Fabrics,
        Self::Trust,
        Self::Encrypt,
        Self::Wait,
        Self::Deadline,
        Self::Listen,
        Self::Location,
        Self::Stall,
        Self::Config,
        Self::Job,
    ];

    /// Name, variable, default, help.
    const fn row(self) -> SettingRow {
        match self {
            Self::Pool => ("pool", "EGRET_POOL", Some("pool"), "the pool's name"),
            Self::Size => ("size", "EGRET_SIZE", None, "how many nodes the pool has"),
            Self::Rank => ("rank", "EGRET_RANK", None, "this node's place; else the lowest free"),
            Self::LocalRank => {
                ("local_rank", "EGRET_LOCAL_RANK", None, "which of the nodes on this machine it is")
            }
            Self::Registry => ("registry", "EGRET_REGISTRY", None, "where the registry is"),
            Self::RegistryGrace => REGISTRY_GRACE,
            Self::Secret => (
                "secret",
                "EGRET_SECRET",
                None,
                "what the pool's nodes prove to know; never empty; needed beyond loopback",
            ),
            Self::SecretFd => (
                "secret_fd",
                "EGRET_SECRET_FD",
                None,
                "a pipe with the secret, to be read once: N:INODE; set by `egret run`",
            ),
            Self::SecretFile => (
                "secret_file",
                "EGRET_SECRET_FILE",
                None,
                "a file with the secret, for its owner alone: chmod 600",
            ),
            Self::Fabrics => (
                "fabrics",
                "EGRET_FABRICS",
                Some("shm,tcp"),
                "the fabrics to use, best first; ^NAME rejects one",
            ),
            Self::Trust => ("trust", "EGRET_TRUST", Some("isolated"), "isolated or cooperating"),
            Self::Encrypt => (
                "encrypt",
                "EGRET_ENCRYPT",
                Some("between-machines"),
                "connections: between-machines, on (all), or off (on trusted networks)",
            ),
            Self::Wait => ("wait", "EGRET_WAIT", Some("balanced"), "spin, balanced or frugal"),
            Self::Deadline => (
                "deadline",
                "EGRET_DEADLINE",
                Some("30s"),
                "of joining and of calls: 500ms, 30s (or 30), 2m, or never",
            ),
            Self::Listen => (
                "listen",
                "EGRET_LISTEN",
                None,
                "an address, an interface or `reachable`; else as the registry is",
            ),
            Self::Location => (
                "location",
                "EGRET_LOCATION",
                None,
                "where the node is: core@host@rack@site; what is empty is found out",
            ),
            Self::Stall => STALL,
            Self::Config => ("config", "EGRET_CONFIG", None, "the file with settings"),
            Self::Job => JOB,
        }
    }

    /// Whether this is a variable of a setting.
    pub(crate) fn is_variable(name: &str) -> bool {
        Self::ALL.iter().any(|key| key.variable() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        self.row().0
    }

    pub(crate) const fn variable(self) -> &'static str {
        self.row().1
    }

    pub(crate) const fn default(self) -> Option<&'static str> {
        self.row().2
    }

    pub(crate) const fn help(self) -> &'static str {
        self.row().3
    }

    /// Whether a value means something.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn check(self, value: &str) -> Result<(), String> {
        match self {
            Self::Size | Self::Rank | Self::LocalRank => u32::read(value).map(drop),
            Self::Fabrics => FabricList::read(value).map(drop),
            Self::Trust => Trust::read(value).map(drop),
            Self::Encrypt => Encrypt::read(value).map(drop),
            Self::Wait => Wait::read(value).map(drop),
            Self::Deadline | Self::RegistryGrace | Self::Stall => Deadline::read(value).map(drop),
            Self::Location => Location::read(value).map(drop),
            _ => Ok(()),
        }
    }
}

/// Name, variable, default, help of a setting.
type SettingRow = (&'static str, &'static str, Option<&'static str>, &'static str);

const REGISTRY_GRACE: SettingRow = (
    "registry_grace",
    "EGRET_REGISTRY_GRACE",
    Some("30s"),
    "how long a registry that keeps its state may be out of reach",
);
const STALL: SettingRow = (
    "stall",
    "EGRET_STALL",
    Some("60s"),
    "a job that stands still so long says who waits for whom; or never",
);
const JOB: SettingRow =
    ("job", "EGRET_JOB", None, "set by `egret run`: this is a process of a job");
