//! `egret bench` of messages and of memory, and what all benchmarks have in common.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use egret::rt;
use serde_json::Value;

use super::{EGRET, egret, figure, lines, stdout};

#[test]
fn limits_report_every_field_of_the_contract() {
    let lines = lines(&["bench", "limits", "--quick", "--json"]);
    for line in &lines {
        assert_eq!(line["bench"], "limits");
        assert!(figure(line, "bytes") >= 4.0 || line["limit"] == "tcp-connect", "{line}");
        assert_eq!(line["noisy"] == true, figure(line, "spread") > 0.15, "{line}");
        match line["limit"].as_str().unwrap() {
            "shm-ring" => assert!(figure(line, "mb_s") > 0.0),
            "line-ring" | "line-echo" | "tcp-write" | "udp-send" => {
                assert!(figure(line, "msg_s") > 0.0);
            }
            "switch-pairs" => {
                assert_eq!([&line["pairs"], &line["rounds"], &line["bytes"]], [8, 200, 4]);
                assert!(figure(line, "run_ns") > 0.0 && figure(line, "cores") >= 1.0);
            }
            "tcp-raw" | "udp-raw" | "aead" if line["p50_ns"].is_null() => {
                assert!(figure(line, "mb_s") > 0.0);
            }
            _ => assert!(figure(line, "p99_ns") >= figure(line, "p50_ns"), "{line}"),
        }
    }
    let of = |name: &str| lines.iter().filter(|line| line["limit"] == name).count();
    let counts = ["shm-slot", "shm-ring", "line-ring", "eventfd", "tcp-raw"].map(of);
    assert_eq!(counts, [4, 4, 1, 1, 12]);
    assert_eq!(["line-echo", "switch-pairs"].map(of), [1, 1]);
    // No datagram carries 64 KiB there and back.
    assert_eq!(["tcp-write", "udp-raw", "udp-send"].map(of), [1, 8, 1]);
    assert_eq!(["memcpy", "malloc+free", "clone"].map(of), [4, 4, 4]);
    assert_eq!(["tcp-connect", "aead"].map(of), [1, 8]);
}

#[test]
fn pool_holds_every_operation_against_the_allocator() {
    let lines = lines(&["bench", "pool", "--quick", "--json"]);
    for line in &lines {
        assert_eq!(line["bench"], "pool");
        let ratio = figure(line, "p50_ns") / figure(line, "limit_ns");
        assert!((figure(line, "ratio") - ratio).abs() <= 0.01 * ratio + 0.001, "{line}");
        figure(line, "spread");
        let op = line["op"].as_str().unwrap();
        assert_eq!(line["threads"], if op == "take+return alone" { 1 } else { 2 });
        let limit = match op {
            "take" => "malloc",
            "return" => "free",
            _ => "malloc+free",
        };
        assert_eq!(line["limit"], limit);
    }
    let of = |op: &str| lines.iter().filter(|line| line["op"] == op).count();
    let ops = ["take", "return", "take+return", "typed view", "share+reclaim", "is_resident"];
    assert_eq!(ops.map(of), [4; 6]);
    assert_eq!(["take+return alone", "take+return other", "evacuate"].map(of), [4; 3]);
    assert_eq!(lines.len(), 36);
    assert_eq!(lines[0]["threads"], 1, "later the process has two threads");
}

#[test]
fn messages_are_measured_in_every_mode() {
    for mode in ["posted", "copy", "pinned", "fresh", "read", "write"] {
        let args = ["--mode", mode, "--quick", "--json", "--reps", "1", "--sizes", "1,70K"];
        let of = |name| lines(&[&["bench", name, "--fabric", "sim"], &args[..]].concat());
        for line in of("latency") {
            assert_eq!(line["mode"], mode);
            assert_eq!(line["limit"], "shm-slot");
            assert_eq!(
                [&line["fabric"], &line["wait"], &line["trust"]],
                ["sim", "spin", "isolated"]
            );
            let ratio = figure(&line, "p50_ns") / figure(&line, "limit_ns");
            assert!((figure(&line, "ratio") - ratio).abs() <= 0.01 * ratio + 0.001, "{line}");
        }
        for line in of("bandwidth") {
            let ratio = figure(&line, "limit_mb_s") / figure(&line, "mb_s");
            assert_eq!(line["limit"], "shm-ring");
            assert!((figure(&line, "ratio") - ratio).abs() <= 0.01 * ratio + 0.001, "{line}");
        }
    }
    let rate = lines(&["bench", "message-rate", "--quick", "--json"]);
    assert_eq!(rate.len(), 1);
    assert_eq!([&rate[0]["limit"], &rate[0]["bytes"]], [&"line-ring".into(), &Value::from(8)]);
    assert!(figure(&rate[0], "msg_s") > 0.0);
}

