//! One of the two processes that `egret bench idle` looks at.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use egret::fabric::Fabrics;
use egret::rt::{self, Deadline};
use egret::vi::{Address, Descriptor, Listener, Nic, NicOptions, Vi, ViError};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::peer::{Follower, PeerFigures, PeerTask};
use crate::side::{PATIENCE, acknowledge};
use crate::vi::duo::{WaitMode, options};

/// What is looked at.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum StillMeasure {
    /// Of the side that has more, or of both together.
    Memory { connections: u32, used: bool, both: bool },
    /// Of one who waits.
    Cpu { connections: u32, millis: u64 },
}

/// What one of the two processes is to have open.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stillness {
    pub(crate) fabric: String,
    pub(crate) what: StillMeasure,
    pub(crate) wait: WaitMode,
    /// What the nic of the one who listens is opened with.
    pub(crate) host: String,
    /// Of the other one, where that is.
    pub(crate) to: Option<String>,
}

/// Connections over which nothing goes, in a second process.
pub(crate) const STILL: PeerTask<Stillness> =
    PeerTask { name: "still", start: |plan, _| Ok(Box::new(Still::new(plan)?)) };

/// The process.
struct Still {
    plan: Stillness,
    nic: Nic,
    listener: Option<Listener>,
    open: Vec<Vi>,
}

impl Still {
    fn new(plan: Stillness) -> Result<Self> {
        let dials = plan.to.is_some();
        let host = if dials { format!("{}-dials", plan.host) } else { plan.host.clone() };
        let options_of_nic = NicOptions::new(&host).wait(plan.wait.of_nic());
        let nic = Fabrics::default().open(&plan.fabric, options_of_nic)?;
        let listen = |nic: &Nic| nic.listen(SERVICE, 0, &options(nic));
        let listener = (!dials).then(|| listen(&nic)).transpose()?;
        Ok(Self { plan, nic, listener, open: Vec::new() })
    }

    fn open_one(&mut self) -> Result<()> {
        let vi = match (&self.listener, &self.plan.to) {
            (Some(listener), _) => listener.wait_accept(PATIENCE)?,
            (None, to) => {
                let to = to.as_deref().context("who does not listen dials")?;
                let to = Address::new(to, SERVICE, 0);
                self.nic.wait_connect(&to, &options(&self.nic), PATIENCE)?
            }
        };
        match self.plan.what {
            StillMeasure::Memory { used: true, .. } => r#use(&vi)?,
            StillMeasure::Cpu { .. } if self.open.is_empty() => {
                vi.post_recv(Descriptor::new(vec![0_u8; 1]))?;
            }
            _ => {}
        }
        self.open.push(vi);
        Ok(())
    }
}

impl Follower for Still {
    fn host(&self) -> &str {
        self.nic.host()
    }

    /// Memory: has so many connections open, and says what is resident.
    /// CPU: connects, or waits so many milliseconds and says what part of them
    /// it used.
    fn follow(&mut self, number: u64) -> Result<PeerFigures> {
        match self.plan.what {
            StillMeasure::Cpu { .. } if !self.open.is_empty() => {
                Ok(vec![wait(&self.open[0], Duration::from_millis(number))?])
            }
            _ => {
                while (self.open.len() as u64) < number {
                    self.open_one()?;
                }
                let both = matches!(self.plan.what, StillMeasure::Memory { both: true, .. });
                Ok(vec![if both { shared_out()? } else { resident("Rss:")? }])
            }
        }
    }
}

/// Messages both ways, small ones and a large one: whatever is touched by use is touched.
fn r#use(vi: &Vi) -> Result<()> {
    let depth = usize::try_from(vi.nic().limits().queue_depth)?;
    for (count, len) in [(SMALL_MESSAGES.min(depth), 4), (1, LARGE_BYTES)] {
        for _ in 0..count {
            vi.post_recv(Descriptor::new(vec![0_u8; len]))?;
        }
        for _ in 0..count {
            vi.post_send(Descriptor::new(vec![1_u8; len]))?;
        }
        for _ in 0..count {
            let got = vi.recv_queue().wait(PATIENCE)?.ok()?.into_vec::<u8>();
            ensure!(got.len() == len && got.iter().all(|byte| *byte == 1), "a message was damaged");
        }
        for _ in 0..count {
            vi.send_queue().wait(PATIENCE)?.done()?;
        }
    }
    acknowledge(vi.nic());
    Ok(())
}

