//! The registry of a job that Slurm or `mpiexec` has started, without a launcher of egret's: the process of rank 0 opens
//! it when it joins, and keeps it until the others have left.

use std::future::poll_fn;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::task::{Poll, Waker};

use egret_net::fabric::{OpenError, place::ListenAddress};
use egret_net::rt::{self, Deadline};
use egret_net::sync::Mutex;

use super::pmi;
use crate::pool::JoinError;
use crate::registry::{Operator, Registry, RegistryOptions};
use crate::settings::{Config, LaunchedTask, RegistryPlace, SettingKey};

/// What a launched process joins by: its configuration with the registry in it, and the registry if it has opened that.
pub(super) type LaunchedJoin = (Config, Option<RegistryKeeper>);

/// Finds the registry of the job that this process was launched in, or opens it if this is rank 0; `None` if the process
/// was not launched so. Waits for the other processes if the launcher speaks PMI.
pub(super) fn meet(config: &Config) -> Result<Option<LaunchedJoin>, JoinError> {
    let Some(task) = config.settings.task().filter(|_| config.over.is_none()) else {
        return Ok(None);
    };
    if config.settings.secret()?.is_none() && !config.is_insecure {
        let why = "there is no secret".to_owned();
        return Err(JoinError::TaskSecret { by: task.by.clone(), why });
    }
    if task.rank == 0 {
        let registry = open_and_share(config, task)?;
        let config = completed(config, task, Some(registry.address()));
        return Ok(Some((config, Some(RegistryKeeper(registry)))));
    }
    let RegistryPlace::Pmi(fd) = task.place else {
        return Ok(Some((completed(config, task, None), None)));
    };
    let none = || JoinError::Pmi { fd, why: "it has none: its own error says why".to_owned() };
    let address = share(config, fd, None)?.ok_or_else(none)?;
    Ok(Some((completed(config, task, Some(&address)), None)))
}

/// The same on a thread of its own, for those who await it.
pub(super) async fn meet_elsewhere(config: Config) -> Result<Option<LaunchedJoin>, JoinError> {
    type Outcome = Result<Option<LaunchedJoin>, JoinError>;
    let shared: Arc<Mutex<(Option<Outcome>, Option<Waker>)>> = Arc::default();
    let outcome = Arc::clone(&shared);
    let thread = rt::spawn("egret join", move || {
        let met = meet(&config);
        let waker = {
            let mut shared = outcome.lock();
            shared.0 = Some(met);
            shared.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    });
    drop(thread.map_err(JoinError::Thread)?);
    poll_fn(move |context| {
        let mut shared = shared.lock();
        shared.1 = Some(context.waker().clone());
        shared.0.take().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// The configuration with the name of the pool, and the address of the registry if it was found out.
fn completed(config: &Config, task: &LaunchedTask, address: Option<&str>) -> Config {
    let mut config = config.clone();
    let pool = task.pool.as_deref().filter(|_| !config.settings.is_said(SettingKey::Pool));
    for (key, value) in [(SettingKey::Pool, pool), (SettingKey::Registry, address)] {
        if let Some(value) = value {
            config.settings.say(key, value.to_owned(), task.by.clone());
        }
    }
    config
}

/// Opens the registry, and says to those who wait for it where it is, or that there is none.
fn open_and_share(config: &Config, task: &LaunchedTask) -> Result<Registry, JoinError> {
    let opened = open(config, task);
    if let RegistryPlace::Pmi(fd) = task.place {
        let shared = share(config, fd, Some(opened.as_ref().ok().map(Registry::address)));
        // Why it is not open says more.
        return opened.and_then(|registry| shared.map(|_| registry));
    }
    opened
}

/// Shares where the registry is, by PMI.
fn share(config: &Config, fd: i32, own: Option<Option<&str>>) -> Result<Option<String>, JoinError> {
    let deadline: Deadline = config.settings.needed(SettingKey::Deadline)?;
    pmi::share(fd, own, deadline.until()).map_err(|why| JoinError::Pmi { fd, why })
}

fn open(config: &Config, task: &LaunchedTask) -> Result<Registry, JoinError> {
    let settings = &config.settings;
    let pool: String = completed(config, task, None).settings.needed(SettingKey::Pool)?;
    let options = RegistryOptions::new(&pool, settings.needed(SettingKey::Size)?);
    let options = match settings.secret()? {
        Some(secret) if secret.key().is_none() => options.secret(secret),
        Some(secret) => {
            let wrong = |why| JoinError::TaskSecret { by: task.by.clone(), why };
            let file: Option<String> = settings.value(SettingKey::SecretFile)?;
            let none = "the secret names a key, which is not there without EGRET_SECRET_FILE";
            let file = file.ok_or_else(|| wrong(none.to_owned()))?;
            let operator =
                Operator::load(Path::new(&file)).map_err(|why| wrong(why.to_string()))?;
            if operator.secret().key() != secret.key() {
                return Err(wrong(format!("another secret than that of {file} is set as well")));
            }
            options.operator(&operator)
        }
        None => options.insecure_without_secret(),
    };
    let place = place(config, task)?;
    Registry::open(options.listen(&place)).map_err(|why| match (why, &task.place) {
        (
            JoinError::RegistryNic(why @ OpenError::Taken { .. }),
            RegistryPlace::Port { port, .. },
        ) => JoinError::TaskPort { port: *port, why },
        (why, _) => why,
    })
}

/// Where the registry listens.
fn place(config: &Config, task: &LaunchedTask) -> Result<String, JoinError> {
    let listen: Option<String> = config.settings.value(SettingKey::Listen)?;
    Ok(match (&task.place, listen) {
        (RegistryPlace::Port { host, is_here: false, .. }, _) if !task.is_on_one_machine => {
            return Err(JoinError::TaskPlace { host: host.clone() });
        }
        (RegistryPlace::Port { host, port, .. }, _) => own_place(host, *port),
        (RegistryPlace::Pmi(_), _) if task.is_on_one_machine => String::new(),
        // Its port, if it says one, is that of the node.
        (RegistryPlace::Pmi(_), Some(listen)) => ListenAddress::of(&listen)?.bind.ip().to_string(),
        (RegistryPlace::Pmi(_), None) => "reachable".to_owned(),
    })
}

/// Where to listen so that others reach this machine under this name: at the address that they know, or, if this machine
/// has another idea of its name, at all addresses.
fn own_place(host: &str, port: u16) -> String {
    let mut found = (host, port).to_socket_addrs().into_iter().flatten();
    let is_own = |at: &SocketAddr| {
        let place = ListenAddress::of(&at.ip().to_string());
        place.is_ok_and(|place| place.interface.is_some())
    };
    let is_reached = |at: &SocketAddr| host == at.ip().to_string() || !at.ip().is_loopback();
    let own = found.find(|at| is_reached(at) && is_own(at));
    own.map_or_else(|| format!("0.0.0.0:{port}"), |at| at.to_string())
}

/// Closes the registry that this process has opened for its job, unless the others still need it.
#[derive(Debug)]
pub(super) struct RegistryKeeper(Registry);

impl RegistryKeeper {
    /// Waits until all others have left, and closes the registry. If they have not in time it stays open for as long as
    /// the process runs.
    pub(super) fn end(self, deadline: Deadline) {
        if !self.0.wait_deserted(deadline) {
            tracing::warn!(
                ?deadline,
                "rank 0 has left, and others have not: they lose their registry when its process ends"
            );
            std::mem::forget(self.0);
        }
    }
}
