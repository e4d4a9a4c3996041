//! `egret info` as its users run it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};

use egret::fabric::{Fabrics, shm::ShmFabric};
use serde_json::Value;

const EGRET: &str = env!("CARGO_BIN_EXE_egret");

fn egret(args: &[&str]) -> Output {
    Command::new(EGRET).args(args).output().expect("egret starts")
}

fn object(output: &Output) -> Value {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
    serde_json::from_slice(&output.stdout).expect("one object")
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let list = list.as_array().expect("a list");
    list.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {list:?}"))
}

#[test]
fn the_object_has_what_a_nic_says_and_what_the_kernel_grants() {
    let info = object(&egret(&["info", "--json"]));
    assert_eq!(info["egret"], env!("CARGO_PKG_VERSION"));
    assert!(info["machine"]["cores"].as_u64().unwrap() >= 1);
    assert!(info["machine"]["memory_bytes"].as_u64().unwrap() > 1 << 20);
    for name in Fabrics::default().names() {
        let fabric = named(&info["fabrics"], name);
        assert_eq!(fabric["available"], true, "{fabric}");
        assert_eq!(fabric["trust"][0], "isolated");
        let host = format!("info-test-{}", std::process::id());
        let limits = Fabrics::default().open(name, host.as_str()).unwrap().limits();
        let said = &fabric["limits"];
        assert_eq!(said["queue_depth"], limits.queue_depth);
        assert_eq!(said["transfer_max"], limits.transfer_max);
        assert_eq!(said["segments_max"], limits.segments_max);
        assert_eq!(said["registrable_max"], limits.registrable_max);
        assert_eq!(said["pin_threshold"], limits.pin_threshold);
    }
    let places = info["places"].as_array().unwrap();
    assert_eq!(places.iter().map(|place| &place["host"]).collect::<Vec<_>>(), ["", "reachable"]);
    assert_eq!([&places[0]["address"], &places[0]["interface"]], ["127.0.0.1", "lo"]);
    assert!(places.iter().all(|place| !place["why"].as_str().unwrap().is_empty()), "{places:?}");
    assert_ne!(places[1]["address"], "127.0.0.1");
    for name in GRANTS {
        let grant = named(&info["grants"], name);
        assert_eq!(grant["granted"] == true, grant["why"].is_null(), "{grant}");
    }
    // shm opened, and does not without this.
    assert_eq!(named(&info["grants"], "memfd-seals")["granted"], true);
    assert!(!info["means"].as_array().unwrap().is_empty());
}

#[test]
fn what_is_not_to_be_had_is_said_with_its_reason() {
    // One descriptor more than stdin, stdout and stderr: to be loaded, a program needs that.
    let script = "ulimit -n 4 && exec \"$0\" info --json";
    let output = Command::new("sh").args(["-c", script, EGRET]).output().expect("a shell");
    let info = object(&output);
    assert_eq!(named(&info["fabrics"], "sim")["available"], true);
    let shm = named(&info["fabrics"], "shm");
    assert_eq!(shm["available"], false);
    assert!(!shm["why"].as_str().unwrap().is_empty() && shm["limits"].is_null(), "{shm}");
    for name in ["so-peercred", "so-peerpidfd", "process-vm-readv", "pidfd"] {
        let grant = named(&info["grants"], name);
        assert_eq!(grant["granted"], false, "{grant}");
        assert!(grant["why"].as_str().unwrap().contains("open files"), "{grant}");
    }
    assert!(info["means"][0].as_str().unwrap().contains("not to be had"), "{info}");
}

