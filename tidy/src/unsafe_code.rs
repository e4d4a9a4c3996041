//! Unsafe code is forbidden but in `egret-net` and in the limits of `egret-bench`, and there it stands in
//! files that are listed here with the reason.

use crate::repo::{Finding, Repo, crate_in};
use crate::source::Source;

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = roots(repo);
    findings.extend(files(repo, LISTED));
    findings
}

/// Every file with unsafe code, and why it needs it. Sorted; keep it short.
const LISTED: &[(&str, &str)] = &[
    ("crates/egret-bench/src/limit/ring.rs", "copies in and out of memory that two processes map"),
    ("crates/egret-bench/src/limit/shared.rs", "maps a file that another process maps too"),
    ("crates/egret-bench/src/limit/slot.rs", "copies in and out of memory that two processes map"),
    ("crates/egret-bench/src/limit/ticks.rs", "reads the processor's clock"),
    (
        "crates/egret-derive/src/object.rs",
        "quotes the impl that its output proves; the crate itself forbids unsafe code",
    ),
    (
        "crates/egret-derive/src/plain.rs",
        "quotes the impls that its output proves; the crate itself forbids unsafe code",
    ),
    (
        "crates/egret-net/src/atomics/biased_lock.rs",
        "the value of a lock: the word of the thread that has the bias, or the ordinary lock, keeps it one thread's",
    ),
    (
        "crates/egret-net/src/buf/biased.rs",
        "a return reaches its class by a pointer; the class may go with it",
    ),
    (
        "crates/egret-net/src/buf/block.rs",
        "remembers where the words of its owner are, and runs of them",
    ),
    ("crates/egret-net/src/buf/buffer.rs", "the exclusive handle's bytes, to write"),
    (
        "crates/egret-net/src/buf/class.rs",
        "buffers reach their class by a pointer that is not counted",
    ),
    ("crates/egret-net/src/buf/flat.rs", "values in bytes that were looked at first"),
    (
        "crates/egret-net/src/buf/free_list.rs",
        "a return reaches its list by a pointer; the list may go with it",
    ),
    ("crates/egret-net/src/buf/mapped_file.rs", "a private mapping and its bytes"),
    ("crates/egret-net/src/buf/mapping.rs", "mmap, mlock and their undoing"),
    (
        "crates/egret-net/src/buf/pool.rs",
        "the last handle closes what its buffers may still point to",
    ),
    ("crates/egret-net/src/buf/region.rs", "unmaps, and is shared between threads"),
    ("crates/egret-net/src/buf/shared.rs", "shares one slot among clones, as elements"),
    ("crates/egret-net/src/buf/slot.rs", "the raw handle: where a slot's bytes become slices"),
    (
        "crates/egret-net/src/buf/tests/slots.rs",
        "drives the return of the last buffer under the model checker",
    ),
    ("crates/egret-net/src/buf/typed.rs", "the elements of a checked cast"),
    ("crates/egret-net/src/buf/visit.rs", "leaves what its buffers may still point to"),
    ("crates/egret-net/src/buf/waiters.rs", "a wake may find the pool gone"),
    (
        "crates/egret-net/src/fabric/shm/block.rs",
        "copies in assembly, which the compiler cannot take for private memory",
    ),
    (
        "crates/egret-net/src/fabric/shm/cooperating/direct_write.rs",
        "copies into a slot of a cooperating peer, while its gate is open",
    ),
    (
        "crates/egret-net/src/fabric/shm/cooperating/exposed.rs",
        "copies in and out of a slot that cooperating peers write too",
    ),
    (
        "crates/egret-net/src/fabric/shm/copy.rs",
        "copies in and out of memory that another process may write, as atomics",
    ),
    ("crates/egret-net/src/fabric/shm/foreign.rs", "maps a peer's file, to be read as atomics"),
    ("crates/egret-net/src/fabric/shm/memory.rs", "reaches memory that peers map, as atomics"),
    (
        "crates/egret-net/src/fabric/shm/process_memory.rs",
        "has the kernel copy out of another process",
    ),
    (
        "crates/egret-net/src/fabric/shm/rendezvous/pidfd.rs",
        "asks a socket for the process at its other end",
    ),
    ("crates/egret-net/src/fabric/shm/tests/copy.rs", "calls those copies on memory of its own"),
    (
        "crates/egret-net/src/fabric/shm/tests/direct/orders.rs",
        "memory behind a gate as a cell of the model checker",
    ),
    (
        "crates/egret-net/src/fabric/shm/tests/hand_over/orders.rs",
        "a slot's bytes as a cell of the model checker",
    ),
    ("crates/egret-net/src/heap.rs", "an allocator that counts and hands on to the system's"),
    ("crates/egret-net/src/rt/stack.rs", "asks the C library where a thread's stack ends"),
    ("crates/egret-net/src/rt/ticks.rs", "reads the processor's counter"),
    ("crates/egret-net/src/vi/lend.rs", "a borrow without its lifetime, kept by blocking"),
];

