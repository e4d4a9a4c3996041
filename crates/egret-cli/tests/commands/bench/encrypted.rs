//! `egret bench` of encryption and of connecting, as its users run it.

use super::{figure, lines};

#[test]
fn encryption_is_measured_beside_none() {
    let args = ["--encrypt", "on", "--quick", "--json", "--reps", "1"];
    for (fabric, name, bytes, has_aead) in [
        ("tcp", "latency", "4,70K", true),
        ("tcp", "bandwidth", "70K", true),
        ("tcp", "message-rate", "8", false),
        ("udp", "latency", "4", true),
    ] {
        let how = ["bench", name, "--fabric", fabric, "--sizes", bytes];
        for line in lines(&[&how[..], &args].concat()) {
            assert_eq!([&line["fabric"], &line["encrypt"]], [fabric, "on"]);
            let plain = figure(&line, "of_plain");
            assert!(plain > 0.0, "{line}");
            assert_eq!(line["of_aead"].is_number(), has_aead, "{line}");
            if has_aead {
                let (aead, slower) = (figure(&line, "of_aead"), figure(&line, "of_slower"));
                assert!(slower == plain.min(aead) && figure(&line, "of_both") < slower, "{line}");
            }
        }
        let off = ["--encrypt", "off", "--quick", "--json", "--reps", "1"];
        for line in lines(&[&how[..], &off].concat()) {
            assert_eq!(line["encrypt"], "off");
            assert!(line["of_plain"].is_null() && line["of_aead"].is_null(), "{line}");
        }
    }
}

#[test]
fn connecting_is_measured() {
    for (fabric, limit) in [("tcp", "tcp-connect"), ("udp", "")] {
        let how = ["bench", "connect", "--fabric", fabric, "--quick", "--json", "--reps", "1"];
        let lines = lines(&how);
        assert_eq!(lines.len(), 6, "{fabric}");
        for (at, line) in lines.iter().enumerate() {
            assert_eq!(line["encrypt"], if at < 3 { "off" } else { "on" });
            let (op, limit) =
                [("time", limit), ("caller-cpu", "allowed"), ("callee-cpu", "allowed")][at % 3];
            assert_eq!([&line["op"], &line["limit"]], [op, limit], "{line}");
            assert!(figure(line, "p50_ns") > 0.0, "{line}");
        }
    }
}
