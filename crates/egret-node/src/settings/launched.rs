//! What Slurm, or a launcher that speaks PMI, says to a process that it has started: who the process is among the others,
//! and how they find their registry.

use std::collections::BTreeMap;

use super::node_list::expand_node_list;
use super::{Origin, SettingKey, Settings};

/// A process of a job that `srun` or `mpiexec` has started, without `egret run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LaunchedTask {
    /// Who says so.
    pub(crate) by: Origin,
    pub(crate) rank: u32,
    size: u32,
    local_rank: Option<u32>,
    /// The name of the pool, unless another one is said: that of the step.
    pub(crate) pool: Option<String>,
    /// Whether all processes of the job are on this machine.
    pub(crate) is_on_one_machine: bool,
    /// Where the process of rank 0 opens the registry.
    pub(crate) place: RegistryPlace,
}

/// Where the process of rank 0 opens the registry of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RegistryPlace {
    /// Where it likes: it says so to the others over the connection with this number, to the launcher.
    Pmi(i32),
    /// At a port that all compute, on the first machine of the step.
    Port {
        /// The machine, as Slurm calls it.
        host: String,
        port: u16,
        /// Whether this process is on it.
        is_here: bool,
    },
}

impl LaunchedTask {
    /// The task that the variables describe; `None` if they describe none.
    pub(super) fn of(environment: &BTreeMap<String, String>) -> Option<Self> {
        let variables = Variables(environment);
        // Its processes have the variables of the one task of Slurm that has started them.
        if variables.text("OMPI_COMM_WORLD_SIZE").is_some() {
            return None;
        }
        Self::of_pmi(&variables).or_else(|| Self::of_slurm(&variables))
    }

    /// A process of `mpiexec` as Hydra has it, or of `srun --mpi=pmi2`.
    fn of_pmi(variables: &Variables<'_>) -> Option<Self> {
        let (rank, size) = (variables.number("PMI_RANK")?, variables.number("PMI_SIZE")?);
        let fd = i32::try_from(variables.number("PMI_FD")?).ok()?;
        let (near, by) = (variables.number("MPI_LOCALNRANKS"), Origin::Pmi);
        // `mpiexec` in an allocation starts its processes below one task of Slurm on each machine.
        let step = SlurmStep::of(variables).filter(|_| near.is_none());
        let is_on_one_machine = match (&step, near) {
            (Some(step), _) => step.hosts.len() == 1,
            (None, near) => near == Some(size),
        };
        let local_rank = variables.number("MPI_LOCALRANKID");
        let local_rank = local_rank.or_else(|| step.as_ref().and_then(|step| step.local_rank));
        let pool = step.map(|step| step.name());
        let place = RegistryPlace::Pmi(fd);
        Some(Self { by, rank, size, local_rank, pool, is_on_one_machine, place })
    }

    /// A task of a step of Slurm.
    fn of_slurm(variables: &Variables<'_>) -> Option<Self> {
        let step = SlurmStep::of(variables)?;
        let rank = variables.number("SLURM_PROCID")?;
        let size = variables.number("SLURM_STEP_NUM_TASKS");
        let size = size.or_else(|| variables.number("SLURM_NTASKS"))?;
        let is_on_one_machine = step.hosts.len() == 1;
        let is_here = variables.number("SLURM_NODEID").is_none_or(|number| number == 0);
        let host = if is_on_one_machine { LOOPBACK } else { &step.hosts[0] };
        let place = RegistryPlace::Port { host: host.to_owned(), port: step.port(), is_here };
        let (by, local_rank, pool) = (Origin::Slurm, step.local_rank, Some(step.name()));
        Some(Self { by, rank, size, local_rank, pool, is_on_one_machine, place })
    }
}

impl Settings {
    /// Takes what a launcher says where nothing else says it.
    pub(super) fn launch(&mut self, task: LaunchedTask) {
        let text = |number: u32| Some(number.to_string());
        let (registry, listen) = match &task.place {
            RegistryPlace::Pmi(_) => (None, None),
            RegistryPlace::Port { host, port, .. } => {
                // A machine may have a name of its own on loopback.
                let listen = (!task.is_on_one_machine).then(|| "reachable".to_owned());
                (Some(format!("{host}:{port}")), listen)
            }
        };
        for (key, value) in [
            (SettingKey::Rank, text(task.rank)),
            (SettingKey::Size, text(task.size)),
            (SettingKey::LocalRank, task.local_rank.and_then(text)),
            (SettingKey::Registry, registry),
            (SettingKey::Listen, listen),
        ] {
            if let Some(value) = value.filter(|_| !self.is_said(key)) {
                self.say(key, value, task.by.clone());
            }
        }
        self.task = Some(task);
    }