/// The crates that say in their own text where their unsafe code is.
const EXEMPT: &[&str] = &["egret-bench", "egret-net"];

fn roots(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repo.ending(".rs") {
        let Some(name) = crate_of_root(path).filter(|name| !EXEMPT.contains(name)) else {
            continue;
        };
        let tokens: String = Source::split(text).tokens().iter().map(|token| token.text).collect();
        if !tokens.contains("#![forbid(unsafe_code)]") {
            let what = format!("the root of `{name}` must forbid unsafe code");
            findings.push(Finding::new(path, 0, what));
        }
    }
    findings
}

/// The crate that `path` is the root file of.
fn crate_of_root(path: &str) -> Option<&str> {
    let (folder, file) = path.split_once("/src/")?;
    let name = crate_in(folder)?;
    let is_root = matches!(file, "lib.rs" | "main.rs") || file.starts_with("bin/");
    is_root.then_some(name)
}

fn files(repo: &Repo, listed: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repo.ending(".rs") {
        let source = Source::split(text);
        let unsafe_at = source.tokens().iter().find(|token| token.text == "unsafe").map(|t| t.line);
        let is_listed = listed.iter().any(|(file, _)| *file == path);
        match unsafe_at {
            Some(line) if !is_listed => {
                let what = "unsafe code in a file that is not on the list";
                findings.push(Finding::new(path, line, what));
            }
            None if is_listed => {
                findings.push(Finding::new(path, 0, "listed, but without unsafe code"));
            }
            _ => (),
        }
    }
    findings.extend(list_itself(repo, listed));
    findings
}

fn list_itself(repo: &Repo, listed: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !listed.is_sorted() {
        findings.push(Finding::new("the list of files with unsafe code", 0, "not sorted"));
    }
    for (file, _) in listed.iter().filter(|(file, _)| repo.text(file).is_none()) {
        findings.push(Finding::new(file, 0, "listed, but not there"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    #[test]
    fn a_root_that_allows_unsafe_code_is_found() {
        let repo = Repo::of(&[
            ("crates/egret-net/src/lib.rs", "//! Exempt.\n"),
            ("crates/egret-node/src/lib.rs", "//! Good.\n#![forbid(unsafe_code)]\n"),
            ("crates/egret-node/src/node.rs", "//! No root.\n"),
            ("crates/egret/src/lib.rs", "//! Bad.\n// #![forbid(unsafe_code)]\n"),
            ("crates/egret-cli/src/bin/tool.rs", "#![deny(unsafe_code)]\n"),
            ("apps/src/lib.rs", "//! Bad.\n"),
            ("apps/src/sor/lib.rs", "//! No root.\n"),
        ]);
        let expected = [
            "apps/src/lib.rs: the root of `egret-apps` must forbid unsafe code",
            "crates/egret-cli/src/bin/tool.rs: the root of `egret-cli` must forbid unsafe code",
            "crates/egret/src/lib.rs: the root of `egret` must forbid unsafe code",
        ];
        assert_eq!(told(&roots(&repo)), expected);
    }

    #[test]
    fn the_list_and_the_files_must_agree() {
        let repo = Repo::of(&[
            ("a.rs", "fn f() { unsafe { g() } }\n"),
            ("b.rs", "// unsafe\n#![deny(unsafe_op_in_unsafe_fn)]\n"),
            ("c.rs", "//! x\nunsafe impl Send for S {}\n"),
        ]);
        let listed = [("b.rs", "why"), ("a.rs", "why"), ("d.rs", "why")];
        let expected = [
            "b.rs: listed, but without unsafe code",
            "c.rs:2: unsafe code in a file that is not on the list",
            "the list of files with unsafe code: not sorted",
            "d.rs: listed, but not there",
        ];
        assert_eq!(told(&files(&repo, &listed)), expected);
        assert_eq!(files(&Repo::of(&[("a.rs", "unsafe {}\n")]), &[("a.rs", "why")]), []);
    }
}