#[test]
fn messages_between_processes_are_measured() {
    let args = ["--fabric", "shm", "--quick", "--json", "--reps", "1"];
    for (name, mode, wait, bytes) in [
        ("latency", "posted", "spin", "4,70K"),
        ("latency", "copy", "balanced", "4,70K"),
        ("latency", "write", "frugal", "4"),
        ("latency", "read", "balanced", "1,70K"),
        ("bandwidth", "posted", "balanced", "70K"),
        ("bandwidth", "read", "spin", "1,70K"),
        ("bandwidth", "write", "balanced", "1,70K"),
        ("bandwidth", "pinned", "balanced", "70K"),
        ("message-rate", "fresh", "balanced", "8"),
        ("message-rate", "write", "spin", "8"),
    ] {
        let how = ["bench", name, "--mode", mode, "--wait", wait, "--sizes", bytes];
        for line in lines(&[&how[..], &args[..]].concat()) {
            assert_eq!([&line["fabric"], &line["wait"], &line["mode"]], ["shm", wait, mode]);
            assert!(figure(&line, "ratio") > 0.0);
            let limit = match (name, wait) {
                ("latency", "frugal") => "eventfd",
                ("latency", _) => "shm-slot",
                ("bandwidth", _) => "shm-ring",
                _ => "line-ring",
            };
            assert_eq!(line["limit"], limit);
            // Of the limit itself it is the same figure.
            let of = ["of_slot", "of_line_ring"].map(|of| line[of].as_f64());
            let ratio = line["ratio"].as_f64();
            match limit {
                "eventfd" => assert!(of[0] > Some(0.0) && of[0] != ratio && of[1].is_none()),
                "shm-slot" => assert_eq!(of, [ratio, None]),
                "line-ring" => assert_eq!(of, [None, ratio]),
                _ => assert_eq!(of, [None, None]),
            }
        }
    }
}

#[test]
fn messages_over_networks_are_measured() {
    let args = ["--quick", "--json", "--reps", "1"];
    for (fabric, name, mode, wait, bytes, limit) in [
        ("tcp", "latency", "posted", "spin", "4,70K", "tcp-raw"),
        ("tcp", "latency", "posted", "frugal", "4", "tcp-raw"),
        ("tcp", "latency", "read", "balanced", "4,70K", "tcp-raw"),
        ("tcp", "latency", "write", "balanced", "4", "tcp-raw"),
        ("tcp", "bandwidth", "posted", "spin", "70K", "tcp-raw"),
        ("tcp", "bandwidth", "copy", "balanced", "70K", "tcp-raw"),
        ("tcp", "bandwidth", "write", "balanced", "70K", "tcp-raw"),
        ("tcp", "message-rate", "posted", "spin", "8", "tcp-write"),
        ("tcp", "message-rate", "fresh", "balanced", "8", "tcp-write"),
        ("udp", "latency", "posted", "spin", "4,64K", "udp-raw"),
        ("udp", "latency", "copy", "frugal", "1K", "udp-raw"),
        ("udp", "latency", "eager", "balanced", "4", "udp-raw"),
        ("udp", "latency", "read", "balanced", "4,64K", "udp-raw"),
        ("udp", "latency", "write", "frugal", "4", "udp-raw"),
        ("udp", "bandwidth", "posted", "spin", "64K,1M", "udp-raw"),
        ("udp", "bandwidth", "fresh", "balanced", "70K", "udp-raw"),
        ("udp", "bandwidth", "read", "balanced", "70K", "udp-raw"),
        ("udp", "bandwidth", "write", "spin", "70K", "udp-raw"),
        ("udp", "message-rate", "posted", "spin", "8", "udp-send"),
        ("udp", "message-rate", "eager", "balanced", "8", "udp-send"),
        ("udp-datagrams", "latency", "posted", "spin", "4,64K", "udp-raw"),
        ("udp-datagrams", "latency", "copy", "frugal", "1K", "udp-raw"),
        ("udp-datagrams", "bandwidth", "posted", "spin", "1K,64K", "udp-raw"),
        ("udp-datagrams", "bandwidth", "fresh", "balanced", "1K", "udp-raw"),
        ("udp-datagrams", "message-rate", "posted", "spin", "8", "udp-send"),
    ] {
        let how = ["bench", name, "--mode", mode, "--wait", wait, "--sizes", bytes];
        let lines = lines(&[&how[..], &["--fabric", fabric], &args[..]].concat());
        assert_eq!(lines.len(), bytes.split(',').count());
        for line in lines {
            assert_eq!([&line["fabric"], &line["wait"], &line["mode"]], [fabric, wait, mode]);
            assert_eq!(line["limit"], limit);
            assert!(figure(&line, "ratio") > 0.0);
            // Where nothing can be lost there is no such figure.
            let lost = line["lost"].as_f64();
            assert_eq!(lost.is_some(), fabric == "udp-datagrams", "{line}");
            assert!(lost.is_none_or(|lost| (0.0..1.0).contains(&lost)), "{line}");
        }
    }
}

