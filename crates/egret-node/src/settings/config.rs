//! Configuration of a node.

use std::sync::Arc;

use egret_net::fabric::Fabric;
use egret_net::rt::Deadline;
use egret_net::vi::{Encrypt, Nic, Secret, Trust, Wait};

use super::{Origin, SettingKey, Settings};
use crate::LinksOptions;
use crate::pool::{JoinError, Location, Properties, Property};

/// The configuration of a node: settings of the program take precedence over those of the environment
/// and the file, which are used if the program [reads](Self::from_env) them.
///
/// ```no_run
/// use egret_node::node::{Config, Node, Property};
///
/// let config = Config::from_env()?.fabrics("shm,tcp").require(Property::RELIABLE).budget(64 << 20);
/// let node = Node::join(config)?;
/// # Ok::<(), egret_node::node::JoinError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens until the node joins"]
pub struct Config {
    pub(crate) settings: Settings,
    pub(crate) over: Option<Nic>,
    pub(crate) fabrics: Vec<(Arc<dyn Fabric>, Properties)>,
    pub(crate) required: Vec<Property>,
    pub(crate) rejected: Vec<Property>,
    pub(crate) is_insecure: bool,
    pub(crate) is_open: bool,
    pub(crate) links: LinksOptions,
    pub(crate) in_flight: Option<u32>,
}

impl Config {
    /// A node of this pool, with defaults for everything else.
    pub fn new(pool: &str) -> Self {
        Self::of(Settings::default()).with(SettingKey::Pool, pool)
    }

    /// The configuration of the environment and the file: see [`Settings::read`].
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or says what is no setting.
    pub fn from_env() -> Result<Self, JoinError> {
        let settings = Settings::read()?;
        for variable in settings.unknown() {
            tracing::warn!(%variable, "unknown setting; egret ignores it");
        }
        Ok(Self::of(settings))
    }

    /// The configuration of these settings.
    pub fn of(settings: Settings) -> Self {
        Self {
            settings,
            over: None,
            fabrics: Vec::new(),
            required: Vec::new(),
            rejected: Vec::new(),
            is_insecure: false,
            is_open: false,
            links: LinksOptions::default(),
            in_flight: None,
        }
    }

    /// The settings of the configuration.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The pool has so many nodes; a registry whose pool has not refuses.
    pub fn size(self, size: u32) -> Self {
        self.with(SettingKey::Size, &size.to_string())
    }

    /// Joins an open pool only: a registry whose pool is closed refuses. A program says so that counts on nodes
    /// which come and go.
    ///
    /// ```
    /// use egret_node::local;
    /// use egret_node::node::Node;
    ///
    /// let pool = local::open_pool(1)?;
    /// let late = Node::join(pool.registry().config().open())?;
    /// assert!(late.is_open());
    /// let closed = local::pool(1)?;
    /// let refused = Node::join(closed.registry().config().open()).unwrap_err();
    /// assert!(refused.to_string().contains("closed"), "{refused}");
    /// # Ok::<(), egret_node::node::JoinError>(())
    /// ```
    pub const fn open(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Where the node is; [`Location`] has an example.
    pub fn location(self, location: &Location) -> Self {
        self.with(SettingKey::Location, &location.to_string())
    }

    /// Requests this rank; otherwise the node gets the lowest one that is free.
    pub fn rank(self, rank: u32) -> Self {
        self.with(SettingKey::Rank, &rank.to_string())
    }

    /// The address of the registry.
    pub fn registry(self, address: &str) -> Self {
        self.with(SettingKey::Registry, address)
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
        self.with(SettingKey::Fabrics, list)
    }

    /// How far the node trusts its peers.
    pub fn trust(self, trust: Trust) -> Self {
        self.with(SettingKey::Trust, &trust.to_string())
    }

    /// Encrypts connections as this says; one of two nodes is enough to have theirs encrypted.
    pub fn encrypt(self, encrypt: Encrypt) -> Self {
        let name = match encrypt {
            Encrypt::BetweenMachines => "between-machines",
            Encrypt::Always => "on",
            Encrypt::Never => "off",
        };
        self.with(SettingKey::Encrypt, name)
    }

    /// How threads of the node wait.
    pub fn wait(self, wait: Wait) -> Self {
        let name = match wait {
            Wait::Spin => "spin",
            Wait::Balanced => "balanced",
            Wait::Frugal => "frugal",
        };
        self.with(SettingKey::Wait, name)
    }

    /// The deadline of calls that have no deadline of their own.
    pub fn deadline(self, deadline: impl Into<Deadline>) -> Self {
        self.with_time(SettingKey::Deadline, deadline.into())
    }

    /// How long a registry that [keeps its state](crate::registry::RegistryOptions::state) may be out of reach, as while
    /// it is started again, before the node gives it up ([`Event::RegistryLost`](crate::node::Event::RegistryLost)).
    /// Other registries are lost with their link.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use egret_node::node::{Config, Node};
    ///
    /// // The operator may take ten minutes to start the registry again; `Deadline::UntilDead` is for ever.
    /// let node = Node::join(Config::from_env()?.registry_grace(Duration::from_secs(600)))?;
    /// # Ok::<(), egret_node::node::JoinError>(())
    /// ```
    pub fn registry_grace(self, grace: impl Into<Deadline>) -> Self {
        self.with_time(SettingKey::RegistryGrace, grace.into())
    }

    /// The [place](egret_net::fabric::place) where the node listens on networks.
    pub fn listen(self, place: &str) -> Self {
        self.with(SettingKey::Listen, place)
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
    /// 16,384 divided by the size of the pool (by 256 in an open one), and between 64 and 1,024.
    ///
    /// # Panics
    ///
    /// If that is none.
    pub const fn in_flight(mut self, calls: u32) -> Self {
        assert!(calls > 0, "a node that takes no calls");
        self.in_flight = Some(calls);
        self
    }

    /// Posts so many receives on each connection.
    pub(crate) const fn receives(mut self, receives: u32) -> Self {
        self.links.receives = receives;
        self
    }

    /// Uses this nic and no other, also for the registry; the nic may be of a simulated world. It must
    /// have the properties that are [required](Self::require).
    pub fn over(mut self, nic: Nic) -> Self {
        self.over = Some(nic);
        self
    }

    /// Adds a fabric with these properties. It is used if the list of fabrics names it.
    pub fn fabric(mut self, fabric: Arc<dyn Fabric>, properties: Properties) -> Self {
        self.fabrics.push((fabric, properties));
        self
    }

    /// Uses only fabrics with this property.
    pub fn require(mut self, property: Property) -> Self {
        self.required.push(property);
        self
    }

    /// Uses no fabric with this property.
    pub fn reject(mut self, property: Property) -> Self {
        self.rejected.push(property);
        self
    }

    fn with_time(self, key: SettingKey, time: Deadline) -> Self {
        let text = match time {
            Deadline::UntilDead => "never".to_owned(),
            Deadline::In(time) => {
                format!("{}us", time.as_nanos().div_ceil(1000).min(u64::MAX.into()))
            }
        };
        self.with(key, &text)
    }

    fn with(mut self, key: SettingKey, value: &str) -> Self {
        self.settings.say(key, value.to_owned(), Origin::Code);
        self
    }
}
