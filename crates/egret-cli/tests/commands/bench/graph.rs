//! `egret bench graph` as its users run it.

use serde_json::Value;

use super::figure;

#[test]
fn graphs_in_memory_are_held_against_others_of_the_same_shape() {
    let lines = lines(&["--fabric", "memory", "--graphs", "tree1023,map29,map1760"]);
    let of_map = [("build", "rc"), ("validate", "memcpy"), ("visit", "index")];
    let of_tree = [("build", "rc"), ("validate", "memcpy"), ("visit", "box"), ("visit", "index")];
    let maps = [("map29", 29), ("map1760", 1760)];
    let maps = maps.iter().flat_map(|map| of_map.map(|how| (*map, how)));
    let wanted = of_tree.map(|how| (("tree1023", 1023), how)).into_iter().chain(maps);
    let found = lines.iter().map(|line| {
        assert_eq!(line["fabric"], "memory");
        let objects = line["objects"].as_u64().unwrap();
        let [payload, op, limit] = ["payload", "op", "limit"].map(|name| text(line, name));
        ((payload, objects), (op, limit))
    });
    assert!(found.eq(wanted), "{lines:?}");
}

#[test]
fn graphs_between_processes_are_held_against_messages() {
    for fabric in ["shm", "tcp", "udp"] {
        let lines = lines(&["--fabric", fabric, "--graphs", "tree1023,map355"]);
        let mut wanted = vec![
            ["transfer", "fresh", "isolated", "vi+validate"],
            ["transfer", "posted", "isolated", "vi+validate"],
        ];
        if fabric == "shm" {
            wanted.push(["handover", "handover", "cooperating", "handover-4"]);
        }
        for (of_one, objects) in lines.chunks(wanted.len()).zip([1023, 355]) {
            assert!(of_one.iter().all(|line| line["objects"] == objects));
            let names = ["op", "mode", "trust", "limit"];
            let found = of_one.iter().map(|line| names.map(|name| text(line, name)));
            assert!(found.eq(wanted.iter().copied()), "{of_one:?}");
            assert!(of_one.iter().all(|line| [&line["fabric"], &line["wait"]] == [fabric, "spin"]));
        }
        assert_eq!(lines.len(), 2 * wanted.len());
    }
}

/// Of a quick run, each with its figures.
fn lines(args: &[&str]) -> Vec<Value> {
    let how = ["bench", "graph", "--quick", "--json", "--reps", "1"];
    let lines = super::lines(&[&how[..], args].concat());
    for line in &lines {
        assert_eq!(line["bench"], "graph");
        assert!(figure(line, "bytes") > 8.0 * figure(line, "objects"), "{line}");
        let ratio = figure(line, "p50_ns") / figure(line, "limit_ns");
        assert!((figure(line, "ratio") - ratio).abs() <= 0.01 * ratio + 0.001, "{line}");
        assert!(ratio > 0.0, "{line}");
    }
    lines
}

fn text<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_else(|| panic!("{name} in {line}"))
}