    /// Forgets what a launcher has said: the program knows a registry.
    pub(super) fn leave_launched(&mut self) {
        if let Some(task) = self.task.take() {
            self.said.retain(|_, (_, origin)| *origin != task.by);
        }
    }
}

/// A step of a job of Slurm.
struct SlurmStep {
    job: u32,
    step: u32,
    hosts: Vec<String>,
    local_rank: Option<u32>,
    /// The first of the ports that Slurm has reserved for the step.
    reserved: Option<u16>,
}

impl SlurmStep {
    fn of(variables: &Variables<'_>) -> Option<Self> {
        let job = variables.number("SLURM_JOB_ID")?;
        let step = variables.number("SLURM_STEP_ID").filter(|step| *step < OWN_STEPS)?;
        let hosts = variables.text("SLURM_STEP_NODELIST");
        let hosts = hosts.or_else(|| variables.text("SLURM_NODELIST"))?;
        let hosts = expand_node_list(hosts).filter(|hosts| !hosts.is_empty())?;
        let ports = variables.text("SLURM_STEP_RESV_PORTS").unwrap_or_default();
        let reserved = ports.split(['-', ',']).next().and_then(|port| port.parse().ok());
        let local_rank = variables.number("SLURM_LOCALID");
        Some(Self { job, step, hosts, local_rank, reserved })
    }

    fn name(&self) -> String {
        format!("slurm-{}.{}", self.job, self.step)
    }

    /// The port of the registry. Steps that run at the same time have numbers near each other, and so other ports.
    fn port(&self) -> u16 {
        let number = u64::from(self.job) * STEPS_APART + u64::from(self.step);
        let computed = PORT_FIRST + u16::try_from(number % PORTS).expect("a small number");
        self.reserved.unwrap_or(computed)
    }
}

struct Variables<'a>(&'a BTreeMap<String, String>);

impl Variables<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.text(name)?.parse().ok()
    }
}

