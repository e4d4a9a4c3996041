//! The text of a public error names something concrete (a peer, an object, a number), by a value that it
//! has, or the variant is listed with the reason why its text names nothing.

use std::collections::BTreeSet;

use crate::errors::is_product;
use crate::repo::{Finding, Repo};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    against(repo, UNNAMED)
}

/// The variants whose texts have no value, by the reason.
const UNNAMED: &[(&str, &[&str])] = &[
    (
        "an argument of the call is wrong, and the text says which and what is right",
        &[
            "ConnectError::OtherNic",
            "LinkError::Oneself",
            "LinkError::Unreliable",
            "MemoryError::EmptyRegion",
            "MemoryError::NoAccess",
            "MemoryError::NoClass",
            "NodeError::Oneself",
            "OpenError::OtherNic",
            "PostError::Fresh",
            "PostError::ReadOnly",
            "PostError::Unreliable",
            "ViError::NothingPosted",
        ],
    ),
    (
        "the program has the one nic, connection, link, channel, endpoint, key or set of graphs in its \
         hand that the text is about",
        &[
            "AccessError::Revoked",
            "ChannelError::Aborted",
            "ChannelError::Full",
            "ChannelError::ReaderGone",
            "ChannelError::Withdrawn",
            "ConnectError::NicDown",
            "LinkError::Closed",
            "MessageError::EndpointGone",
            "MessageError::Moving",
            "MessageError::NoReply",
            "MessageError::NoSegment",
            "MessageError::Panicked",
            "MessageError::TagChanged",
            "MessageError::Unmapped",
            "OpenError::NicDown",
            "PostError::LaneFull",
            "RankGraphError::AllGone",
            "RankGraphError::Closed",
            "RankGraphError::NoMemory",
            "ViError::Cancelled",
            "ViError::Closed",
            "ViError::ClosedByPeer",
            "ViError::NicDown",
        ],
    ),
    (
        "the handler that waited is the one that runs",
        &[
            "ChannelError::InHandler",
            "JoinError::InHandler",
            "LinkError::InHandler",
            "MessageError::InHandler",
            "PortError::InHandler",
            "RankGraphError::InHandler",
        ],
    ),
    (
        "a part of the text of an error of connecting; a secret or key is named in no text",
        &[
            "HelloError::NotEgret",
            "HelloError::OtherByteOrder",
            "KeyError::Group",
            "KeyError::Other",
            "KeyError::Unknown",
            "SecretError::Different",
            "SecretError::OnlyOurs",
            "SecretError::OnlyTheirs",
            "SecretError::Stranger",
        ],
    ),
    (
        "a value inside a stream has no name",
        &["WireError::Duplicate", "WireError::NoLength", "WireError::NotUtf8"],
    ),
    ("the registry of the pool is the one that the node joined", &["NodeError::OtherAnswer"]),
];

fn against(repo: &Repo, unnamed: &[(&str, &[&str])]) -> Vec<Finding> {
    let listed: BTreeSet<&str> = unnamed.iter().flat_map(|(_, names)| *names).copied().collect();
    let (mut findings, mut used) = (Vec::new(), BTreeSet::new());
    for (path, text) in repo.ending(".rs").filter(|(path, _)| is_product(path)) {
        for (line, name, attribute) in texts(text) {
            if attribute.contains('{') || attribute.contains("transparent") {
                continue;
            }
            if listed.contains(name.as_str()) {
                used.insert(name);
            } else {
                let what = format!("the text of `{name}` names nothing concrete");
                findings.push(Finding::new(path, line, what));
            }
        }
    }
    for name in listed.into_iter().filter(|name| !used.contains(*name)) {
        let what = format!("`{name}` is listed as an error whose text names nothing, and is none");
        findings.push(Finding::new("tidy/src/error_texts.rs", 0, what));
    }
    findings
}

/// The texts of the public enums of a file that rustfmt has formatted: line, variant, and the attribute
/// `error` as it stands there.
pub(crate) fn texts(file: &str) -> Vec<(usize, String, String)> {
    let (mut found, mut owner, mut attribute) = (Vec::new(), None, None::<String>);
    let mut is_open = false;
    for (index, line) in file.lines().enumerate() {
        let trimmed = line.trim();
        if let Some(rest) = line.strip_prefix("pub enum ") {
            owner = rest.split(|c: char| !c.is_alphanumeric()).next();
        } else if line == "}" {
            owner = None;
        } else if is_open || trimmed.starts_with("#[error(") {
            let text = attribute.get_or_insert_default();
            text.push_str(trimmed);
            text.push('\n');
            is_open = !trimmed.ends_with(")]");
        } else if let Some(owner) = owner
            && trimmed.starts_with(char::is_uppercase)
            && let Some(text) = attribute.take()
        {
            let end = trimmed.find(|c: char| !c.is_alphanumeric()).unwrap_or(trimmed.len());
            found.push((index + 1, format!("{owner}::{}", &trimmed[..end]), text));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    const ENUM: &str = "#[derive(Debug, Error)]\npub enum CallError {\n    \
        /// One.\n    #[error(\n        \"node {node} is \\\n         gone\"\n    )]\n    Gone {\n        \
        node: u32,\n    },\n    #[error(transparent)]\n    Other(Inner),\n    \
        #[error(\"it failed\")]\n    Failed,\n    #[error(\"no\")]\n    No,\n}\n";

    #[test]
    fn a_text_that_names_nothing_is_found_unless_listed() {
        let repo = Repo::of(&[("crates/egret/src/a.rs", ENUM)]);
        let unnamed: &[(&str, &[&str])] = &[("why", &["CallError::No", "CallError::Gone"])];
        let expected = [
            "crates/egret/src/a.rs:14: the text of `CallError::Failed` names nothing concrete",
            "tidy/src/error_texts.rs: `CallError::Gone` is listed as an error whose text names nothing, and is none",
        ];
        assert_eq!(told(&against(&repo, unnamed)), expected);
    }
}
