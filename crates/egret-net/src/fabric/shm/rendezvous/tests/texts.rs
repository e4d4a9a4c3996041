//! The texts of errors that cross the wire: each is known on the other side.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::*;
use crate::fabric::common::bytes::{DATAPATH, known};
use crate::fabric::seal;
use crate::fabric::shm::socket::ControlPacket;
use crate::vi::ViError;

/// The texts that the sources under `folder` put into errors for peers.
fn texts_in(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("tests") {
                texts_in(&path, found);
            }
        } else {
            texts_of_file(&path, found);
        }
    }
}

fn texts_of_file(path: &Path, found: &mut BTreeSet<String>) {
    let source = fs::read_to_string(path).unwrap();
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    found.extend(["Protocol(", "Malformed("].iter().flat_map(|call| texts_of(code, call)));
}

/// The literals that follow `call`.
fn texts_of(code: &str, call: &str) -> Vec<String> {
    let after = code.split(call).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
    after.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

fn in_the_sources() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let fabric = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/fabric"));
    for fabric in ["shm", "tcp"].map(|name| fabric.join(name)) {
        texts_in(&fabric, &mut found);
    }
    let window = ["connection.rs", "datapath.rs", "recv.rs", "send.rs", "wire.rs"];
    let window = window.map(|file| format!("window/{file}"));
    let shared = ["outbox.rs", "common/eager.rs", "common/incoming.rs"].map(str::to_owned);
    for shared in shared.into_iter().chain(window) {
        texts_of_file(&fabric.join(shared), &mut found);
    }
    assert!(found.len() > 10, "the sources look otherwise than this test thinks: {found:?}");
    found
}

#[test]
fn every_text_of_the_fabric_is_known_and_every_known_text_is_used() {
    let listed: BTreeSet<String> = DATAPATH.iter().map(|text| (*text).to_owned()).collect();
    let written = in_the_sources();
    let missing: Vec<_> = written.difference(&listed).collect();
    assert!(missing.is_empty(), "add to the texts of the datapath: {missing:?}");
    let unused: Vec<_> = listed.difference(&written).collect();
    assert!(unused.is_empty(), "nobody says this any more: {unused:?}");
}

#[test]
fn every_text_arrives_as_it_was_sent() {
    for text in DATAPATH.iter().chain(&seal::TEXTS) {
        let why = ViError::Protocol(text);
        let bytes = ControlMessage::Close(CloseReason::of(why.clone())).encode();
        let packet = ControlPacket { bytes, fds: Vec::new(), cut_off: false };
        let (message, _) = ControlMessage::decode(packet).unwrap();
        let ControlMessage::Close(farewell) = message else { panic!("{message:?}") };
        assert_eq!(farewell.into_error(), why);
        assert_eq!(known(text), *text);
    }
}

#[test]
fn a_text_in_a_source_is_found() {
    let code = "Err(ViError::Protocol(\"one\"))\nlet x = Protocol(\n    \"two\",\n);\nProtocol(_)";
    assert_eq!(texts_of(code, "Protocol("), ["one", "two"]);
}
