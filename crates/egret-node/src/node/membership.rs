//! What a member does to its pool: views and elections, signals, closing, and doubts about others.

use egret_net::rt::{self, Deadline};

use super::NodeHandle;
use crate::pool::state::PoolState;
use crate::pool::wire::{RegistryAnswer, RegistryQuestion};
use crate::pool::{NodeError, NodeId, View, drive};

impl NodeHandle {
    /// The members of a named set, as of the events that this node has received; an empty view, at the epoch of the
    /// latest event, if no node is in it. [`View`] has an example.
    #[must_use]
    pub fn view(&self, name: &str) -> View {
        let view = self.watch().view.lock();
        let (known, epoch) = (view.state.view(name).cloned(), view.state.next());
        known.unwrap_or_else(|| View { epoch, members: Vec::new(), first_since: epoch })
    }

    /// The view of this name at an epoch, which came along with what another member has sent: waits until this node has
    /// received the event that made the view. What was sent at an epoch that is over is not for the members of now.
    ///
    /// ```
    /// use egret_node::node::NodeError;
    ///
    /// let pool = egret_node::local::pool(2)?;
    /// let sent_at = pool[0].enter("replicas")?.epoch;
    /// assert_eq!(pool[1].view_at("replicas", sent_at, pool[1].deadline())?.members, [pool[0].id()]);
    /// pool[1].enter("replicas")?;
    /// let refused = pool[1].view_at("replicas", sent_at, pool[1].deadline()).unwrap_err();
    /// assert!(matches!(refused, NodeError::OldEpoch { epoch, .. } if epoch == sent_at), "{refused}");
    /// let soon = std::time::Duration::from_millis(5);
    /// let refused = pool[1].view_at("replicas", 1000, soon).unwrap_err();
    /// assert!(matches!(refused, NodeError::EarlyEpoch { epoch: 1000, .. }), "{refused}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`NodeError::OldEpoch`] if the view has changed since, and [`NodeError::EarlyEpoch`] if the event has not come
    /// within the deadline.
    #[track_caller]
    pub fn view_at(
        &self,
        name: &str,
        epoch: u64,
        deadline: impl Into<Deadline>,
    ) -> Result<View, NodeError> {
        let _waits = self.waits("view", None);
        let came = self.wait_until(deadline.into(), |state| (state.next() >= epoch).then_some(()));
        came.map_err(|why| match why {
            NodeError::NoEvent { waited } => {
                let next = self.watch().next();
                NodeError::EarlyEpoch { view: name.to_owned(), epoch, next, waited }
            }
            why => why,
        })?;
        let view = self.view(name);
        match view.epoch == epoch {
            true => Ok(view),
            false => Err(NodeError::OldEpoch { view: name.to_owned(), epoch, now: view.epoch }),
        }
    }

    /// Enters a view, unless this node is in it, and waits until it has received that. Returns the view as it is then,
    /// with its epoch; [`View`] has an example.
    ///
    /// # Errors
    ///
    /// If the registry refuses or does not answer within the [deadline](Self::deadline) of the node.
    #[track_caller]
    pub fn enter(&self, view: &str) -> Result<View, NodeError> {
        self.change(&RegistryQuestion::Enter { view: view.to_owned() }, self.deadline())?;
        Ok(self.view(view))
    }

    /// Exits a view, if this node is in it, and waits until it has received that. A node that leaves the pool or dies
    /// exits all of its views.
    ///
    /// ```
    /// let pool = egret_node::local::pool(2)?;
    /// pool[0].enter("solvers")?;
    /// let before = pool[1].enter("solvers")?;
    /// let after = pool[1].exit("solvers")?;
    /// assert_eq!(after.members, [pool[0].id()]);
    /// assert!(after.epoch > before.epoch && after.first_since == before.first_since);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`enter`](Self::enter).
    #[track_caller]
    pub fn exit(&self, view: &str) -> Result<View, NodeError> {
        self.change(&RegistryQuestion::Exit { view: view.to_owned() }, self.deadline())?;
        Ok(self.view(view))
    }

    /// Stands for election, and returns the winner: the first member of the view of this name, which this node
    /// enters. When the winner is gone, the member that has entered next is the winner.
    ///
    /// ```
    /// use egret_net::rt::Deadline;
    ///
    /// let (_registry, mut nodes) = egret_node::local::pool(2)?.into_parts();
    /// let (second, first) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    /// assert_eq!(first.elect("master", Deadline::DEFAULT)?, first.id());
    /// assert_eq!(second.elect("master", Deadline::DEFAULT)?, first.id());
    /// let token = second.elected("master").unwrap().1;
    /// first.leave(Deadline::DEFAULT)?;
    /// while second.elected("master") != Some((second.id(), second.view("master").first_since)) {
    ///     _ = second.events().wait_next(Deadline::DEFAULT)?;
    /// }
    /// assert!(second.elected("master").unwrap().1 > token, "what the first one did is fenced off");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the registry refuses or does not answer within the deadline.
    #[track_caller]
    pub fn elect(&self, name: &str, deadline: impl Into<Deadline>) -> Result<NodeId, NodeError> {
        self.change(&RegistryQuestion::Enter { view: name.to_owned() }, deadline.into())?;
        Ok(self.view(name).first().unwrap_or_else(|| self.id()))
    }

