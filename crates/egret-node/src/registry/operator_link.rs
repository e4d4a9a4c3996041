//! The operator's link to a registry in another process.

use std::fmt;
use std::net::ToSocketAddrs;
use std::time::Duration;

use egret_net::fabric::{Fabric, tcp::TcpFabric};
use egret_net::rt::{self, Deadline};
use egret_net::sync::Mutex;
use egret_net::vi::NicOptions;

use super::Operator;
use crate::am::{Endpoint, EndpointName, Message, RemoteEndpoint};
use crate::pool::wire::{ASK, ENDPOINT, RegistryAnswer, RegistryQuestion, VERSION};
use crate::pool::{JoinError, NodeError, NodeId};
use crate::{Links, LinksOptions};

/// A link to a registry over which its operator declares nodes dead: the link proves the private key of the registry.
/// A link that is lost is made again by the next request.
///
/// ```
/// use std::time::Duration;
///
/// use egret_node::node::{Event, Node};
/// use egret_node::registry::{Operator, Registry, RegistryOptions};
///
/// let (operator, soon) = (Operator::random(), Duration::from_secs(30));
/// let registry = Registry::open(RegistryOptions::new("pool", 2).operator(&operator))?;
/// let nodes = [Node::join(registry.config())?, Node::join(registry.config())?];
/// let mut events = nodes[0].events();
///
/// let link = operator.connect("pool", registry.address(), soon)?;
/// link.declare_dead(nodes[1].id(), "its process was killed by hand", soon)?;
/// while !matches!(events.wait_next(soon)?, Event::Died { node, .. } if node == nodes[1].id()) {}
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OperatorLink {
    links: Links,
    endpoint: Endpoint,
    /// The registry's endpoint, while there is a link.
    registry: Mutex<Option<RemoteEndpoint>>,
    address: String,
    pool: String,
    terms: ServedTerms,
}

/// What the registry says of itself.
#[derive(Debug, Clone, Copy, Default)]
struct ServedTerms {
    size: u32,
    is_open: bool,
    /// How many lives had begun when the link was made first.
    lives: u64,
}

impl Operator {
    /// Makes a link to the registry of this operator in another process.
    ///
    /// # Errors
    ///
    /// If the registry cannot be reached within the deadline, or has another pool or another operator.
    pub fn connect(
        &self,
        pool: &str,
        address: &str,
        deadline: impl Into<Deadline>,
    ) -> Result<OperatorLink, JoinError> {
        let deadline = deadline.into();
        let mut found = address.to_socket_addrs().into_iter().flatten();
        let is_here = found.any(|at| at.ip().is_loopback());
        let options = NicOptions::new(if is_here { "" } else { "reachable" })
            .secret(self.secret().clone())
            .identity(self.identity().clone());
        let links = Links::open(TcpFabric.open(&options)?, LinksOptions::default())?;
        links.close_to_strangers();
        links.allow_calling(address, Some(self.identity().key()));
        let endpoint = links.bundle().endpoint(0);
        let (address, pool) = (address.to_owned(), pool.to_owned());
        let (registry, terms) = (Mutex::default(), ServedTerms::default());
        let mut link = OperatorLink { links, endpoint, registry, address, pool, terms };
        let (registry, terms) = link.map(deadline).map_err(|why| link.failed(why))?;
        (link.registry, link.terms) = (Mutex::new(Some(registry)), terms);
        Ok(link)
    }
}