#[test]
fn people_get_lines_that_are_aligned() {
    let output = egret(&["info"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (facts, means) = text.split_once("\n* ").expect("sentences at the end");
    for line in facts.lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_at_checked(18).expect(line);
        assert!(name.ends_with(' ') && !value.starts_with(' '), "{line:?}");
        assert_eq!(line, line.trim_end());
    }
    assert!(means.contains("shm"), "{means}");
    assert!(facts.contains("\ntcp, udp listen   at 127.0.0.1 on lo: nothing else"), "{facts}");
    assert!(facts.contains("\nreachable         "), "{facts}");
    for name in GRANTS {
        assert!(facts.contains(&format!("\n{name} ")), "{name} in {facts}");
    }
    assert!(!text.contains('\x1b'), "colour in a pipe");
}

#[test]
fn nothing_is_left_behind_and_the_second_process_is_hidden() {
    let mut child = Command::new(EGRET)
        .args(["info", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let by_hand = egret(&["info-peer", "nobody-listens-here"]);
    assert_eq!(by_hand.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&by_hand.stderr).contains("not by hand"));
    let help = String::from_utf8(egret(&["--help"]).stdout).unwrap();
    assert!(help.contains("  info ") && !help.contains("info-peer"), "{help}");
    assert_eq!(egret(&["info", "--yaml"]).status.code(), Some(2));
}

#[test]
fn the_doorbell_is_fenced_as_shm_says() {
    let info = object(&egret(&["info", "--json"]));
    let is_granted = named(&info["grants"], "membarrier-global")["granted"].as_bool().unwrap();
    assert_eq!(is_granted, ShmFabric::sleepers_fence());
    let means = info["means"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    let about: Vec<_> = means.filter(|line| line.contains("doorbell")).collect();
    let said = if is_granted { "the sleeping side executes" } else { "each message executes" };
    assert!(matches!(about[..], [line] if line.contains(said)), "{about:?}");
}

const GRANTS: [&str; 7] = [
    "memfd-seals",
    "so-peercred",
    "so-peerpidfd",
    "membarrier",
    "membarrier-global",
    "process-vm-readv",
    "pidfd",
];

#[test]
fn settings_are_listed_with_value_and_origin_and_the_secret_is_not_shown() {
    let dir = std::env::temp_dir().join(format!("egret-info-env-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("egret.toml"), "pool = \"filed\"\nsize = 7\n").unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(EGRET);
        command.args(args).current_dir(&dir).env("EGRET_SIZE", "3").env("EGRET_SECRET", "hush");
        command
            .env("EGRET_FABRIC", "shm")
            .env_remove("EGRET_CONFIG")
            .output()
            .expect("egret starts")
    };
    let (json, text) = (run(&["info", "--env", "--json"]), run(&["info", "--env"]));
    std::fs::write(dir.join("egret.toml"), "pol = 1").unwrap();
    let bad = run(&["info", "--env"]);
    std::fs::remove_file(dir.join("egret.toml")).unwrap();
    let with_secret = |secret: &[u8]| {
        let mut command = Command::new(EGRET);
        command.args(["info", "--env"]).current_dir(&dir).env_remove("EGRET_CONFIG");
        let output = command.env("EGRET_SECRET", OsStr::from_bytes(secret)).output();
        output.expect("egret starts")
    };
    let (empty, no_text) = (with_secret(b""), with_secret(b"\xff"));
    std::fs::remove_dir_all(&dir).unwrap();
    let all = object(&json);
    assert_eq!(named(&all, "size")["value"], "3");
    assert_eq!(named(&all, "size")["origin"], "environment");
    assert_eq!(named(&all, "pool")["value"], "filed");
    assert!(named(&all, "pool")["origin"].as_str().unwrap().ends_with("egret.toml"));
    assert_eq!(named(&all, "deadline")["origin"], "default");
    assert_eq!(named(&all, "secret")["origin"], "environment");
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("EGRET_SECRET") && text.contains("(not shown)"), "{text}");
    assert!(!text.contains("hush") && !format!("{json:?}").contains("hush"), "{text}");
    let unknown = named(&all, "EGRET_FABRIC")["help"].as_str().unwrap();
    assert!(unknown.contains("unknown setting") && text.contains("EGRET_FABRIC "), "{text}");
    let why = String::from_utf8(bad.stderr).unwrap();
    assert!(!bad.status.success() && why.contains("egret.toml:1:"), "{why}");
    let why = String::from_utf8(empty.stderr).unwrap();
    let is_told = why.contains("EGRET_SECRET") && why.contains("is empty");
    assert!(!empty.status.success() && is_told, "{why}");
    let why = String::from_utf8(no_text.stderr).unwrap();
    assert!(!no_text.status.success() && why.contains("EGRET_SECRET is not valid UTF-8"), "{why}");
    assert!(text.contains("chmod 600") && text.contains("beyond loopback"), "{text}");
}

#[test]
fn encryption_off_is_the_first_warning() {
    let said = |args: &[&str], encrypt: Option<&str>| {
        let mut command = Command::new(EGRET);
        command.args(args).env_remove("EGRET_ENCRYPT");
        command.envs(encrypt.map(|encrypt| ("EGRET_ENCRYPT", encrypt)));
        String::from_utf8(command.output().expect("egret starts").stdout).unwrap()
    };
    for args in [&["info"][..], &["info", "--env"]] {
        let off = said(args, Some("off"));
        assert!(off.starts_with("WARNING: ENCRYPTION IS OFF (EGRET_ENCRYPT=off"), "{off}");
        for encrypt in [None, Some("on"), Some("between-machines")] {
            let on = said(args, encrypt);
            assert!(!on.contains("WARNING") && on.contains("EGRET_ENCRYPT"), "{on}");
        }
    }
    let info: Value = serde_json::from_str(&said(&["info", "--json"], Some("off"))).unwrap();
    assert_eq!(info["encryption"]["value"], "off");
    assert_eq!(info["secret"]["variable"], "EGRET_SECRET");
    for args in [&["info"][..], &["info", "--env"]] {
        let wrong = said(args, Some("perhaps"));
        assert!(wrong.contains("WRONG") && wrong.contains("on or off is expected"), "{wrong}");
    }
}
