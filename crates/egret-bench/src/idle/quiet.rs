//! One of the two processes of which `egret bench idle` looks at mapped endpoints and
//! channels.

use anyhow::{Context, Result};
use egret::am::{Endpoint, EndpointName, RemoteEndpoint};
use egret::channel::{ChannelListener, ChannelReader, ChannelWriter};
use egret::fabric::Fabrics;
use egret::link::Links;
use egret::vi::NicOptions;
use serde::{Deserialize, Serialize};

use super::still::resident;
use crate::links::{self, RunEnds};
use crate::peer::{Follower, PeerFigures, PeerTask};
use crate::side::PATIENCE;
use crate::vi::duo::WaitMode;

/// What one of the two processes is to have.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Quietness {
    pub(crate) fabric: String,
    pub(crate) wait: WaitMode,
    /// Of what it is to have many.
    pub(crate) kind: QuietKind,
    /// What the nic of the one whose endpoints are mapped is opened with.
    pub(crate) host: String,
    /// Of the other one, where that is.
    pub(crate) to: Option<String>,
}

/// What is quiet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum QuietKind {
    Endpoints,
    Channels,
}

/// Endpoints or channels over which nothing goes, in a second process.
pub(crate) const QUIET: PeerTask<Quietness> =
    PeerTask { name: "quiet", start: |plan, _| Ok(Box::new(Quiet::new(plan)?)) };

/// The process.
struct Quiet {
    links: Links,
    kind: QuietKind,
    /// Where to map and to write; at the other side it is mapped and read.
    to: Option<String>,
    /// The other one says that it has what it wants.
    ends: RunEnds,
    endpoints: Vec<Endpoint>,
    remotes: Vec<RemoteEndpoint>,
    listener: ChannelListener,
    readers: Vec<ChannelReader>,
    writers: Vec<ChannelWriter>,
}

impl Quiet {
    fn new(plan: Quietness) -> Result<Self> {
        let host = if plan.to.is_some() { format!("{}-maps", plan.host) } else { plan.host };
        let nic = NicOptions::new(&host).wait(plan.wait.of_nic());
        let links = links::open(Fabrics::default().open(&plan.fabric, nic)?)?;
        let listener = links.listen(NAME, BACKLOG)?;
        Ok(Self {
            links,
            kind: plan.kind,
            to: plan.to,
            ends: RunEnds::default(),
            endpoints: Vec::new(),
            remotes: Vec::new(),
            listener,
            readers: Vec::new(),
            writers: Vec::new(),
        })
    }

    fn register(&self, endpoint: &Endpoint) -> Result<()> {
        self.ends.count(endpoint, SETTLE);
        Ok(endpoint.register(&name(self.endpoints.len()))?)
    }

    fn map(&mut self, endpoint: &Endpoint, host: &str) -> Result<()> {
        let to = EndpointName::new(host, &name(self.endpoints.len()), 0);
        let remote = endpoint.wait_map(&to, PATIENCE).context("mapping an endpoint")?;
        self.remotes.push(remote);
        Ok(())
    }
}

impl Follower for Quiet {
    fn host(&self) -> &str {
        self.links.host()
    }

    /// Has so many of its kind, and one endpoint in any case; says what is resident.
    fn follow(&mut self, number: u64) -> Result<PeerFigures> {
        let number = usize::try_from(number)?;
        let (endpoints, channels) = match self.kind {
            QuietKind::Endpoints => (number, 0),
            QuietKind::Channels => (1, number),
        };
        let bundle = self.links.bundle();
        while self.endpoints.len() < endpoints {
            let endpoint = bundle.endpoint(0);
            match self.to.clone() {
                None => self.register(&endpoint)?,
                Some(host) => self.map(&endpoint, &host)?,
            }
            self.endpoints.push(endpoint);
        }
        while self.readers.len() + self.writers.len() < channels {
            match &self.to {
                None => self.readers.push(self.listener.wait_accept(PATIENCE)?),
                Some(host) => self.writers.push(self.links.wait_channel(host, NAME, PATIENCE)?),
            }
        }
        match self.remotes.first() {
            None => self.ends.wait_next(&self.links, "no mapping was made in time")?,
            Some(first) => drop(first.wait_call(SETTLE, PATIENCE)?),
        }
        Ok(vec![resident("Rss:")?])
    }
}

fn name(number: usize) -> String {
    format!("quiet-{number}")
}

const NAME: &str = "quiet";
const BACKLOG: usize = 16;
/// Hears that the other side has what it wants.
const SETTLE: u8 = 0;