    /// The winner of an election, if there is one, and the epoch from which on it is the winner: the fencing
    /// token that it sends along, and by which others refuse what an earlier winner does. A resource remembers the
    /// highest token that it has seen, and refuses lower ones.
    ///
    /// ```
    /// let pool = egret_node::local::pool(2)?;
    /// let mut highest = 0_u64; // what the resource remembers
    /// let mut takes = |token: u64| {
    ///     highest = highest.max(token);
    ///     token == highest
    /// };
    /// pool[0].enter("master")?;
    /// pool[1].enter("master")?;
    /// let (_, early) = pool[0].elected("master").ok_or("no winner")?;
    /// pool[0].exit("master")?; // or it is declared dead, and has not noticed
    /// let epoch = pool[0].view("master").epoch;
    /// let late = pool[1].view_at("master", epoch, pool[1].deadline())?.first_since;
    /// assert_eq!([takes(early), takes(late), takes(early)], [true, true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// `None` also if this node is told of no events any more, as it is no member or has lost the registry: another node
    /// may have won since.
    #[must_use]
    pub fn elected(&self, name: &str) -> Option<(NodeId, u64)> {
        let view = Some(self.view(name)).filter(|_| self.watch().end().is_none())?;
        Some((view.first()?, view.first_since))
    }

    /// Changes something in the pool, and waits until this node has received the event of that.
    #[track_caller]
    fn change(&self, ask: &RegistryQuestion, deadline: Deadline) -> Result<(), NodeError> {
        let _waits = self.waits("registry", None);
        let until = deadline.until();
        let answer = self.ask(ask, deadline)?;
        let RegistryAnswer::Reached { next } = answer else { return Err(NodeError::OtherAnswer) };
        let left = until.map_or(Deadline::UntilDead, |until| Deadline::In(until.since(rt::now())));
        self.wait_until(left, |state| (state.next() >= next).then_some(()))
    }

    /// Waits until the state of the pool, as of the events that this node has received, is so.
    fn wait_until<T>(
        &self,
        deadline: Deadline,
        is_so: impl Fn(&PoolState) -> Option<T>,
    ) -> Result<T, NodeError> {
        let (started, mut found) = (rt::now(), None);
        drive(self.watch(), deadline, &mut || {
            found = is_so(&self.watch().view.lock().state);
            found.is_some() || self.own_fate().is_some() || self.has_lost_registry()
        });
        if let Some(found) = found {
            return Ok(found);
        }
        if let Some(end) = self.watch().end() {
            return Err(end);
        }
        match self.own_fate() {
            Some(fate) => Err(NodeError::NotMember { node: self.id(), fate }),
            None => Err(NodeError::NoEvent { waited: rt::now() - started }),
        }
    }

    /// Sends a signal to members: each of them gets [`Event::Signal`](crate::node::Event::Signal) in the order of
    /// all events. At most 3 KiB, with 16 bytes for each addressed node.
    ///
    /// ```
    /// use egret_net::rt::Deadline;
    /// use egret_node::node::Event;
    ///
    /// let pool = egret_node::local::pool(2)?;
    /// pool[0].signal(&[pool[1].id()], b"checkpoint")?;
    /// let mut events = pool[1].events();
    /// let signal = loop {
    ///     if let Event::Signal { from, bytes } = events.wait_next(Deadline::DEFAULT)? {
    ///         break (from, bytes);
    ///     }
    /// };
    /// assert_eq!(signal, (pool[0].id(), b"checkpoint".to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it is too large, or the registry does not answer within the [deadline](Self::deadline) of the node.
    #[track_caller]
    pub fn signal(&self, to: &[NodeId], bytes: &[u8]) -> Result<(), NodeError> {
        let (to, bytes) = (to.to_vec(), bytes.to_vec());
        self.change(&RegistryQuestion::Signal { to, bytes }, self.deadline())
    }

    /// Closes the pool: no node joins it any more, also not in place of one that is gone.
    ///
    /// ```
    /// use egret_node::node::{JoinError, Node, RegistryRefusal};
    ///
    /// let pool = egret_node::local::open_pool(1)?;
    /// pool[0].close_pool()?;
    /// assert_eq!(pool[0].closed_by(), Some(pool[0].id()));
    /// let refused = Node::join(pool.registry().config()).unwrap_err();
    /// let why = RegistryRefusal::PoolClosed { by: pool[0].id() };
    /// assert!(matches!(&refused, JoinError::Refused { why: said, .. } if *said == why), "{refused}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the registry does not answer within the [deadline](Self::deadline) of the node.
    #[track_caller]
    pub fn close_pool(&self) -> Result<(), NodeError> {
        self.change(&RegistryQuestion::Close, self.deadline())
    }

