//! `egret registry`: runs the registry of a pool in a process of its own.

use std::fs;
use std::io::Write;
use std::num::NonZeroU32;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use egret::node::registry::{Operator, Registry, RegistryOptions};
use egret::node::settings::Settings;
use egret::vi::Secret;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Signal, getpid, kill_process};

use crate::log_lines;
use crate::monitor::{self, MonitorKind};
use crate::run::{Signals, ends, seconds, seconds_or_none, setting};
use crate::system::{quoted, wait_for};

/// Run the registry of a pool in a process of its own.
///
/// Nodes find each other there: by `egret run --registry ADDRESS`, or by hand with the settings that the registry
/// prints when it listens. With --state the registry keeps its state on disk: killed and started again with the same
/// arguments, it goes on where it was, and its members come back by themselves. Without, the pool ends with it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP, group = clap::ArgGroup::new("kind").required(true))]
pub(crate) struct RegistryArgs {
    /// The pool has so many nodes
    #[arg(short = 'n', long, value_name = "N", group = "kind")]
    nodes: Option<NonZeroU32>,
    /// Nodes come and go: the pool has no size, and the registry numbers its nodes as they join
    #[arg(long, group = "kind")]
    open: bool,
    /// The name of the pool; else that of the settings (EGRET_POOL), which is `pool` unless they say another
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Keep the state of the registry in this directory, which is made if it is not there
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Listen here: an address as 0.0.0.0:7411, or `reachable`
    #[arg(long, value_name = "ADDRESS", default_value = "", hide_default_value = true)]
    listen: String,
    /// The secret of the pool, with the private key in FILE.key beside it; both are made if they are not there
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// After a restart, wait so many seconds for the members before they are declared dead
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds_or_none, requires = "state")]
    resume: Duration,
    /// Declare a node dead that has not answered for so many seconds, instead of 1.75: more for nodes that a debugger
    /// stops
    #[arg(long, value_name = "S", value_parser = seconds)]
    patience: Option<Duration>,
}

/// What the registry proves, and where nodes find the secret.
struct PoolSecret {
    operator: Option<Operator>,
    secret: Secret,
    /// The setting by which nodes have the secret.
    setting: String,
    /// The file of the private key, if it was made just now.
    made: Option<PathBuf>,
}

/// Serves until a signal ends the process.
pub(crate) fn run(args: &RegistryArgs) -> Result<()> {
    // Before there is another thread.
    let signals = Signals::block()?;
    let log = log_lines::begin()?;
    let served = serve(args, &signals);
    log.end();
    served
}

fn serve(args: &RegistryArgs, signals: &Signals) -> Result<()> {
    let pool = match &args.pool {
        Some(pool) => pool.clone(),
        None => setting(&Settings::report()?, "pool").unwrap_or_default(),
    };
    if let Some(state) = &args.state {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(state);
        made.with_context(|| format!("making the directory {}", state.display()))?;
    }
    let secret = PoolSecret::find(args, &pool)?;
    let registry = Registry::open(args.options(&pool, &secret)).context("opening the registry")?;
    let registry = Arc::new(registry);
    monitor::start(&registry, MonitorKind::Registry, &pool, None);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", args.described(&pool, &registry, &secret))?;
    out.flush()?;
    drop((out, secret));
    loop {
        while let Some(told) = signals.try_next() {
            if ends(told.signal) {
                registry.close();
                return Ok(());
            }
            if told.signal == Signal::TSTP {
                // The time until the process goes on does not count for the members.
                let _ = kill_process(getpid(), Signal::STOP);
            }
        }
        wait_for(&mut [PollFd::new(signals, PollFlags::IN)], None);
    }
}

impl RegistryArgs {
    fn options(&self, pool: &str, secret: &PoolSecret) -> RegistryOptions {
        let options = match self.nodes {
            Some(nodes) => RegistryOptions::new(pool, nodes.get()),
            None => RegistryOptions::open(pool),
        };
        let options = options.listen(&self.listen).resume_within(self.resume);
        let options = match self.patience {
            Some(patience) => options.patience(patience),
            None => options,
        };
        let options = match &secret.operator {
            Some(operator) => options.operator(operator),
            None => options.secret(secret.secret.clone()),
        };
        match &self.state {
            Some(state) => options.state(state),
            None => options,
        }
    }

