//! The registry of a job: one in the launcher, or another process that serves the pool already.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use egret::node::registry::{Operator, OperatorLink, Registry, RegistryOptions};
use egret::node::settings::{Settings, SettingsReport};
use egret::node::{Events, JoinError, RegistryRefusal};
use egret::rt::{self, Deadline};
use egret::vi::Secret;
use zeroize::Zeroizing;

use super::args::Job;
use super::environment::Environment;
use crate::system::tell;

/// The registry of a job.
#[derive(Debug)]
pub(super) enum JobRegistry {
    /// In this process, for this job.
    Own(Arc<Registry>),
    /// In another process, which is told how processes end if this one has the operator's key.
    Other(Option<EndReports>),
}

/// Reports of ended processes, which a thread sends: the registry may be out of reach for a while.
#[derive(Debug)]
pub(super) struct EndReports {
    reports: Sender<(u32, String)>,
    /// Hangs up when the thread has ended.
    done: Receiver<()>,
}

impl JobRegistry {
    /// Opens the registry of the job, or finds the one that the job says, and notes what its processes need to know.
    /// `has_others` says whether processes on other machines are to reach it.
    pub(super) fn open(job: &Job, environment: &mut Environment, has_others: bool) -> Result<Self> {
        match &job.options.registry {
            None => {
                open_own(job, environment, has_others).map(|registry| Self::Own(Arc::new(registry)))
            }
            Some(address) => find_other(job, address, environment).map(Self::Other),
        }
    }

    /// What happens in the pool, if this process knows.
    pub(super) fn events(&self) -> Option<Events> {
        match self {
            Self::Own(registry) => Some(registry.events()),
            Self::Other(_) => None,
        }
    }

    /// The process of a rank has ended.
    pub(super) fn ended(&self, rank: u32, why: &str) {
        match self {
            Self::Own(registry) => registry.ended(rank, why),
            Self::Other(Some(reports)) => {
                // A thread that is gone has said why.
                let _ = reports.reports.send((rank, why.to_owned()));
            }
            Self::Other(None) => {}
        }
    }

    /// Waits a little until the registry has been told of all ends: the next job may have the same ranks.
    pub(super) fn finish(self) {
        if let Self::Other(Some(EndReports { reports, done })) = self {
            drop(reports);
            let until = rt::now() + TOLD_WITHIN;
            while done.try_recv() != Err(TryRecvError::Disconnected) && rt::now() < until {
                rt::sleep(LOOK_AGAIN);
            }
        }
    }
}

fn open_own(job: &Job, environment: &mut Environment, has_others: bool) -> Result<Registry> {
    let options = if job.options.open {
        RegistryOptions::open(&environment.pool)
    } else {
        RegistryOptions::new(&environment.pool, job.processes.get())
    };
    let options = match job.options.patience {
        Some(patience) => options.patience(patience),
        None => options,
    };
    let listen = match (&job.options.listen, has_others) {
        (Some(listen), _) => listen.as_str(),
        (None, true) => environment.listen.as_deref().unwrap_or("reachable"),
        (None, false) => "",
    };
    let options = options.secret(Secret::random()).listen(listen);
    let registry = Registry::open(options).context("opening the registry")?;
    let secret =
        registry.secret().and_then(Secret::reveal).context("a random secret has a text")?;
    environment.secret = secret;
    registry.address().clone_into(&mut environment.registry);
    Ok(registry)
}

/// Finds the registry at `address`, with pool and secret of the settings.
fn find_other(
    job: &Job,
    address: &str,
    environment: &mut Environment,
) -> Result<Option<EndReports>> {
    let settings = Settings::report()?;
    environment.pool = setting(&settings, "pool").unwrap_or_default();
    address.clone_into(&mut environment.registry);
    environment.secret = secret_text()?.with_context(|| {
        format!(
            "joining the pool {:?} at {address} needs its secret: EGRET_SECRET_FILE names the file that \
             `egret registry` says",
            environment.pool
        )
    })?;
    let file = setting(&settings, "secret_file");
    let file = file.filter(|file| Operator::key_file(Path::new(file)).exists());
    let Some(file) = file else {
        tell(
            "this process has no private key of the registry (a file .key beside the one of EGRET_SECRET_FILE): \
             nodes learn how others end by their links alone",
        );
        return Ok(None);
    };
    let operator = Operator::load(Path::new(&file))?;
    let link = match operator.connect(&environment.pool, address, REACHED_WITHIN) {
        Ok(link) => link,
        Err(why @ JoinError::Refused { why: RegistryRefusal::NotOperator, .. }) => {
            tell(&format!("{why}; nodes learn how others end by their links alone"));
            return Ok(None);
        }
        Err(why) => return Err(why.into()),
    };
    check(job, &link)?;
    report_ends(link).map(Some)
}

/// Checks that the pool is the one that this job needs.
fn check(job: &Job, link: &OperatorLink) -> Result<()> {
    let (processes, size) = (job.processes.get(), link.size());
    match (job.options.open, link.is_open()) {
        (true, false) => {
            bail!("the pool of the registry is closed, of {size} nodes: leave out --open")
        }
        (false, true) => bail!("the pool of the registry is open: say --open"),
        (false, false) if processes != size => {
            bail!(
                "the pool of the registry has {size} nodes, and the job {processes}: say -n {size}"
            )
        }
        _ => Ok(()),
    }
}

/// The text of the secret that the settings say.
fn secret_text() -> Result<Option<Zeroizing<String>>> {
    let Some(secret) = Settings::read()?.secret()? else { return Ok(None) };
    let text = secret.reveal();
    if text.is_none() {
        bail!(
            "the secret of the pool is no random one, and is not handed over: `egret secret FILE` makes one"
        );
    }
    Ok(text)
}

/// Starts the thread that reports to the registry how processes end.
fn report_ends(link: OperatorLink) -> Result<EndReports> {
    let (reports, ended) = mpsc::channel::<(u32, String)>();
    let (alive, done) = mpsc::channel();
    let thread = rt::spawn("egret operator", move || {
        let _alive = alive;
        for (rank, why) in ended {
            if let Err(cause) = link.ended(rank, &why, Deadline::DEFAULT) {
                tell(&format!("the registry was not told that {why} (rank {rank}): {cause}"));
            }
        }
    });
    drop(thread.context("starting a thread")?);
    Ok(EndReports { reports, done })
}

/// The value of a setting.
pub(crate) fn setting(settings: &SettingsReport, name: &str) -> Option<String> {
    settings.settings.iter().find(|setting| setting.name == name)?.value.clone()
}

/// How long the registry may take to answer when a job begins.
const REACHED_WITHIN: Duration = Duration::from_secs(10);
/// How long the end of a job waits for the registry.
const TOLD_WITHIN: Duration = Duration::from_secs(1);
/// Time until the end of a job looks again whether the registry has been told.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