#[test]
fn active_messages_are_held_against_the_virtual_interface() {
    let args = ["--quick", "--json", "--reps", "1"];
    for (fabric, wait) in [
        ("shm", "spin"),
        ("shm", "frugal"),
        ("tcp", "balanced"),
        ("udp", "balanced"),
        ("sim", "spin"),
    ] {
        let of = |name, more: &[&str]| {
            let how = ["bench", name, "--fabric", fabric, "--wait", wait];
            let lines = lines(&[&how[..], &args[..], more].concat());
            for line in &lines {
                assert_eq!(
                    [&line["bench"], &line["fabric"], &line["wait"], &line["limit"]],
                    [name, fabric, wait, "vi"]
                );
                assert!(figure(line, "ratio") > 0.0);
            }
            lines
        };
        let is_shm = fabric == "shm";
        let requests = of("am-latency", &["--words", "0,16"]);
        assert!(requests.iter().all(|line| line["of_slot"].is_f64() == is_shm), "{requests:?}");
        assert!(requests.iter().map(|line| figure(line, "words")).eq([0.0, 16.0]));
        assert_eq!(requests[1]["bytes"], 128);
        let ratio = figure(&requests[0], "p50_ns") / figure(&requests[0], "limit_ns");
        assert!((figure(&requests[0], "ratio") - ratio).abs() <= 0.01 * ratio + 0.001);
        let [bytes] = &of("am-latency", &["--bytes", "1K"])[..] else { panic!("one line") };
        assert_eq!([bytes["bytes"] == 1024, bytes["of_slot"].is_f64()], [true, is_shm]);
        assert!(bytes["words"].is_null() && figure(bytes, "p50_ns") > 0.0);
        let [one_way] = &of("am-rate", &[])[..] else { panic!("one line") };
        assert_eq!([&one_way["words"], &one_way["bytes"]], [1, 8]);
        assert!(figure(one_way, "limit_msg_s") > 0.0);
        assert_eq!(one_way["of_line_ring"].is_f64(), is_shm);
        let data = of("am-bandwidth", &["--sizes", "1,70K,1M"]);
        assert!(data.iter().map(|line| figure(line, "bytes")).eq([1.0, 71_680.0, 1_048_576.0]));
        assert!(data.iter().all(|line| line["words"].is_null() && figure(line, "mb_s") > 0.0));
    }
}

#[test]
fn channels_are_held_against_the_virtual_interface() {
    for (fabric, wait) in
        [("shm", "spin"), ("shm", "frugal"), ("tcp", "balanced"), ("udp", "balanced")]
    {
        let how = ["bench", "channel", "--fabric", fabric, "--wait", wait];
        let args = ["--quick", "--json", "--reps", "1", "--sizes", "1,100K"];
        let lines = lines(&[&how[..], &args[..]].concat());
        assert!(lines.iter().map(|line| figure(line, "bytes")).eq([1.0, 102_400.0]));
        for line in &lines {
            assert_eq!(
                [&line["bench"], &line["fabric"], &line["limit"]],
                ["channel", fabric, "vi"]
            );
            let ratio = figure(line, "limit_mb_s") / figure(line, "mb_s");
            assert!((figure(line, "ratio") - ratio).abs() <= 0.01 * ratio + 0.001, "{line}");
        }
    }
}

