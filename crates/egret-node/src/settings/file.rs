//! The file with settings: lines of `name = value` as in TOML, flat, where a value is a
//! string, a number or a truth.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{SettingKey, secret};
use crate::pool::JoinError;

/// Which file there is: the one that the environment names, which must be there, or the
/// first that is.
pub(super) fn find(
    environment: &BTreeMap<String, String>,
    directory: &Path,
) -> Result<Option<PathBuf>, JoinError> {
    if let Some(named) = environment.get(SettingKey::Config.variable()) {
        let path = directory.join(named);
        if path.is_file() {
            return Ok(Some(path));
        }
        let is = if path.exists() { "it is no regular file" } else { "there is no such file" };
        let why = format!("{is}, and {} names it", SettingKey::Config.variable());
        return Err(JoinError::File { path, why });
    }
    let users = match (environment.get("XDG_CONFIG_HOME"), environment.get("HOME")) {
        (Some(config), _) => Some(PathBuf::from(config)),
        (None, Some(home)) => Some(Path::new(home).join(".config")),
        (None, None) => None,
    };
    let users = users.map(|users| users.join("egret").join(NAME));
    let here = directory.join(NAME);
    Ok([Some(here), users].into_iter().flatten().find(|path| path.is_file()))
}

/// Reads a file of settings. One that has a secret must pass [`secret::check`].
pub(super) fn read(path: &Path) -> Result<Vec<(SettingKey, String)>, JoinError> {
    read_open(secret::open(path)?, path)
}

/// The same of a file that is open, whatever lies at its path by now.
pub(super) fn read_open(
    mut file: File,
    path: &Path,
) -> Result<Vec<(SettingKey, String)>, JoinError> {
    let mut text = Zeroizing::new(String::with_capacity(secret::size(&file)));
    file.read_to_string(&mut text).map_err(|why| secret::failed(path, &why))?;
    let mut said: Vec<(SettingKey, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let bad = |why| JoinError::FileLine { path: path.to_owned(), line: at + 1, why };
        if let Some((key, value)) = read_line(line).map_err(bad)? {
            if said.iter().any(|(known, _)| *known == key) {
                return Err(bad(format!("{} stands there twice", key.name())));
            }
            said.push((key, value));
        }
    }
    if said.iter().any(|(key, _)| *key == SettingKey::Secret) {
        secret::check(&file, path)?;
    }
    Ok(said)
}

fn read_line(line: &str) -> Result<Option<(SettingKey, String)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, value) = line.split_once('=').ok_or("name = value is expected")?;
    let name = name.trim();
    let is_filed = |key: &SettingKey| !matches!(key, SettingKey::Config | SettingKey::SecretFd);
    let known = SettingKey::ALL.into_iter().filter(is_filed);
    let key = known.clone().find(|key| key.name() == name).ok_or_else(|| {
        let names: Vec<_> = known.map(SettingKey::name).collect();
        format!("no setting {name:?}; there are: {}", names.join(", "))
    })?;
    read_value(value.trim()).map(|value| Some((key, value)))
}

/// A string in quotes, or a bare number or truth; perhaps a comment behind it.
fn read_value(text: &str) -> Result<String, String> {
    let (value, rest) = match text.strip_prefix('"') {
        Some(quoted) => read_string(quoted)?,
        None => {
            let end = text.find([' ', '\t', '#']).unwrap_or(text.len());
            let (bare, rest) = text.split_at(end);
            let is_number = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit());
            if !is_number && bare != "true" && bare != "false" {
                return Err("a string in quotes, a number, true or false is expected".to_owned());
            }
            (bare.to_owned(), rest)
        }
    };
    match rest.trim() {
        "" => Ok(value),
        comment if comment.starts_with('#') => Ok(value),
        _ => Err("something stands behind the value".to_owned()),
    }
}

fn read_string(quoted: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, &quoted[at + 1..])),
            '\\' => match chars.next() {
                Some((_, c @ ('"' | '\\'))) => value.push(c),
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                _ => return Err(r#"\", \\, \n or \t is expected"#.to_owned()),
            },
            c => value.push(c),
        }
    }
    Err("the string does not end".to_owned())
}

const NAME: &str = "egret.toml";