impl OperatorLink {
    /// The size of a closed pool, or how many members an open one has at most at a time; [`ended`](Self::ended) has an
    /// example.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.terms.size
    }

    /// Whether the pool is open; [`ended`](Self::ended) has an example.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.terms.is_open
    }

    /// Declares a member dead: the others get that event, and the node is fenced. Nothing happens if the node is no
    /// member.
    ///
    /// # Errors
    ///
    /// If the registry does not answer within the deadline, or cannot write its state.
    pub fn declare_dead(
        &self,
        node: NodeId,
        why: &str,
        deadline: impl Into<Deadline>,
    ) -> Result<(), NodeError> {
        self.ask(&RegistryQuestion::DeclareDead { node, why: why.to_owned() }, deadline.into())
    }

    /// Reports that the process of a rank has ended, as its launcher knows: if the rank has joined since this link was
    /// made first and is still a member, the member has died; if the rank never was a member, the others need not wait
    /// for it. In an open pool nothing happens, for a launcher does not know the ranks of its nodes.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use egret_node::node::{Node, NodeError};
    /// use egret_node::registry::{Operator, Registry, RegistryOptions};
    ///
    /// let (operator, soon) = (Operator::random(), Duration::from_secs(30));
    /// let registry = Registry::open(RegistryOptions::new("pool", 2).operator(&operator))?;
    /// let joined = Node::join(registry.config())?; // as rank 0
    ///
    /// let link = operator.connect("pool", registry.address(), soon)?;
    /// assert_eq!((link.size(), link.is_open()), (2, false));
    /// link.ended(1, "exit status: 127", soon)?; // it has never joined
    /// let why = joined.wait_all(soon).unwrap_err();
    /// assert!(matches!(why, NodeError::Gone { node, .. } if node.rank == 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the registry does not answer within the deadline, or cannot write its state.
    pub fn ended(
        &self,
        rank: u32,
        why: &str,
        deadline: impl Into<Deadline>,
    ) -> Result<(), NodeError> {
        let (lives, why) = (self.terms.lives, why.to_owned());
        self.ask(&RegistryQuestion::Ended { rank, lives, why }, deadline.into())
    }

    /// Asks until the registry answers, over another link if the present one is lost. Each question may be asked twice.
    fn ask(&self, question: &RegistryQuestion, deadline: Deadline) -> Result<(), NodeError> {
        let until = deadline.until();
        loop {
            let left = until.map_or(deadline, |until| Deadline::In(until.since(rt::now())));
            // A thread that finds none here asks over a mapping of its own.
            let known = self.registry.lock().take();
            let answer = match known {
                Some(known) => Ok(known),
                None => self.map(left).map(|(found, _)| found),
            };
            let answer = answer.and_then(|known| {
                let answer = ask(&known, question, left);
                if !matches!(answer, Err(NodeError::NoAnswer(_))) {
                    *self.registry.lock() = Some(known);
                }
                answer
            });
            match answer {
                Ok(RegistryAnswer::Done) => return Ok(()),
                Ok(_) => return Err(NodeError::OtherAnswer),
                Err(NodeError::NoAnswer(_)) if until.is_none_or(|until| rt::now() < until) => {
                    rt::sleep(AGAIN);
                }
                Err(why) => return Err(why),
            }
        }
    }

    /// Maps the registry's endpoint, and makes itself known as the operator.
    fn map(&self, deadline: Deadline) -> Result<(RemoteEndpoint, ServedTerms), NodeError> {
        let to = EndpointName::new(&self.address, ENDPOINT, 0);
        let registry = self.endpoint.wait_map(&to, deadline)?;
        let question = RegistryQuestion::Operate { pool: self.pool.clone() };
        match ask(&registry, &question, deadline)? {
            RegistryAnswer::Terms { size, is_open, lives } => {
                Ok((registry, ServedTerms { size, is_open, lives }))
            }
            _ => Err(NodeError::OtherAnswer),
        }
    }

    fn failed(&self, why: NodeError) -> JoinError {
        let address = self.address.clone();
        match why {
            NodeError::Refused(why) => JoinError::Refused { address, why },
            NodeError::NoAnswer(why) => JoinError::NoRegistry { address, why },
            why => JoinError::Lost { address, why: why.to_string() },
        }
    }
}

fn ask(
    registry: &RemoteEndpoint,
    question: &RegistryQuestion,
    deadline: Deadline,
) -> Result<RegistryAnswer, NodeError> {
    let bytes = question.to_bytes();
    let reply = registry.wait_call(Message::to(ASK).words(&[VERSION]).bytes(&bytes), deadline);
    match RegistryAnswer::from_bytes(reply?.bytes()) {
        Some(RegistryAnswer::Refused(why)) => Err(why.into()),
        Some(answer) => Ok(answer),
        None => Err(NodeError::OtherAnswer),
    }
}

impl Drop for OperatorLink {
    fn drop(&mut self) {
        self.links.close();
    }
}

impl fmt::Debug for OperatorLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorLink").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Time until a question is asked again that was not answered.
const AGAIN: Duration = Duration::from_millis(100);
