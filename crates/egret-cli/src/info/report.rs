//! The same for people.

use std::fmt::{Display, Write};

use super::Info;
use super::fabrics::{FabricReport, LimitsInfo};
use super::grants::{
    Grant, MEMBARRIER, MEMBARRIER_GLOBAL, MEMFD_SEALS, PEERCRED, PEERPIDFD, PIDFD, PROCESS_VM_READV,
};
use super::places::PlaceInfo;

/// What follows from what was found.
pub(super) fn means(fabrics: &[FabricReport], grants: &[Grant]) -> Vec<String> {
    let shm = fabrics.iter().any(|fabric| fabric.name == "shm" && fabric.available);
    let has = |name| grants.iter().any(|grant| grant.name == name && grant.granted);
    let mut means = Vec::new();
    let mut say = |what: &str| means.push(what.to_owned());
    match (shm, has(MEMFD_SEALS) && has(PEERCRED)) {
        (true, true) => say("shm: processes of this user can exchange messages; \
             the receiver copies once, out of memory that only the sender can write"),
        (true, false) => say("shm: a nic opens, but no connection will: \
             memory with one writer, or the identity of the peer, cannot be proved"),
        (false, _) => say("shm: not to be had; processes of this machine can use tcp"),
    }
    say("tcp, udp: on loopback unless a nic's host is an address, an interface or \
         `reachable`; beyond loopback a secret is needed, which callers prove");
    say(match has(PIDFD) {
        true => "shm: processes of one executable file that both ask for it may cooperate",
        false => "shm: isolated only: the kernel cannot say which executable file a peer runs",
    });
    match (has(PIDFD), has(PEERPIDFD)) {
        (true, true) => {}
        (true, false) => {
            say("a peer's descriptor is made from its number, while its socket is open");
        }
        (false, _) => say("a peer's end shows by its socket alone"),
    }
    if shm {
        say(match has(MEMBARRIER_GLOBAL) {
            true => {
                "shm: the sleeping side executes the memory fence of the doorbell, the sender none"
            }
            false => {
                "shm: each message executes a memory fence for the doorbell: slower, and just as safe"
            }
        });
    }
    if !has(MEMBARRIER) {
        say("buffers and locks take atomic operations each time: slower, and just as safe");
    }
    say(match has(PROCESS_VM_READV) {
        true => {
            "large slices outside a shareable pool are read where they lie, in one copy; \
             others pass through a bounce area, in two"
        }
        false => "slices outside a shareable pool take two copies, through a bounce area",
    });
    means
}

/// `info` in lines.
pub(super) fn text(info: &Info) -> String {
    let machine = &info.machine;
    let mut out = String::new();
    if let Some(warning) = info.encryption.warning() {
        let _ = writeln!(out, "{warning}\n");
    }
    let build = if info.optimized { "optimized" } else { "unoptimized" };
    row(&mut out, "egret", &[format!("{}, {build} build", info.egret)]);
    let plural = if machine.cores == 1 { "" } else { "s" };
    let cores = format!("{}, {} core{plural} to use", machine.processor, machine.cores);
    row(&mut out, "processor", &[cores]);
    let system = [&machine.system, " ", &machine.kernel, " ", machine.architecture].concat();
    row(&mut out, "system", &[system]);
    let known = |bytes: Option<u64>, unknown: &str| bytes.map_or_else(|| unknown.to_owned(), size);
    let memory = format!(
        "{}, {} available, {} to lock",
        known(machine.memory_bytes, "?"),
        known(machine.memory_available_bytes, "?"),
        known(machine.lockable_bytes, "all")
    );
    row(&mut out, "memory", &[memory]);
    row(&mut out, "encryption", &[info.encryption.said()]);
    row(&mut out, "secret", &[info.secret.said()]);
    out.push('\n');
    fabrics(&mut out, &info.fabrics);
    out.push('\n');
    for place in &info.places {
        let title = if place.host.is_empty() { "tcp, udp listen" } else { place.host };
        row(&mut out, title, &[where_and_why(place)]);
    }
    out.push('\n');
    for grant in &info.grants {
        row(&mut out, grant.name, &[yes_or_why(grant.granted, grant.why.as_deref())]);
    }
    out.push('\n');
    for what in &info.means {
        let _ = writeln!(out, "* {what}");
    }
    out.trim_end().to_owned()
}

