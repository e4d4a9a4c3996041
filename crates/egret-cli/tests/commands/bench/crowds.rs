//! `egret bench` of several at once, and of those that do nothing, as its users run it.

use serde_json::Value;

use super::{figure, lines};

#[test]
fn small_messages_are_measured_beside_large_ones() {
    for fabric in ["shm", "tcp", "udp"] {
        let args = ["--quick", "--json", "--reps", "1", "--sizes", "70K,1M"];
        let lines = lines(&[&["bench", "mixed", "--fabric", fabric], &args[..]].concat());
        let streams = lines.iter().map(|line| figure(line, "stream_bytes"));
        assert!(streams.eq([71_680.0, 1_048_576.0]));
        for line in &lines {
            assert_eq!(
                [&line["bench"], &line["fabric"], &line["limit"]],
                ["mixed", fabric, "alone"]
            );
            assert_eq!(line["bytes"], 4);
            assert_eq!(line["of_slot"].is_f64(), fabric == "shm");
            assert!(figure(line, "mb_s") > 0.0 && figure(line, "ratio") > 0.0);
            assert!(figure(line, "p99_ns") >= figure(line, "p50_ns"));
        }
    }
}

#[test]
fn threads_are_held_against_one() {
    let args = ["--threads", "1,3", "--quick", "--json", "--reps", "1"];
    let lines = lines(&[&["bench", "threads"], &args[..]].concat());
    let found: Vec<_> = lines.iter().map(|line| (&line["op"], figure(line, "threads"))).collect();
    let same = [("same", 1.0), ("same", 3.0), ("different", 1.0), ("different", 3.0)];
    let expected = same.into_iter().chain([("second", 2.0)]);
    assert!(found.iter().map(|(op, threads)| (op.as_str().unwrap(), *threads)).eq(expected));
    let (second, requests) = lines.split_last().unwrap();
    for line in requests {
        assert_eq!([&line["limit"], &line["wait"]], ["one-thread", "balanced"]);
        let of_one = figure(line, "msg_s") / figure(line, "limit_msg_s");
        assert!((figure(line, "of_one") - of_one).abs() <= 0.01 * of_one + 0.001, "{line}");
        assert!((figure(line, "ratio") * of_one - 1.0).abs() <= 0.01, "{line}");
    }
    assert_eq!(second["limit"], "alone");
    assert!(figure(second, "of_slot") > 0.0);
    assert!(second["of_one"].is_null() && figure(second, "p50_ns") > 0.0);
}

#[test]
fn looks_are_held_against_one_connection() {
    let args = ["--peers", "0,1,9", "--quick", "--json", "--reps", "1"];
    for fabric in ["shm", "tcp", "udp"] {
        let lines = lines(&[&["bench", "look", "--fabric", fabric], &args[..]].concat());
        let found = lines.iter().map(|line| (line["op"].as_str().unwrap(), figure(line, "peers")));
        let looks = [("look", 0.0), ("look", 1.0), ("look", 9.0)];
        assert!(found.eq(looks.into_iter().chain([("found", 1.0), ("found", 9.0)])));
        assert!(
            lines.iter().all(|line| line["limit"] == "one-peer" && figure(line, "ratio") > 0.0)
        );
        let of_slot = |line: &Value| line["of_slot"].is_f64();
        let has = |line: &Value| fabric == "shm" && line["op"] == "found";
        assert!(lines.iter().all(|line| of_slot(line) == has(line)), "{lines:?}");
    }
}

