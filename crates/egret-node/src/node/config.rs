//! What a node is to be.

use std::sync::Arc;

use egret_net::fabric::Fabric;
use egret_net::rt::Deadline;
use egret_net::vi::{Encrypt, Nic, Secret, Trust, Wait};

use super::{Properties, Property};
use crate::LinksOptions;
use crate::settings::{Key, Origin, Settings, SettingsError};

/// What a node is to be: what the program says counts before what it is told from outside,
/// if it [asks](Self::from_env) for that at all.
#[derive(Debug, Clone)]
#[must_use = "nothing happens until the node joins"]
pub struct Config {
    pub(super) settings: Settings,
    pub(super) over: Option<Nic>,
    pub(super) fabrics: Vec<(Arc<dyn Fabric>, Properties)>,
    pub(super) required: Vec<Property>,
    pub(super) rejected: Vec<Property>,
    pub(super) is_insecure: bool,
    pub(super) links: LinksOptions,
    pub(super) in_flight: Option<u32>,
}

impl Config {
    /// A node of this pool, with defaults for everything else.
    pub fn new(pool: &str) -> Self {
        Self::of(Settings::default()).with(Key::Pool, pool)
    }

    /// A node as the environment and the file of [settings](Settings::read) say.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or says what is no setting.
    pub fn from_env() -> Result<Self, SettingsError> {
        let settings = Settings::read()?;
        for variable in settings.unknown() {
            tracing::warn!(%variable, "no such setting");
        }
        Ok(Self::of(settings))
    }

    /// A node as these settings say.
    pub fn of(settings: Settings) -> Self {
        Self {
            settings,
            over: None,
            fabrics: Vec::new(),
            required: Vec::new(),
            rejected: Vec::new(),
            is_insecure: false,
            links: LinksOptions::default(),
            in_flight: None,
        }
    }

    /// What it is, setting by setting.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The pool has so many nodes; a registry whose pool has not refuses.
    pub fn size(self, size: u32) -> Self {
        self.with(Key::Size, &size.to_string())
    }

    /// Wants this place in the pool; otherwise it gets the lowest that is free.
    pub fn rank(self, rank: u32) -> Self {
        self.with(Key::Rank, &rank.to_string())
    }

    /// The registry is there.
    pub fn registry(self, address: &str) -> Self {
        self.with(Key::Registry, address)
    }

    /// The nodes of the pool have this secret. An empty one is an error when the node
    /// joins; none at all is one if the node listens beyond loopback.
    pub fn secret(mut self, secret: Secret) -> Self {
        self.settings.set_secret(secret);
        self
    }

    /// Lets a node without a secret listen beyond loopback: **everybody who reaches its
    /// address can connect** ([more](egret_net::vi::NicOptions::insecure_without_secret)).
    pub const fn insecure_without_secret(mut self) -> Self {
        self.is_insecure = true;
        self
    }

    /// Uses these fabrics, the best first: `"shm,tcp"`, or `"^shm"` for all but one.
    pub fn fabrics(self, list: &str) -> Self {
        self.with(Key::Fabrics, list)
    }

    /// Trusts its peers so far.
    pub fn trust(self, trust: Trust) -> Self {
        self.with(Key::Trust, &trust.to_string())
    }

    /// Encrypts connections as this says; one of two nodes is enough to have theirs encrypted.
    pub fn encrypt(self, encrypt: Encrypt) -> Self {
        let name = match encrypt {
            Encrypt::BetweenMachines => "between-machines",
            Encrypt::Always => "on",
            Encrypt::Never => "off",
        };
        self.with(Key::Encrypt, name)
    }

    /// Waits like this.
    pub fn wait(self, wait: Wait) -> Self {
        let name = match wait {
            Wait::Spin => "spin",
            Wait::Balanced => "balanced",
            Wait::Frugal => "frugal",
        };
        self.with(Key::Wait, name)
    }

    /// Calls that say nothing else wait so long.
    pub fn deadline(self, deadline: impl Into<Deadline>) -> Self {
        let text = match deadline.into() {
            Deadline::UntilDead => "never".to_owned(),
            Deadline::In(time) => {
                format!("{}us", time.as_nanos().div_ceil(1000).min(u64::MAX.into()))
            }
        };
        self.with(Key::Deadline, &text)
    }

    /// Listens [here](egret_net::fabric::place) on networks.
    pub fn listen(self, place: &str) -> Self {
        self.with(Key::Listen, place)
    }

    /// Admits so many messages that are under way, over each fabric, instead of 1,048,576:
    /// [`LinksOptions::messages`](crate::LinksOptions::messages).
    ///
    /// # Panics
    ///
    /// If that is too little for one mapping, 16.
    pub fn messages(mut self, messages: u64) -> Self {
        self.links = self.links.messages(messages);
        self
    }

    /// Takes so many bytes of data that are on their way and not yet used, over each fabric,
    /// instead of 256 MiB. Of one message, as the arguments or the answer of a remote call, it
    /// takes somewhat less than half of that.
    pub const fn budget(mut self, bytes: u64) -> Self {
        self.links.budget = bytes;
        self
    }

    /// Lets each other node have so many remote calls under way at this one. Who has as many waits
    /// until one is answered; calls that are a part of others do not count. Without this it is
    /// 16,384 divided by the size of the pool, and between 64 and 1,024.
    ///
    /// # Panics
    ///
    /// If that is none.
    pub const fn in_flight(mut self, calls: u32) -> Self {
        assert!(calls > 0, "a node that takes no calls");
        self.in_flight = Some(calls);
        self
    }

    /// Is on this nic and on no other, which may be of a simulated world. The registry is
    /// asked over it too. What is [required](Self::require) it must have.
    pub fn over(mut self, nic: Nic) -> Self {
        self.over = Some(nic);
        self
    }

    /// Can use another fabric, which is like this. It is used if the list of fabrics names
    /// it.
    pub fn fabric(mut self, fabric: Arc<dyn Fabric>, properties: Properties) -> Self {
        self.fabrics.push((fabric, properties));
        self
    }

    /// Uses only fabrics that are like this.
    pub fn require(mut self, property: Property) -> Self {
        self.required.push(property);
        self
    }

    /// Uses no fabric that is like this.
    pub fn reject(mut self, property: Property) -> Self {
        self.rejected.push(property);
        self
    }

    fn with(mut self, key: Key, value: &str) -> Self {
        self.settings.say(key, value.to_owned(), Origin::Code);
        self
    }
}