    /// What people are told of a registry that listens, in one line.
    fn described(&self, pool: &str, registry: &Registry, secret: &PoolSecret) -> String {
        let kind = match self.nodes {
            Some(nodes) => format!("closed pool {pool:?} of {nodes} nodes"),
            None => format!("open pool {pool:?}"),
        };
        let address = registry.address();
        let kept = match &self.state {
            Some(state) => format!("its state in {}", state.display()),
            None => "no state on disk".to_owned(),
        };
        let made = secret.made.as_deref().map(|file| {
            format!("; made the private key of the operator in {} (mode 0600)", file.display())
        });
        format!(
            "the registry of the {kind} listens at {address}, with {kept}; nodes reach it by EGRET_POOL={} \
             EGRET_REGISTRY={address} {}{}",
            quoted(pool),
            secret.setting,
            made.unwrap_or_default()
        )
    }
}

impl PoolSecret {
    fn find(args: &RegistryArgs, pool: &str) -> Result<Self> {
        let file = args.secret.clone().or_else(|| std::env::var_os(SECRET_FILE).map(Into::into));
        match (file, std::env::var(SECRET)) {
            (Some(file), _) if args.secret.is_some() => Self::of_file(&file),
            (_, Ok(text)) => Self::of_text(&text),
            // A file that others have named is there, or the name is wrong.
            (Some(file), _) => Self::of_operator(&file, None),
            (None, Err(_)) => match &args.state {
                Some(state) => Self::of_file(&state.join("secret")),
                None => Self::of_file(Path::new(&format!("{}.secret", pool.replace('/', "_")))),
            },
        }
    }

    /// The secret and the key of an operator, which are made if they are not there.
    fn of_file(file: &Path) -> Result<Self> {
        let file = &absolute(file).with_context(|| format!("finding {}", file.display()))?;
        let is_new = !file.exists();
        if is_new {
            Operator::random().save(file).context("making the secret of the pool")?;
        }
        Self::of_operator(file, is_new.then(|| Operator::key_file(file)))
    }

    fn of_operator(file: &Path, made: Option<PathBuf>) -> Result<Self> {
        let file = absolute(file).with_context(|| format!("finding {}", file.display()))?;
        let operator = Operator::load(&file)?;
        let secret = operator.secret().clone();
        let setting = format!("{SECRET_FILE}={}", quoted(&file.to_string_lossy()));
        Ok(Self { operator: Some(operator), secret, setting, made })
    }

    /// The secret that the environment says.
    fn of_text(text: &str) -> Result<Self> {
        let secret = Secret::new(text.trim().as_bytes());
        if !secret.is_random() {
            bail!(
                "{SECRET} is no random secret, and could be guessed: `egret secret FILE` makes one, for --secret FILE"
            );
        }
        if let Some(key) = secret.key() {
            bail!(
                "{SECRET} names the key {key} of a registry, whose private half is in a file: say --secret FILE, \
                 with FILE.key beside it"
            );
        }
        let setting = format!("the {SECRET} of this process");
        Ok(Self { operator: None, secret, setting, made: None })
    }
}

const SECRET: &str = "EGRET_SECRET";
const SECRET_FILE: &str = "EGRET_SECRET_FILE";

const HELP: &str = "\
Examples:
  egret registry --open --state /var/lib/egret/pool --listen 0.0.0.0:7411
                                          a pool whose registry may be killed and started again
  egret registry -n 4 --secret pool.secret
                                          a pool of four nodes, on this machine
  EGRET_SECRET_FILE=pool.secret egret run -n 4 --registry 127.0.0.1:7411 ./heat
                                          four processes that join it

The secret of the pool is that of --secret FILE, else of EGRET_SECRET, else of EGRET_SECRET_FILE, else the file
`secret` in the directory of --state, else NAME.secret in the working directory; egret.toml has no say in this. But for
that of EGRET_SECRET_FILE, a file that is not there is made, with the private key of the registry in FILE.key, both for
you alone. Nodes need FILE, and only the operator needs FILE.key, who declares nodes dead; neither is ever shown.

INT, TERM, HUP and QUIT end the registry with exit code 0: with --state its members wait for it to be started again
(EGRET_REGISTRY_GRACE, 30s), without they have lost it.";