/// Waits in vain; the part of a core that it took.
fn wait(vi: &Vi, time: Duration) -> Result<f64> {
    let (start, before) = (rt::now(), cpu_time());
    match vi.recv_queue().wait(Deadline::In(time)) {
        Err(ViError::NoCompletion { .. }) => {}
        other => bail!("nothing was sent, and a wait ended with {other:?}"),
    }
    let used = cpu_time().saturating_sub(before);
    Ok(used.as_secs_f64() / (rt::now() - start).as_secs_f64())
}

/// Of all threads of this process.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Bytes of memory that this process has and no file backs, of what is shared its share. The
/// pages of the program's own file are shared with processes that come and go.
fn shared_out() -> Result<f64> {
    Ok(resident("Pss_Anon:")? + resident("Pss_Shmem:")?)
}

/// Bytes of memory that this process has, by the kernel's name for the kind; `Rss:` counts what
/// is shared in full.
pub(crate) fn resident(name: &str) -> Result<f64> {
    let path = "/proc/self/smaps_rollup";
    let text = fs::read_to_string(path).context(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    Ok(kib.with_context(|| format!("{path} has no {name}"))? * 1024.0)
}

/// Bytes that the kernel has for all sockets of the machine, as far as this user
/// may know.
pub(crate) fn kernel_memory() -> f64 {
    let slabs = fs::read_to_string("/proc/slabinfo").unwrap_or_default();
    let sockets = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    slab_bytes(&slabs) + buffered_pages(&sockets) * rustix::param::page_size() as f64
}

/// Reads `TCP  52  52  2368 …`: objects, places for them, bytes of each.
fn slab_bytes(text: &str) -> f64 {
    let bytes = |line: &str| {
        let mut fields = line.split_whitespace();
        let name = fields.next()?;
        let numbers: Vec<f64> = fields.take(3).filter_map(|field| field.parse().ok()).collect();
        match numbers[..] {
            [objects, _, size] if SLABS.contains(&name) => Some(objects * size),
            _ => None,
        }
    };
    text.lines().filter_map(bytes).sum()
}

/// Reads the 3 in `TCP: inuse 5 orphan 0 tw 2 alloc 6 mem 3`, of all lines.
fn buffered_pages(text: &str) -> f64 {
    let pages = |line: &str| line.rsplit_once(" mem ")?.1.trim().parse::<f64>().ok();
    text.lines().filter_map(pages).sum()
}

const SERVICE: &str = "idle";
/// More than a ring has slots.
const SMALL_MESSAGES: usize = 300;
const LARGE_BYTES: usize = 64 << 10;
/// What a socket in an epoll set is made of; the names of files are left out, they
/// are too many.
const SLABS: &[&str] = &[
    "TCP",
    "TCPv6",
    "UDP",
    "UDPv6",
    "sock_inode_cache",
    "filp",
    "eventpoll_epi",
    "eventpoll_pwq",
    "ep_head",
    "skbuff_head_cache",
    "skbuff_small_head",
    "tcp_bind_bucket",
    "tcp_bind2_bucket",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_sockets_is_read() {
        let slabs = "slabinfo - version: 2.1\n# name <active_objs>\n\
                     TCP   52  60  2000   13    8 : tunables\n\
                     dentry  9 9 192 21 1\nfilp 10 10 200 21 1 :\n";
        assert_eq!(slab_bytes(slabs), 52.0 * 2000.0 + 10.0 * 200.0);
        let sockets = "sockets: used 14\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 3\n\
                       UDP: inuse 0 mem 8\nFRAG: inuse 0 memory 0\n";
        assert_eq!(buffered_pages(sockets), 11.0);
        assert!(kernel_memory() >= 0.0);
    }
}