#[test]
fn processes_that_cooperate_are_measured() {
    let args = ["--fabric", "shm", "--trust", "cooperating", "--sizes", "4,70K", "--quick"];
    for mode in ["handover", "write"] {
        let how = ["bench", "latency", "--mode", mode, "--json", "--reps", "1"];
        for line in lines(&[&how[..], &args[..]].concat()) {
            assert_eq!([&line["mode"], &line["trust"]], [mode, "cooperating"]);
            assert!(figure(&line, "ratio") > 0.0);
        }
    }
}

#[test]
fn what_a_fabric_cannot_do_is_a_usage_error() {
    for (args, said) in [
        (&["--fabric", "smi"][..], "there are: sim, shm, tcp, udp, udp-datagrams"),
        (&["--fabric", "sim", "--wait", "frugal"], "never sleeps"),
        (&["--fabric", "sim", "--trust", "cooperating"], "no processes that cooperate"),
        (&["--fabric", "sim", "--mode", "handover"], "is for shm"),
        (&["--fabric", "udp-datagrams", "--mode", "read"], "datagrams and nothing else"),
        (&["--fabric", "udp-datagrams", "--mode", "eager"], "datagrams and nothing else"),
        (&["--fabric", "udp", "--sizes", "1M"], "udp-raw carries 65536 at most"),
        (&["--fabric", "tcp", "--spaces", "a,b"], "--spaces is for udp"),
    ] {
        let output = egret(&[&["bench", "latency"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(said), "{stderr}");
        assert!(stderr.contains("Usage: egret bench latency [OPTIONS]\n"), "{stderr}");
    }
}

#[test]
fn sizes_and_filters_choose_the_lines() {
    let args = ["bench", "limits", "--quick", "--json", "--reps", "1", "--sizes", "8,2K"];
    let shm = lines(&[&args[..], &["--fabric", "shm", "--wait", "spin"]].concat());
    let found: Vec<_> =
        shm.iter().map(|line| (line["limit"].as_str().unwrap(), figure(line, "bytes"))).collect();
    let slots = [("shm-slot", 8.0), ("shm-slot", 2048.0), ("shm-ring", 8.0), ("shm-ring", 2048.0)];
    assert_eq!(found[..4], slots);
    assert_eq!(found[4..], [("line-ring", 8.0), ("line-echo", 8.0)]);
    assert!(shm.iter().all(|line| line["wait"] == "spin" && line["spread"] == 0.0));
}

#[test]
fn people_get_columns() {
    let output = egret(&["bench", "limits", "--quick", "--wait", "frugal", "--sizes", "1K"]);
    let text: Vec<&str> = stdout(&output).lines().collect();
    assert!(text[0].starts_with("# egret "), "{text:?}");
    assert!(text[1].starts_with("# Limit"), "{text:?}");
    assert_eq!(text[2].split_whitespace().count(), 9, "{text:?}");
    assert_eq!(
        text.len(),
        2 + 8,
        "eventfd, tcp-raw's round trip and bandwidth, tcp-write, the same of udp, the cipher"
    );
    assert!(!text.concat().contains('\x1b'), "colour in a pipe");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = Command::new(EGRET)
        .args(["bench", "limits", "--quick", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn bad_arguments_are_usage_errors() {
    let bad: [&[&str]; 39] = [
        &["bench"],
        &["bench", "nonesuch"],
        &["bench", "limits", "--sizes", "0"],
        &["bench", "limits", "--sizes", "4,,8"],
        &["bench", "limits", "--sizes", "1T"],
        &["bench", "limits", "--wait", "never"],
        &["bench", "limits", "--reps", "0"],
        &["bench", "pairs", "--pairs", "0"],
        &["bench", "pairs", "--sizes", "8"],
        &["bench", "idle", "--sizes", "8"],
        &["bench", "idle", "--fabric", "sim"],
        &["bench", "idle", "--fabric", "shm", "--connections", "3000"],
        &["bench", "mixed", "--fabric", "udp-datagrams"],
        &["bench", "mixed", "--fabric", "sim"],
        &["bench", "threads", "--threads", "0"],
        &["bench", "threads", "--peers", "none"],
        &["bench", "threads", "--sizes", "8"],
        &["bench", "look", "--peers", "5000"],
        &["bench", "latency", "--fabric", "tcp", "--trust", "cooperating"],
        &["bench", "latency", "--fabric", "udp", "--spaces", "a"],
        &["bench", "am-latency", "--words", "17"],
        &["bench", "am-latency", "--bytes", "5K"],
        &["bench", "am-latency", "--sizes", "8"],
        &["bench", "am-rate", "--sizes", "8"],
        &["bench", "am-rate", "--fabric", "udp-datagrams"],
        &["bench", "am-bandwidth", "--fabric", "sim", "--wait", "frugal"],
        &["bench", "channel", "--fabric", "sim"],
        &["bench", "rmi", "--fabric", "udp-datagrams"],
        &["bench", "rmi", "--fabric", "sim"],
        &["bench", "rmi", "--sizes", "8"],
        &["bench", "rmi", "--inflight", "0"],
        &["bench", "rmi", "--calls", "nothing"],
        &["bench", "port", "--fabric", "sim"],
        &["bench", "port", "--sizes", "8"],
        &["bench", "port", "--ops", "nothing"],
        &["bench", "port", "--receivers", "5"],
        &["bench", "graph", "--sizes", "8"],
        &["bench", "graph", "--fabric", "udp-datagrams"],
        &["bench", "graph", "--graphs", "map7"],
    ];
    for args in bad {
        let output = egret(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn help_names_every_benchmark_and_not_the_machinery() {
    let output = egret(&["bench", "--help"]);
    for bench in BENCHES {
        assert!(stdout(&output).contains(&format!("  {bench} ")), "{bench}");
        assert!(egret(&["bench", bench, "--help"]).status.success(), "{bench}");
    }
    assert!(stdout(&output).contains("Examples:"));
    assert!(!stdout(&egret(&["--help"])).contains("bench-peer"));
}

#[test]
fn the_second_process_refuses_to_be_started_by_hand() {
    let output = Command::new(EGRET).arg("bench-peer").stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("not by hand"));
}

#[test]
fn no_process_outlives_a_run() {
    let mut child = Command::new(EGRET)
        .args(["bench", "limits", "--quick", "--json", "--fabric", "shm", "--reps", "20"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    let peer = only_child_of(child.id());
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!Path::new(&format!("/proc/{peer}")).exists(), "process {peer} is still there");
}

#[test]
fn a_killed_run_leaves_no_process_behind() {
    let mut child = Command::new(EGRET)
        .args(["bench", "limits", "--json", "--fabric", "shm", "--reps", "1000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while children_of(child.id()).is_empty() {
        rt::sleep(Duration::from_millis(5));
    }
    let peer = only_child_of(child.id());
    rt::sleep(Duration::from_millis(200));
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = || state(peer).is_none_or(|state| state == 'Z');
    for _ in 0..200 {
        if gone() {
            return;
        }
        rt::sleep(Duration::from_millis(10));
    }
    panic!("process {peer} is still there: {:?}", state(peer));
}

fn only_child_of(process: u32) -> u32 {
    let children = children_of(process);
    assert_eq!(children.len(), 1, "{children:?}");
    children[0]
}

fn children_of(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = fs::read_to_string(path).expect("the process is there");
    children.split_whitespace().map(|child| child.parse().expect("a number")).collect()
}

/// The letter that the kernel has for what a process does; `Z` is one that
/// ended and nobody has asked about.
fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

const BENCHES: [&str; 18] = [
    "limits",
    "pool",
    "latency",
    "bandwidth",
    "message-rate",
    "connect",
    "pairs",
    "idle",
    "graph",
    "am-latency",
    "am-rate",
    "am-bandwidth",
    "mixed",
    "threads",
    "look",
    "channel",
    "rmi",
    "port",
];
