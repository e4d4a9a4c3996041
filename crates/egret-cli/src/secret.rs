//! `egret secret`: makes the secret of a pool.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use egret::node::registry::Operator;

/// Make the secret of a pool, and the key of its registry.
///
/// Writes two new files that only you can read. FILE has the secret, with the registry's public key
/// in it: nodes take it by EGRET_SECRET_FILE=FILE. FILE.key has the registry's private key, and stays
/// with the program that opens the registry, which reads both by `Operator::load(FILE)`. Nodes that have
/// FILE join a registry that has FILE.key, and no other.
///
/// Jobs of `egret run` need neither: each has a secret and a key of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct SecretArgs {
    /// Where the secret is written, which must not be there yet
    file: PathBuf,
}

pub(crate) fn run(args: &SecretArgs) -> Result<()> {
    let operator = Operator::random();
    let key = operator.identity().key();
    operator.save(&args.file).context("nothing was made")?;
    let (file, key_file) = (args.file.display(), Operator::key_file(&args.file));
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{file}: the secret, for nodes (EGRET_SECRET_FILE) and the registry (Operator::load)"
    )?;
    writeln!(
        out,
        "{}: the private key, for the registry alone (Operator::load)",
        key_file.display()
    )?;
    writeln!(out, "the registry's public key is {key}")?;
    Ok(())
}