/// A column for each fabric.
fn fabrics(out: &mut String, fabrics: &[FabricReport]) {
    // As wide as its widest cell.
    let each = |text: &dyn Fn(&FabricReport) -> String| -> Vec<String> {
        let cell = |fabric: &FabricReport| {
            let width = fabric.trust.join(", ").len().max(12) + 2;
            format!("{:<width$}", text(fabric))
        };
        fabrics.iter().map(cell).collect()
    };
    let limit = |text: fn(&LimitsInfo) -> String| {
        each(&|fabric| fabric.limits.as_ref().map_or_else(|| "-".to_owned(), text))
    };
    row(out, "fabric", &each(&|fabric| fabric.name.to_owned()));
    row(out, "available", &each(&|fabric| if fabric.available { "yes" } else { "no" }.to_owned()));
    row(out, "trust", &each(&|fabric| fabric.trust.join(", ")));
    row(out, "queue depth", &limit(|limits| limits.queue_depth.to_string()));
    row(out, "transfer, most", &limit(|limits| size(limits.transfer_max)));
    row(out, "segments, most", &limit(|limits| limits.segments_max.to_string()));
    row(out, "registered, most", &limit(|limits| size(limits.registrable_max)));
    row(out, "pinned from", &limit(|limits| size(limits.pin_threshold)));
    row(
        out,
        "reliability",
        &limit(|limits| match limits.reliability.len() {
            3 => "all levels".to_owned(),
            _ => limits.reliability.join(", "),
        }),
    );
    for fabric in fabrics {
        if let Some(why) = &fabric.why {
            let _ = writeln!(out, "{}: {why}", fabric.name);
        }
    }
}

fn where_and_why(place: &PlaceInfo) -> String {
    match (&place.address, &place.interface) {
        (Some(address), Some(interface)) => {
            format!("at {address} on {interface}: {}", place.why)
        }
        (Some(address), None) => format!("at {address}: {}", place.why),
        (None, _) => format!("nowhere: {}", place.why),
    }
}

fn yes_or_why(granted: bool, why: Option<&str>) -> String {
    match (granted, why) {
        (true, _) => "yes".to_owned(),
        (false, None) => "no".to_owned(),
        (false, Some(why)) => format!("no: {why}"),
    }
}

fn row<T: Display>(out: &mut String, name: &str, cells: &[T]) {
    let cells: String = cells.iter().map(|cell| format!("{cell:<14}")).collect();
    let _ = writeln!(out, "{name:<18}{}", cells.trim_end());
}

/// In the largest unit that leaves at least one.
pub(super) fn size(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        None => format!("{bytes} B"),
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_fits() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(8 << 10), "8 KiB");
        assert_eq!(size(1536 << 20), "1.5 GiB");
        assert_eq!(size(1 << 40), "1 TiB");
    }

    fn found(shm: bool, missing: &[&'static str]) -> String {
        let all = [
            MEMFD_SEALS,
            PEERCRED,
            PEERPIDFD,
            PIDFD,
            MEMBARRIER,
            MEMBARRIER_GLOBAL,
            PROCESS_VM_READV,
        ];
        let grant = |name| Grant { name, granted: !missing.contains(&name), why: None };
        let grants: Vec<Grant> = all.into_iter().map(grant).collect();
        let trust = vec!["isolated"];
        let shm = FabricReport { name: "shm", available: shm, why: None, limits: None, trust };
        means(&[shm], &grants).join("\n")
    }

    #[test]
    fn missing_grants_are_explained() {
        let all = found(true, &[]);
        assert!(all.contains("copies once") && all.contains("bounce area"), "{all}");
        assert!(all.contains("may cooperate"), "{all}");
        assert!(all.contains("the sleeping side executes the memory fence"), "{all}");
        assert_eq!(all.lines().count(), 5, "{all}");
        let without = found(false, &[]);
        assert!(without.contains("not to be had") && !without.contains("doorbell"), "{without}");
        for (missing, said) in [
            (MEMFD_SEALS, "no connection will"),
            (PEERCRED, "no connection will"),
            (PEERPIDFD, "from its number"),
            (PIDFD, "by its socket alone"),
            (PIDFD, "isolated only"),
            (MEMBARRIER, "atomic operations each time"),
            (MEMBARRIER_GLOBAL, "each message executes a memory fence"),
            (PROCESS_VM_READV, "take two copies,"),
        ] {
            assert!(found(true, &[missing]).contains(said), "{missing}");
        }
    }
}
