//! `egret secret` as its users run it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use egret::node::registry::{Operator, Registry, RegistryOptions};
use egret::prelude::*;

use crate::dir::Dir;

const EGRET: &str = env!("CARGO_BIN_EXE_egret");

impl Dir {
    fn egret(&self, args: &[&str]) -> Output {
        Command::new(EGRET).args(args).current_dir(&self.0).output().expect("egret starts")
    }
}

#[test]
fn a_pool_is_joined_by_the_files_that_it_makes() {
    let dir = Dir::new("secret-made");
    let made = dir.egret(&["secret", "pool.secret"]);
    assert!(made.status.success(), "{made:?}");
    let said = String::from_utf8(made.stdout).unwrap();
    let file = PathBuf::from(dir.path("pool.secret"));
    let operator = Operator::load(&file).unwrap();
    assert!(said.contains(&operator.identity().key().to_string()), "{said}");
    for path in [file.clone(), Operator::key_file(&file)] {
        let text = fs::read_to_string(path).unwrap();
        assert!(!said.contains(text.trim()), "neither secret nor private key is shown");
    }
    let text = fs::read_to_string(&file).unwrap();
    let secret = || text.trim().into();
    // A registry that is opened again is the same one to its nodes.
    for _ in 0..2 {
        let registry = Registry::open(RegistryOptions::new("pool", 1).operator(&operator)).unwrap();
        let config = Config::new("pool").registry(registry.address()).secret(secret());
        Node::join(config).unwrap();
    }
    // Who has the secret, and not the key, is another.
    let other = Registry::open(RegistryOptions::new("pool", 1).secret(secret())).unwrap();
    let config = Config::new("pool").registry(other.address()).secret(secret());
    let why = Node::join(config).unwrap_err().to_string();
    assert!(why.contains("key"), "{why}");
}

#[test]
fn nothing_is_overwritten() {
    let dir = Dir::new("secret-twice");
    assert!(dir.egret(&["secret", "pool.secret"]).status.success());
    let before = fs::read(dir.path("pool.secret")).unwrap();
    let again = dir.egret(&["secret", "pool.secret"]);
    let why = String::from_utf8(again.stderr).unwrap();
    assert!(!again.status.success() && why.contains("nothing was made"), "{why}");
    assert!(why.contains("pool.secret"), "{why}");
    assert_eq!(fs::read(dir.path("pool.secret")).unwrap(), before);
}