#[test]
fn idle_connections_of_a_network_are_measured() {
    for fabric in ["tcp", "udp"] {
        let args = ["--quick", "--json", "--reps", "1", "--connections", "20"];
        let lines = lines(&[&["bench", "idle", "--fabric", fabric], &args[..]].concat());
        assert!(lines.iter().all(|line| line["fabric"] == fabric));
        let (memory, quiet) = (["opened", "used"], ["mapped endpoint", "channel"]);
        let (lines, of_links) = lines.split_at(lines.len() - quiet.len());
        assert!(of_links.iter().map(|line| &line["op"]).eq(quiet), "{of_links:?}");
        let (memories, others) = lines.split_at(memory.len());
        assert!(lines.iter().all(|line| line["connections"] == 20));
        assert!(memories.iter().map(|line| &line["op"]).eq(memory), "{memories:?}");
        assert!(memories.iter().all(|line| figure(line, "limit_bytes") == 32_768.0));
        let [waiting @ .., spinning, sleeping] = others else { panic!("{others:?}") };
        for (line, wait) in waiting.iter().zip(["balanced", "frugal"]) {
            assert_eq!([&line["op"], &line["wait"]], ["waiting", wait]);
            let cpu = figure(line, "cpu");
            assert!(cpu > 0.0 && cpu < 0.5, "who waits sleeps: {line}");
        }
        for (line, wait) in [(spinning, "spin"), (sleeping, "frugal")] {
            assert_eq!([&line["op"], &line["wait"], &line["limit"]], ["active", wait, "alone"]);
            assert!(figure(line, "p50_ns") > 0.0 && figure(line, "ratio") > 0.0);
        }
    }
}

#[test]
fn pairs_are_held_against_bare_ones_and_one_alone() {
    for fabric in ["shm", "tcp", "udp"] {
        let args = ["--quick", "--json", "--reps", "1", "--pairs", "3", "--wait", "frugal"];
        let how = ["bench", "pairs", "--rounds", "30", "--fabric", fabric];
        let lines = lines(&[&how[..], &args[..]].concat());
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!([&line["bench"], &line["fabric"], &line["wait"]], ["pairs", fabric, "frugal"]);
        assert_eq!(line["limit"], "switch-pairs");
        assert!(figure(line, "of_one_pair") > 0.0);
        assert_eq!([&line["pairs"], &line["rounds"], &line["bytes"]], [3, 30, 4]);
        assert!(figure(line, "cores") >= 1.0);
        let ratio = figure(line, "run_ns") / figure(line, "limit_ns");
        assert!((figure(line, "ratio") - ratio).abs() <= 0.01 * ratio, "{line}");
    }
}

#[test]
fn silence_is_held_against_what_it_may_cost() {
    let args = ["--quick", "--json", "--reps", "1", "--connections", "3"];
    let lines = lines(&[&["bench", "idle"], &args[..]].concat());
    let found: Vec<_> = lines.iter().map(|line| [&line["op"], &line["wait"]]).collect();
    let ops = ["opened", "opened both", "used", "used both"].map(|op| [op, "balanced"]);
    assert_eq!(found[..4], ops);
    assert_eq!(found[4..6], [["waiting", "balanced"], ["waiting", "frugal"]]);
    assert_eq!(found[6..], ["mapped endpoint", "channel"].map(|op| [op, "balanced"]));
    for line in &lines[..4] {
        assert_eq!(line["connections"], 3);
        let is_used = line["op"].as_str().unwrap().starts_with("used");
        assert_eq!(figure(line, "limit_bytes"), if is_used { 163_840.0 } else { 49_152.0 });
        assert!(figure(line, "memory_bytes") >= 4096.0, "a page at least: {line}");
    }
    assert!(figure(&lines[2], "memory_bytes") > figure(&lines[0], "memory_bytes"));
    for line in &lines[6..] {
        let figures = ["limit_bytes", "connections"].map(|name| figure(line, name));
        assert_eq!(figures, [4096.0, 100.0]);
        assert!(figure(line, "memory_bytes") > 0.0);
    }
    for line in &lines[4..6] {
        assert_eq!(figure(line, "limit_cpu"), 0.01);
        let cpu = figure(line, "cpu");
        assert!(cpu > 0.0 && cpu < 0.5, "who waits sleeps: {line}");
    }
}
