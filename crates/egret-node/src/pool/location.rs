//! Where nodes are: on which cores of which host, in which rack of which site.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use egret_stream::Wire;

/// The location of a node, from the inside to the outside: `core@host@rack@site`.
///
/// A node says its location when it joins, and all members know it ([`Member::location`](super::Member::location)).
/// The setting `location` (`EGRET_LOCATION`) or [`Config::location`](crate::node::Config::location) gives it; what
/// either leaves empty, and what is missing at the end, is found out if it can be: the cores that the process may
/// use, the host's name, in an allocation of Slurm the switches as the rack and the cluster as the site. A level
/// that stays empty is one place: nodes that do not say their rack are in one rack.
///
/// ```
/// use egret_node::topology::{Distance, Location};
///
/// let here: Location = "0@node7@rack1@delft".parse()?;
/// let there: Location = "3@node9@rack1@delft".parse()?;
/// assert_eq!((&here.host[..], &here.site[..]), ("node7", "delft"));
/// assert_eq!(here.distance(&there), Distance::Rack);
/// assert_eq!("@@@delft".parse::<Location>()?.to_string(), "@@@delft");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Wire)]
#[non_exhaustive]
pub struct Location {
    /// The cores, as a list: `3`, `0-7`.
    pub core: String,
    /// The host.
    pub host: String,
    /// The rack: what is reached over one switch.
    pub rack: String,
    /// The site: what is reached without a long distance.
    pub site: String,
}

/// How far two nodes are from each other: the smallest part of the world that both are in.
/// [`Location`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// They are one node.
    Node,
    /// They are on one host.
    Host,
    /// They are in one rack, on different hosts.
    Rack,
    /// They are at one site, in different racks.
    Site,
    /// They are at different sites.
    World,
}

impl Location {
    /// The distance between nodes at two locations, which are not one node.
    #[must_use]
    pub fn distance(&self, other: &Self) -> Distance {
        if self.site != other.site {
            Distance::World
        } else if self.rack != other.rack {
            Distance::Site
        } else if self.host != other.host {
            Distance::Rack
        } else {
            Distance::Host
        }
    }

    /// Bytes of its texts.
    pub(crate) fn len(&self) -> usize {
        self.levels().iter().map(|level| level.len()).sum()
    }

    fn levels(&self) -> [&String; 4] {
        [&self.core, &self.host, &self.rack, &self.site]
    }

    /// The location with what was found out where it is empty.
    pub(crate) fn or(self, found: Self) -> Self {
        let either = |said: String, found| if said.is_empty() { found } else { said };
        Self {
            core: either(self.core, found.core),
            host: either(self.host, found.host),
            rack: either(self.rack, found.rack),
            site: either(self.site, found.site),
        }
    }

    /// What Slurm has said in the environment of a process that it has started.
    pub(crate) fn of_slurm(environment: &BTreeMap<String, String>) -> Option<Self> {
        let host = environment.get("SLURMD_NODENAME")?.clone();
        let site = environment.get("SLURM_CLUSTER_NAME").cloned().unwrap_or_default();
        // The switches from the outermost in, and the host: `s0.s4.node7`.
        let switches = environment.get("SLURM_TOPOLOGY_ADDR").and_then(|all| all.rsplit_once('.'));
        let rack = switches.map(|(switches, _)| switches.to_owned()).unwrap_or_default();
        format!("@{host}@{rack}@{site}").parse().ok()
    }

    /// What the system says about this process.
    pub(crate) fn of_process() -> Self {
        let read = |path| std::fs::read_to_string(path).ok();
        let status = read("/proc/self/status").unwrap_or_default();
        let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let part = |text: &str| text.trim().replace('@', "_").chars().take(PART_MAX).collect();
        Self {
            core: cores.map(part).unwrap_or_default(),
            host: rustix::system::uname().nodename().to_str().map(part).unwrap_or_default(),
            ..Self::default()
        }
    }
}

impl FromStr for Location {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut levels = text.split('@').map(str::trim);
        let mut next = || levels.next().unwrap_or_default().to_owned();
        let location = Self { core: next(), host: next(), rack: next(), site: next() };
        let is_text =
            |level: &&String| level.len() <= PART_MAX && !level.contains(char::is_control);
        if levels.next().is_some() || !location.levels().iter().all(is_text) {
            return Err(format!(
                "core@host@rack@site is expected, each of at most {PART_MAX} bytes; what is empty is found out"
            ));
        }
        Ok(location)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.levels().map(|level| level.as_str()).join("@");
        f.write_str(text.trim_end_matches('@'))
    }
}

/// Bytes of one level.
const PART_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Location {
        text.parse().unwrap()
    }

    #[test]
    fn the_outermost_level_that_differs_is_the_distance() {
        let here = at("0@a@r@s");
        for (there, far) in [
            ("1@a@r@s", Distance::Host),
            ("0@b@r@s", Distance::Rack),
            ("0@a@q@s", Distance::Site),
            ("0@a@r@t", Distance::World),
            ("", Distance::World),
        ] {
            assert_eq!(here.distance(&at(there)), far, "{there}");
            assert_eq!(at(there).distance(&here), far, "{there}, the other way");
        }
        assert_eq!(at("@a").distance(&at("@b")), Distance::Rack, "an empty level is one place");
    }

    #[test]
    fn texts_are_read_as_they_are_shown() {
        for text in ["", "0-3", "@h", "@@r", "@@@s", "1@h@r@s"] {
            assert_eq!(at(text).to_string(), text);
        }
        for bad in ["1@2@3@4@5", "@a\nb", &"x".repeat(PART_MAX + 1)] {
            assert!(bad.parse::<Location>().is_err(), "{bad}");
        }
        assert_eq!(at("@mine").or(at("0@found@r")), at("0@mine@r"));
    }

    #[test]
    fn slurm_knows_the_switches_and_the_cluster() {
        let said = |all: &[(&str, &str)]| {
            let all = all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Location::of_slurm(&all.collect())
        };
        let node = ("SLURMD_NODENAME", "tux1");
        let all = [node, ("SLURM_CLUSTER_NAME", "blue"), ("SLURM_TOPOLOGY_ADDR", "s0.s4.tux1")];
        assert_eq!(said(&all), Some(at("@tux1@s0.s4@blue")));
        assert_eq!(said(&[node, ("SLURM_TOPOLOGY_ADDR", "tux1")]), Some(at("@tux1")));
        assert_eq!(said(&all[1..]), None, "not started by Slurm");
    }

    #[test]
    fn a_process_is_on_some_cores_of_a_host() {
        let here = Location::of_process();
        assert!(!here.core.is_empty() && !here.host.is_empty(), "{here}");
        assert!(here.len() <= 2 * PART_MAX);
    }
}
