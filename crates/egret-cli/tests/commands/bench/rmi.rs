//! `egret bench rmi` as its users run it.

use super::{figure, lines};

#[test]
fn remote_calls_are_held_against_the_virtual_interface() {
    for (fabric, wait) in
        [("shm", "spin"), ("shm", "balanced"), ("tcp", "frugal"), ("udp", "balanced")]
    {
        let how = ["bench", "rmi", "--fabric", fabric, "--wait", wait];
        let lines = lines(&[&how[..], &["--quick", "--json", "--reps", "1"]].concat());
        let mut calls = Vec::new();
        for line in &lines {
            assert_eq!(line["bench"], "rmi");
            assert!(figure(line, "ratio") > 0.0);
            if line["op"] == "read-in-place" {
                assert_eq!(line["limit"], "memcpy");
                continue;
            }
            assert_eq!([&line["fabric"], &line["wait"]], [fabric, wait]);
            let (call, inflight) = (line["call"].as_str().unwrap(), figure(line, "inflight"));
            let unit =
                if inflight > 1.0 { ["msg_s", "limit_msg_s"] } else { ["p50_ns", "limit_ns"] };
            let is_crowd = ["crossing", "behind", "sleep-50us", "compute-50us"].contains(&call);
            assert!(unit.iter().all(|name| figure(line, name) > 0.0), "{line}");
            let limit = match (call, line["mode"].as_str()) {
                ("tree1023", _) => "vi+tree",
                ("nested" | "crossing", _) => "one plain call",
                ("behind", _) => "allowed",
                ("sleep-50us" | "compute-50us", _) => "threads",
                (_, Some("tokio")) => "eventfd",
                _ => "vi",
            };
            assert_eq!(line["limit"], limit);
            let is_small = ["null", "i32", "bytes-64", "bytes-1k", "f64-1k"].contains(&call);
            let (is_shm, is_one) = (fabric == "shm", inflight == 1.0);
            assert_eq!(
                line["of_slot"].is_f64(),
                is_shm && is_small && is_one && limit == "vi",
                "{line}"
            );
            assert_eq!(line["of_line_echo"].is_f64(), is_shm && !is_one && !is_crowd, "{line}");
            calls.push(format!("{call} {inflight} {}", line["mode"].as_str().unwrap()));
        }
        let null = [
            "null 1 inline",
            "null 1 plain",
            "null 1 await",
            "null 1 tokio",
            "null 64 inline",
            "null 64 plain",
            "nested 1 plain",
            "crossing 1 plain",
            "behind 1 plain",
            "sleep-50us 4 plain",
            "compute-50us 16 plain",
        ];
        let others = ["i32", "bytes-64", "bytes-1k", "bytes-100k", "i32-100k", "f64-100k"];
        let others = others.iter().chain(&["f64-100k-pool", "tree1023", "f64-1k", "f64-1m"]);
        let others = others.map(|call| format!("{call} 1 inline"));
        assert!(calls.into_iter().eq(null.map(str::to_owned).into_iter().chain(others)));
        assert_eq!(lines.iter().filter(|line| line["op"] == "read-in-place").count(), 2);
    }
}

#[test]
fn many_stubs_are_held_against_one() {
    let how = ["bench", "rmi", "--calls", "nested", "--inflight", "1", "--stubs", "2000"];
    let lines = lines(&[&how[..], &["--quick", "--json", "--reps", "1"]].concat());
    let [_, memory, stubs] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(memory["call"], "stub-memory");
    assert!(figure(memory, "memory_bytes") <= figure(memory, "limit_bytes"), "{memory}");
    assert_eq!([&stubs["call"], &stubs["limit"]], ["stubs", "one plain call"]);
    assert_eq!(figure(stubs, "objects"), 2000.0);
    assert!(figure(stubs, "p50_ns") > 0.0 && figure(stubs, "limit_ns") > 0.0, "{stubs}");
}