    /// The node that has [closed](Self::close_pool) the pool, if one has; also the one that has
    /// [terminated](Self::terminate) it, unless another had closed it before. Both methods have an example.
    #[must_use]
    pub fn closed_by(&self) -> Option<NodeId> {
        self.watch().view.lock().state.closed_by()
    }

    /// Declares that the work of the pool is done: all members get
    /// [`Event::Terminated`](crate::node::Event::Terminated), and no node joins any more. What a member does then is
    /// up to the program; usually it leaves.
    ///
    /// ```
    /// let pool = egret_node::local::pool(2)?;
    /// pool[0].terminate()?;
    /// assert_eq!(pool[1].wait_terminated(pool[1].deadline())?, pool[0].id());
    /// assert_eq!(pool[1].terminated_by(), Some(pool[0].id()));
    /// assert_eq!(pool[1].closed_by(), Some(pool[0].id()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the registry does not answer within the [deadline](Self::deadline) of the node.
    #[track_caller]
    pub fn terminate(&self) -> Result<(), NodeError> {
        self.change(&RegistryQuestion::Terminate, self.deadline())
    }

    /// The node that has [terminated](Self::terminate) the pool, if one has; [`terminate`](Self::terminate) has an
    /// example.
    #[must_use]
    pub fn terminated_by(&self) -> Option<NodeId> {
        self.watch().view.lock().state.terminated_by()
    }

    /// Waits until a node has [terminated](Self::terminate) the pool; returns that node.
    /// [`terminate`](Self::terminate) has an example.
    ///
    /// # Errors
    ///
    /// If none has within the deadline, the registry was lost, or this node is no member any more.
    #[track_caller]
    pub fn wait_terminated(&self, deadline: impl Into<Deadline>) -> Result<NodeId, NodeError> {
        let _waits = self.waits("end of the work", None);
        self.wait_until(deadline.into(), PoolState::terminated_by)
    }

    /// Says that a node seems to be dead: the registry probes it now, and declares it dead if it does not
    /// answer. Nothing happens to a node that does, or is no member. This returns when the registry knows of the doubt;
    /// what comes of it is an event, or [`wait_fate`](Self::wait_fate).
    /// [`Registry::declare_dead`](crate::registry::Registry::declare_dead) does not probe the node.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let pool = egret_node::local::pool(2)?;
    /// let other = pool[1].id();
    /// pool[0].suspect(other)?; // it has not answered a call for long
    /// assert_eq!(pool[0].wait_fate(other, Duration::from_millis(50)), None, "it is a member");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the registry does not answer within the [deadline](Self::deadline) of the node.
    #[track_caller]
    pub fn suspect(&self, node: NodeId) -> Result<(), NodeError> {
        self.ask(&RegistryQuestion::Suspect { node }, self.deadline())
            .and_then(RegistryAnswer::done)
    }

    /// The bound names that begin so, each with its owner, in their order.
    ///
    /// ```
    /// let pool = egret_node::local::pool(2)?;
    /// pool[0].bind("shard 0", b"here")?;
    /// pool[1].bind("shard 1", b"there")?;
    /// let all = pool[0].names("shard ")?;
    /// assert_eq!(all, [("shard 0".to_owned(), pool[0].id()), ("shard 1".to_owned(), pool[1].id())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the registry does not answer within the [deadline](Self::deadline) of the node.
    #[track_caller]
    pub fn names(&self, prefix: &str) -> Result<Vec<(String, NodeId)>, NodeError> {
        let (mut all, mut after): (Vec<(String, NodeId)>, Option<String>) = (Vec::new(), None);
        loop {
            let before = after.clone();
            let ask = RegistryQuestion::Names { prefix: prefix.to_owned(), after };
            let answer = self.ask(&ask, self.deadline())?;
            let RegistryAnswer::Names { names, more } = answer else {
                return Err(NodeError::OtherAnswer);
            };
            if !more {
                all.extend(names);
                return Ok(all);
            }
            all.extend(names);
            let last = all.last().map(|(name, _)| name.clone());
            if last <= before {
                return Err(NodeError::OtherAnswer);
            }
            after = last;
        }
    }

    /// Takes a name of this node back, whatever it is bound to; returns whether it was bound.
    ///
    /// ```
    /// let pool = egret_node::local::pool(2)?;
    /// pool[0].bind("shard 0", b"here")?;
    /// assert!(pool[1].unbind_name("shard 0").is_err(), "it is a name of another node");
    /// assert!(pool[0].unbind_name("shard 0")?);
    /// assert!(!pool[0].unbind_name("shard 0")?, "it is not bound any more");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`NodeError::NameTaken`] if the name is another node's, or if the registry does not answer within the
    /// [deadline](Self::deadline) of the node.
    #[track_caller]
    pub fn unbind_name(&self, name: &str) -> Result<bool, NodeError> {
        let ask = RegistryQuestion::Free { name: name.to_owned() };
        let unbound = self.ask(&ask, self.deadline()).and_then(RegistryAnswer::unbound);
        unbound.map_err(|why| why.of(name))
    }
}