/// Numbers of steps from here on are those of Slurm itself: the shell of `salloc`, and the script of `sbatch`.
const OWN_STEPS: u32 = 0xffff_fff0;
const LOOPBACK: &str = "127.0.0.1";
/// The ports that are computed: below those that the system gives to connections, which begin at 32768.
const PORT_FIRST: u16 = 20_000;
const PORTS: u64 = 12_768;
/// How far the first steps of two jobs are apart; it has no divisor in common with the number of ports.
const STEPS_APART: u64 = 101;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// What `srun -N2 -n4` of Slurm 22.05 gives the third of four tasks.
    const SLURM: &str = "SLURMD_NODENAME=n1 SLURM_CLUSTER_NAME=egret SLURM_CPUS_ON_NODE=3 SLURM_GTIDS=0,1,2 \
        SLURM_JOBID=2 SLURM_JOB_ID=2 SLURM_JOB_NODELIST=n[1-3] SLURM_JOB_NUM_NODES=3 \
        SLURM_LAUNCH_NODE_IPADDR=10.214.8.254 SLURM_LOCALID=2 SLURM_NNODES=2 SLURM_NODEID=0 SLURM_NODELIST=n[1-3] \
        SLURM_NPROCS=4 SLURM_NTASKS=4 SLURM_PROCID=2 SLURM_STEPID=0 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n[1-2] \
        SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_TASKS_PER_NODE=3,1 SLURM_TASKS_PER_NODE=3,1 \
        SLURM_TOPOLOGY_ADDR=n1";
    /// What `mpiexec -n 2` of MPICH 4.0 gives the second of two processes.
    const HYDRA: &str = "MPIR_CVAR_CH3_INTERFACE_HOSTNAME=a MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1 PMI_RANK=1 PMI_FD=8 PMI_SIZE=2";

    fn settings(variables: &str) -> Settings {
        let variables = variables.split_whitespace().map(|both| both.split_once('=').unwrap());
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Settings::read_from(variables, Path::new("/nowhere")).unwrap()
    }

    fn said(settings: &Settings, name: &str) -> (String, Origin) {
        let setting = settings.all().into_iter().find(|setting| setting.name == name).unwrap();
        (setting.value.unwrap_or_default(), setting.origin)
    }

    #[test]
    fn a_task_of_slurm_is_a_rank_and_its_registry_is_on_the_first_machine() {
        let read = settings(SLURM);
        for (name, value) in [
            ("rank", "2"),
            ("size", "4"),
            ("local_rank", "2"),
            ("registry", "n1:20202"),
            ("listen", "reachable"),
        ] {
            assert_eq!(said(&read, name), (value.to_owned(), Origin::Slurm), "{name}");
        }
        let task = read.task().unwrap();
        assert_eq!((task.rank, task.pool.as_deref()), (2, Some("slurm-2.0")));
        let here = RegistryPlace::Port { host: "n1".to_owned(), port: 20202, is_here: true };
        assert!(task.place == here && !task.is_on_one_machine);
        let reserved = settings(&format!("{SLURM} SLURM_STEP_RESV_PORTS=12003-12006"));
        assert_eq!(said(&reserved, "registry").0, "n1:12003");
        let alone = settings(&SLURM.replace("n[1-2]", "n7"));
        assert_eq!(said(&alone, "registry").0, "127.0.0.1:20202");
        assert_eq!(said(&alone, "listen"), (String::new(), Origin::Default));
    }

    #[test]
    fn steps_have_ports_of_their_own_below_those_of_the_system() {
        let port = |job: u32, step: u32| {
            let named = format!("SLURM_JOB_ID={job} SLURM_STEP_ID={step}");
            let read = SLURM.replace("SLURM_JOB_ID=2", "").replace("SLURM_STEP_ID=0", &named);
            said(&settings(&read), "registry").0[3..].parse::<u16>().unwrap()
        };
        let steps = (0..100).flat_map(|step| (70_000..70_126).map(move |job| (job, step)));
        let ports: std::collections::BTreeSet<_> =
            steps.map(|(job, step)| port(job, step)).collect();
        assert_eq!(ports.len(), 12_600, "126 jobs of 100 steps");
        assert!(*ports.first().unwrap() >= 20_000 && *ports.last().unwrap() < 32_768);
        assert!((20_000..32_768).contains(&port(u32::MAX, 0xffff_ffef)));
    }

    #[test]
    fn a_process_of_mpiexec_is_a_rank_and_finds_its_registry_by_pmi() {
        let read = settings(HYDRA);
        for (name, value) in [("rank", "1"), ("size", "2"), ("local_rank", "1")] {
            assert_eq!(said(&read, name), (value.to_owned(), Origin::Pmi), "{name}");
        }
        assert!(said(&read, "registry").0.contains("rank 0"));
        assert_eq!(read.value::<String>(SettingKey::Registry).unwrap(), None);
        let task = read.task().unwrap();
        assert!(task.place == RegistryPlace::Pmi(8) && task.is_on_one_machine);
        let some = settings(&HYDRA.replace("PMI_SIZE=2", "PMI_SIZE=3"));
        assert!(!some.task().unwrap().is_on_one_machine);
        // In an allocation: below one task of Slurm.
        let below = settings(&format!("{SLURM} {HYDRA}"));
        assert_eq!((said(&below, "rank").0, said(&below, "size").0), ("1".into(), "2".into()));
        assert_eq!(below.task().unwrap().pool, None);
        let srun = settings(&format!("{SLURM} PMI_FD=11 PMI_JOBID=2.0 PMI_RANK=2 PMI_SIZE=4"));
        let task = srun.task().unwrap();
        assert_eq!((task.rank, task.pool.as_deref()), (2, Some("slurm-2.0")));
        assert!(!task.is_on_one_machine && said(&srun, "local_rank").0 == "2");
    }

    #[test]
    fn who_says_who_and_where_is_no_task() {
        for nearer in ["EGRET_RANK=0", "EGRET_SIZE=4", "EGRET_REGISTRY=a:1", "EGRET_JOB=x"] {
            let read = settings(&format!("{SLURM} {HYDRA} {nearer}"));
            assert!(read.task().is_none(), "{nearer}");
            assert_eq!(said(&read, "local_rank").0, "", "{nearer}");
        }
        // The script of `sbatch`, the shell of `salloc`, outside of a step, below another launcher.
        for (one, other) in [
            ("SLURM_STEP_ID=0", "SLURM_STEP_ID=4294967291"),
            ("SLURM_STEP_ID=0", "SLURM_STEP_ID=4294967290"),
            ("SLURM_STEP_ID=0", ""),
            ("n[1-2]", "n[1-"),
            ("SLURM_PROCID=2", "OMPI_COMM_WORLD_SIZE=4 SLURM_PROCID=2"),
        ] {
            assert!(settings(&SLURM.replace(one, other)).task().is_none(), "{other}");
        }
        let mut read = settings(&format!("{SLURM} EGRET_LISTEN=eth1 EGRET_POOL=mine"));
        assert_eq!(said(&read, "listen"), ("eth1".to_owned(), Origin::Environment));
        assert_eq!(said(&read, "pool"), ("mine".to_owned(), Origin::Environment));
        read.say(SettingKey::Registry, "a:1".to_owned(), Origin::Code);
        assert!(read.task().is_none(), "the program knows one");
        assert_eq!(said(&read, "rank"), (String::new(), Origin::Default));
        assert_eq!(said(&read, "registry").0, "a:1");
    }
}
