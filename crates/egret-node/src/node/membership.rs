//! What a member does to its pool: views and elections, signals, closing, and doubts about others.

use egret_net::rt::{self, Deadline};

use super::NodeHandle;
use crate::pool::wire::{RegistryAnswer, RegistryQuestion};
use crate::pool::{NodeError, NodeId, View, drive};

impl NodeHandle {
    /// The members of a named set, as of the events that this node has received; an empty view if no node is
    /// in it. [`View`] has an example.
    #[must_use]
    pub fn view(&self, name: &str) -> View {
        self.watch().view.lock().state.view(name).cloned().unwrap_or_default()
    }

    /// Enters a view, and waits until this node has received that; returns at once if it is in the view.
    ///
    /// # Errors
    ///
    /// If the registry refuses or does not answer within the [deadline](Self::deadline) of the node.
    pub fn enter(&self, view: &str) -> Result<View, NodeError> {
        let deadline = self.deadline();
        self.change_view(view, deadline, &RegistryQuestion::Enter { view: view.to_owned() })
    }

    /// Exits a view, and waits until this node has received that.
    ///
    /// # Errors
    ///
    /// As [`enter`](Self::enter).
    pub fn exit(&self, view: &str) -> Result<View, NodeError> {
        let deadline = self.deadline();
        self.change_view(view, deadline, &RegistryQuestion::Exit { view: view.to_owned() })
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
    pub fn elect(&self, name: &str, deadline: impl Into<Deadline>) -> Result<NodeId, NodeError> {
        let ask = RegistryQuestion::Enter { view: name.to_owned() };
        let view = self.change_view(name, deadline.into(), &ask)?;
        Ok(view.first().unwrap_or_else(|| self.id()))
    }

    /// The winner of an election, if there is one, and the epoch from which on it is the winner: the fencing
    /// token that it sends along, and by which others refuse what an earlier winner does.
    #[must_use]
    pub fn elected(&self, name: &str) -> Option<(NodeId, u64)> {
        let view = self.view(name);
        Some((view.first()?, view.first_since))
    }

    fn change_view(
        &self,
        name: &str,
        deadline: Deadline,
        ask: &RegistryQuestion,
    ) -> Result<View, NodeError> {
        let (started, until) = (rt::now(), deadline.until());
        let is_entry = matches!(ask, RegistryQuestion::Enter { .. });
        let is_so = || Some(self.view(name)).filter(|view| view.has(self.id()) == is_entry);
        if let Some(view) = is_so() {
            return Ok(view);
        }
        self.ask(ask, deadline).and_then(RegistryAnswer::done)?;
        let (left, mut changed) =
            (until.map_or(Deadline::UntilDead, |until| Deadline::In(until.since(rt::now()))), None);
        drive(self.watch(), left, &mut || {
            changed = is_so();
            changed.is_some() || self.own_fate().is_some() || self.has_lost_registry()
        });
        match (changed, self.own_fate()) {
            (Some(view), _) => Ok(view),
            (None, Some(fate)) => Err(NodeError::NotMember { node: self.id(), fate }),
            (None, None) => Err(NodeError::NoEvent { waited: rt::now() - started }),
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
    pub fn signal(&self, to: &[NodeId], bytes: &[u8]) -> Result<(), NodeError> {
        let (to, bytes) = (to.to_vec(), bytes.to_vec());
        let ask = RegistryQuestion::Signal { to, bytes };
        self.ask(&ask, self.deadline()).and_then(RegistryAnswer::done)
    }

    /// Closes the pool: no node joins it any more, also not in place of one that is gone.
    ///
    /// # Errors
    ///
    /// If the registry does not answer within the [deadline](Self::deadline) of the node.
    pub fn close_pool(&self) -> Result<(), NodeError> {
        self.ask(&RegistryQuestion::Close, self.deadline()).and_then(RegistryAnswer::done)
    }

    /// Declares that the work of the pool is done: all members get
    /// [`Event::Terminated`](crate::node::Event::Terminated), and no node joins any more. What a member does then is
    /// up to the program; usually it leaves.
    ///
    /// # Errors
    ///
    /// If the registry does not answer within the [deadline](Self::deadline) of the node.
    pub fn terminate(&self) -> Result<(), NodeError> {
        self.ask(&RegistryQuestion::Terminate, self.deadline()).and_then(RegistryAnswer::done)
    }

    /// The node that has [terminated](Self::terminate) the pool, if one has.
    #[must_use]
    pub fn terminated_by(&self) -> Option<NodeId> {
        self.watch().view.lock().state.terminated_by()
    }

    /// Waits until a node has [terminated](Self::terminate) the pool; returns that node.
    ///
    /// # Errors
    ///
    /// If none has within the deadline, or the registry was lost.
    pub fn wait_terminated(&self, deadline: impl Into<Deadline>) -> Result<NodeId, NodeError> {
        let (started, mut by) = (rt::now(), None);
        drive(self.watch(), deadline.into(), &mut || {
            by = self.terminated_by();
            by.is_some() || self.has_lost_registry()
        });
        by.ok_or_else(|| match self.watch().view.lock().lost.clone() {
            Some(why) => NodeError::RegistryLost { why },
            None => NodeError::NoEvent { waited: rt::now() - started },
        })
    }

    /// Says that a node seems to be dead: the registry probes it now, and declares it dead if it does not
    /// answer. Nothing happens to a node that does, or is no member.
    ///
    /// # Errors
    ///
    /// If the registry does not answer within the [deadline](Self::deadline) of the node.
    pub fn suspect(&self, node: NodeId) -> Result<(), NodeError> {
        self.ask(&RegistryQuestion::Suspect { node }, self.deadline())
            .and_then(RegistryAnswer::done)
    }

    /// The bound names that begin so, each with its owner, in their order.
    ///
    /// # Errors
    ///
    /// If the registry does not answer within the [deadline](Self::deadline) of the node.
    pub fn names(&self, prefix: &str) -> Result<Vec<(String, NodeId)>, NodeError> {
        let (mut all, mut after) = (Vec::new(), String::new());
        loop {
            let ask = RegistryQuestion::Names { prefix: prefix.to_owned(), after };
            let answer = self.ask(&ask, self.deadline())?;
            let RegistryAnswer::Names { names, more } = answer else {
                return Err(NodeError::OtherAnswer);
            };
            all.extend(names);
            match all.last() {
                Some((last, _)) if more => after = last.clone(),
                _ => return Ok(all),
            }
        }
    }

    /// Takes a name of this node back, whatever it is bound to; returns whether it was bound.
    ///
    /// # Errors
    ///
    /// [`NodeError::NameTaken`] if the name is another node's, or if the registry does not answer within the
    /// [deadline](Self::deadline) of the node.
    pub fn unbind_name(&self, name: &str) -> Result<bool, NodeError> {
        let ask = RegistryQuestion::Free { name: name.to_owned() };
        let unbound = self.ask(&ask, self.deadline()).and_then(RegistryAnswer::unbound);
        unbound.map_err(|why| why.of(name))
    }
}
