//! Why a pool was not joined, or a registry not opened.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use egret_net::fabric::OpenError as NicError;
use thiserror::Error;

use super::wire::{NAME_MAX, SIZE_MAX};
use super::{NodeError, RegistryRefusal};
use crate::am::MessageError;
use crate::link::LinkError;

/// Why a node is no member, or why a registry is not open: the settings, the fabrics or the registry
/// do not allow it.
///
/// `Debug` writes what `Display` does: it is what people see of an error that `main` returns.
///
/// ```
/// use egret_node::node::{Config, JoinError, Node};
///
/// let why = Node::join(Config::new("pool")).unwrap_err();
/// assert!(matches!(why, JoinError::MissingSetting { variable: "EGRET_REGISTRY", .. }), "{why}");
/// ```
#[derive(Error)]
#[non_exhaustive]
pub enum JoinError {
    /// A person chose the secret, and it does not say which key the registry has: any process that answers
    /// at its address could guess the secret.
    #[error(
        "a person chose this secret, and any process that answers at {address} could guess it: it is proven to a \
         registry whose key is known, and it says none; make a secret with `egret secret FILE`, open \
         the registry with Operator::load(FILE), and set EGRET_SECRET_FILE=FILE (in the process of the \
         registry, Registry::config() has the key)"
    )]
    KeyUnknown {
        /// Where the registry is said to be.
        address: String,
    },
    /// No fabric is left.
    #[error("no fabric is left: {why}")]
    NoFabric {
        /// What became of each.
        why: String,
    },
    /// A nic cannot be opened.
    #[error("{fabric}: {why}")]
    Nic {
        /// Of which fabric.
        fabric: String,
        /// Why.
        why: NicError,
    },
    /// Links cannot be opened.
    #[error(transparent)]
    Links(#[from] LinkError),
    /// The registry cannot be reached, or does not let this node talk to it.
    #[error("the registry at {address} cannot be joined: {why}; {}", advice(why))]
    NoRegistry {
        /// Where.
        address: String,
        /// Why.
        why: MessageError,
    },
    /// The registry did not take the node.
    #[error("the registry at {address} refuses: {why}")]
    Refused {
        /// Where.
        address: String,
        /// Why.
        why: RegistryRefusal,
    },
    /// Not all nodes of a [local pool](crate::local::pool) have joined.
    #[error(transparent)]
    Absent(#[from] NodeError),
    /// The registry did not answer, or was lost.
    #[error("the registry at {address} was lost: {why}")]
    Lost {
        /// Where.
        address: String,
        /// How.
        why: String,
    },
    /// A handler must not wait: [`in_handler`](crate::am::in_handler) says what answers this.
    #[error("a node cannot be joined in a handler, which must not wait: a thread of its own can")]
    InHandler,
    /// The deadline passed.
    #[error("the registry at {address} has not answered within {waited:.1?}")]
    TimedOut {
        /// Where.
        address: String,
        /// How long was waited.
        waited: Duration,
    },
    /// A pool has at least one node, and not too many.
    #[error("a pool of {size} nodes; from 1 to {SIZE_MAX} are possible")]
    PoolSize {
        /// How many were asked for.
        size: u32,
    },
    /// The pool's name is too long.
    #[error("the name of the pool has {bytes} bytes, at most {NAME_MAX} fit")]
    PoolName {
        /// Its length.
        bytes: usize,
    },
    /// The nic of the registry cannot be opened.
    #[error(transparent)]
    RegistryNic(#[from] NicError),
    /// Another registry is on the same nic.
    #[error(transparent)]
    Endpoint(#[from] MessageError),
    /// The operating system gives no thread for the registry's clock.
    #[error("no thread for the registry's clock: {0}")]
    Thread(std::io::Error),
    /// The value of a setting means nothing.
    #[error("{name} = {value:?} ({origin}): {why}")]
    BadSetting {
        /// The setting.
        name: &'static str,
        /// The value.
        value: String,
        /// Where the value comes from.
        origin: Origin,
        /// What is wrong with it, and what is expected.
        why: String,
    },
    /// A setting that has no default is not set.
    #[error(
        "{name} is not set: start the program with `egret run -n N PROGRAM`, which sets it, \
         or by `srun` or `mpiexec`, or set {variable}, or say `Config::{name}(…)`"
    )]
    MissingSetting {
        /// The setting.
        name: &'static str,
        /// The variable of the environment that sets it.
        variable: &'static str,
    },
    /// A file cannot be read.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A line of a file is no setting.
    #[error("{}:{line}: {why}", path.display())]
    FileLine {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it, and what is expected.
        why: String,
    },
    /// A secret is empty.
    #[error(
        "the secret ({said}) is empty, and an empty secret is that of any process; say a random one, \
         `egret1.` and 64 hexadecimal digits, or do not set it at all"
    )]
    EmptySecret {
        /// Where it is said.
        said: String,
    },
    /// A secret begins like a random one, and is none.
    #[error(
        "the secret ({said}) begins like a random one, and is not whole: `egret1.` and 64 hexadecimal \
         digits are expected, and behind a point 64 more if it says the registry's key"
    )]
    DamagedSecret {
        /// Where it is said.
        said: String,
    },
    /// A secret is a key.
    #[error(
        "the secret ({said}) looks like a private key: the file FILE.key that `egret secret FILE` \
         makes is for the registry, and FILE for nodes"
    )]
    KeyAsSecret {
        /// Where it is said.
        said: String,
    },
    /// A file with a secret can be read or written by others than its owner.
    #[error(
        "{}: it holds a secret, and its mode {mode:04o} lets others than its owner use it; \
         `chmod 600 {}` mends that",
        path.display(), path.display()
    )]
    SecretOpen {
        /// The file.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
    /// A file with a secret belongs to another user, who can read and change it.
    #[error(
        "{}: it holds a secret and belongs to user {owner}, and this process to user {user}; \
         the file must be the process's own, or root's",
        path.display()
    )]
    SecretOwner {
        /// The file.
        path: PathBuf,
        /// The user that owns the file.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// A secret that was handed over in a pipe is not there any more.
    #[error(
        "EGRET_SECRET_FD hands over a secret, and descriptor {number} {found}: the secret was taken \
         already, or the pipe was not passed on. The first program of a process of `egret run` takes \
         it, for itself alone; process {parent} ({name}) started this one. Join in one program of \
         each process, pass the descriptor on (`pass_fds` in Python), or give this program a \
         secret by EGRET_SECRET_FILE"
    )]
    SecretTaken {
        /// The descriptor.
        number: String,
        /// What it is now.
        found: &'static str,
        /// The process that started this one, 0 if that is not to be seen.
        parent: i32,
        /// Its name.
        name: String,
    },
    /// A pipe with a secret cannot be read.
    #[error("EGRET_SECRET_FD={said} hands over a secret in a pipe that cannot be read: {why}")]
    SecretPipe {
        /// What the variable says.
        said: String,
        /// Why not.
        why: String,
    },
    /// Slurm or `mpiexec` has started this process as one of several, and none of them can open their registry: it
    /// needs the secret of the pool and the key that belongs to the secret.
    #[error(
        "{by} has started this process as one of several, of which rank 0 opens the registry, and {why}: \
         `egret secret pool.secret`, in a directory that all their machines have, makes a secret and its key; \
         then `export EGRET_SECRET_FILE=$PWD/pool.secret`"
    )]
    TaskSecret {
        /// Who has started it.
        by: Origin,
        /// What is missing.
        why: String,
    },
    /// Rank 0 of a step of Slurm cannot listen at the port where the others look for the registry.
    #[error(
        "rank 0 opens the registry at port {port}, which follows from the numbers of the job and the step or was \
         reserved by Slurm, and cannot: {why}; `srun --resv-ports=1` gives the step another port, \
         `srun --mpi=pmi2` needs none, and EGRET_REGISTRY names an `egret registry` instead"
    )]
    TaskPort {
        /// The port.
        port: u16,
        /// Why not.
        why: NicError,
    },
    /// Rank 0 of a step of Slurm is not on the machine where the others look for the registry.
    #[error(
        "the other tasks look for the registry on {host}, the first machine of the step, and rank 0, which \
         opens it, is on another one: leave the tasks in their order (`srun --distribution`), \
         use `srun --mpi=pmi2`, or set EGRET_REGISTRY to that of an `egret registry`"
    )]
    TaskPlace {
        /// The first machine.
        host: String,
    },
    /// The launcher did not pass on where the registry is.
    #[error("rank 0 says over PMI (PMI_FD={fd}) where the registry is, and {why}")]
    Pmi {
        /// The number of the connection to the launcher.
        fd: i32,
        /// What happened.
        why: String,
    },
    /// A variable of the environment is no text.
    #[error("{variable} is not valid UTF-8")]
    VariableNotText {
        /// Which.
        variable: String,
    },
}

