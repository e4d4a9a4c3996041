//! `egret bench port` as its users run it.

use super::{figure, lines};

#[test]
fn ports_are_held_against_what_they_are_made_of() {
    for (fabric, wait) in [("shm", "spin"), ("shm", "balanced"), ("tcp", "frugal")] {
        let how = ["bench", "port", "--fabric", fabric, "--wait", wait, "--receivers", "1,3"];
        let lines = lines(&[&how[..], &["--quick", "--json", "--reps", "1"]].concat());
        let ops = lines.iter().map(|line| {
            assert_eq!(line["bench"], "port");
            assert_eq!([&line["fabric"], &line["wait"]], [fabric, wait]);
            assert!(figure(line, "ratio") > 0.0);
            let (op, limit) = (line["op"].as_str().unwrap(), line["limit"].as_str().unwrap());
            let is_rate = ["stream", "tree", "multicast"].contains(&op);
            let unit = if is_rate { ["mb_s", "limit_mb_s"] } else { ["p50_ns", "limit_ns"] };
            assert!(unit.iter().all(|name| figure(line, name) > 0.0), "{line}");
            assert_eq!(line["of_slot"].is_f64(), fabric == "shm" && limit == "am", "{line}");
            let peers = line["peers"].as_u64().map_or_else(String::new, |peers| peers.to_string());
            format!("{op} {limit} {peers}")
        });
        let expected = [
            "ping am ",
            "upcall am ",
            "stream vi ",
            "tree slowest-part ",
            "multicast unicasts 1",
            "multicast-cpu unicast 1",
            "multicast unicasts 3",
            "multicast-cpu unicast 3",
        ];
        assert_eq!(ops.collect::<Vec<_>>(), expected);
    }
}