/// Where the value of a setting comes from; the [module](crate::settings) has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The default.
    Default,
    /// A file.
    File(PathBuf),
    /// The environment.
    Environment,
    /// Slurm, which has started this process as one of several.
    Slurm,
    /// A launcher that speaks PMI, as `mpiexec` does, and has started this process as one of several.
    Pmi,
    /// A pipe with this number, named by the environment.
    Descriptor(u32),
    /// The program's code.
    Code,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment => f.write_str("environment"),
            Self::Slurm => f.write_str("Slurm"),
            Self::Pmi => f.write_str("PMI"),
            Self::Descriptor(number) => write!(f, "descriptor {number}"),
            Self::Code => f.write_str("program"),
        }
    }
}

/// What helps where the registry cannot be reached.
fn advice(why: &MessageError) -> &'static str {
    match why {
        MessageError::NoLink(LinkError::Connect(why)) if why.is_secret_refused() => {
            "EGRET_SECRET_FILE must be the file that the registry was opened with"
        }
        MessageError::NoLink(LinkError::Connect(why)) if why.is_key_refused() => {
            "the file in EGRET_SECRET_FILE says the key of another registry: take that of the \
             operator who opened this one"
        }
        _ => {
            "is it started (`egret run`, `Registry::open`; under `srun` by rank 0, whose error says more), and \
             at this address (EGRET_REGISTRY)?"
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use egret_net::vi::ConnectError;

    use super::*;

    #[test]
    fn join_errors_say_what_helps() {
        let text = |why: ConnectError| {
            let why = MessageError::NoLink(LinkError::Connect(why));
            JoinError::NoRegistry { address: "a:1".to_owned(), why }.to_string()
        };
        let other_secret = text(ConnectError::OtherSecretOrKey);
        assert!(other_secret.ends_with("the file that the registry was opened with"));
        assert!(text(ConnectError::OtherKey).contains("the key of another registry"));
        let nobody = text(ConnectError::NicDown);
        assert!(nobody.contains("a:1") && nobody.contains("EGRET_REGISTRY"), "{nobody}");
    }
}
