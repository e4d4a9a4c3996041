//! The structure of a type as a tree, out of the text of its schema.
//!
//! The text comes from another program: whatever it says, nothing here panics, recurs or takes
//! memory out of proportion to it.

use crate::error::WireError;

/// A type with its parts; number 0 is the whole.
#[derive(Debug)]
pub(crate) struct SchemaTree {
    pub(crate) nodes: Vec<SchemaNode>,
}

/// A line of a schema.
#[derive(Debug)]
pub(crate) struct SchemaNode {
    /// The name of the field.
    pub(crate) label: String,
    /// The type, as it stands in the text.
    pub(crate) word: String,
    /// It travels by the functions of a module.
    pub(crate) is_by_module: bool,
    pub(crate) form: Form,
    pub(crate) parts: Vec<usize>,
    /// The reader can do without the field.
    pub(crate) is_defaulted: bool,
    pub(crate) takes: Takes,
}

/// How the values of a type lie in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// So many bytes.
    Fixed(usize),
    /// A number whose lists lie aligned.
    Number(usize),
    /// A plain struct: size and alignment.
    Plain(usize, usize),
    /// A length and bytes.
    Text,
    /// An address of one of two families: their sizes.
    Families(usize, usize),
    List,
    /// A set or a deque: a list whose elements always come one by one.
    Bag,
    Map,
    Option,
    Result,
    Shared,
    Weak,
    Array(usize),
    /// So many values of the one part.
    Range(usize),
    Tuple,
    Struct,
    Enum,
    /// Of an enum.
    Variant,
    /// The same as an earlier line.
    Again(usize),
    /// Only the code of the type knows.
    Opaque,
}

/// Whether a value takes bytes of its own: an element of a list that does not has one byte before
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Takes {
    Nothing,
    Unknown,
    Bytes,
}

impl SchemaTree {
    /// Reads the text of a schema; the lines with the numbers in `defaulted` are of fields that
    /// the reader can do without.
    pub(crate) fn read(text: &str, defaulted: &[usize]) -> Result<Self, WireError> {
        let mut tree = Self { nodes: Vec::new() };
        // The open lines, the last of which is the parent of the next line.
        let mut open: Vec<usize> = Vec::new();
        let mut named = Vec::new();
        for line in text.lines() {
            let words = line.trim_start_matches(' ');
            let depth = (line.len() - words.len()) / 2;
            let is_root = depth == 0 && tree.nodes.is_empty();
            if !is_root && (depth == 0 || depth > open.len()) {
                return Err(unclear(line, "stands below nothing"));
            }
            if tree.nodes.len() == LINES_MAX || depth > DEPTH_MAX {
                return Err(unclear(line, "is one too many"));
            }
            open.truncate(depth);
            let at = tree.nodes.len();
            let parent = open.last().copied();
            let node = tree.node(words, parent, &mut named, defaulted.contains(&at))?;
            tree.nodes.push(node);
            if let Some(parent) = parent {
                tree.nodes[parent].parts.push(at);
            }
            open.push(at);
        }
        tree.check()?;
        tree.weigh();
        Ok(tree)
    }

    fn node(
        &self,
        words: &str,
        parent: Option<usize>,
        named: &mut Vec<usize>,
        is_defaulted: bool,
    ) -> Result<SchemaNode, WireError> {
        let is_variant = parent.is_some_and(|parent| self.nodes[parent].form == Form::Enum);
        let (label, word) = match words.split_once(": ") {
            Some((label, word)) if !is_variant && !label.contains(' ') => (label, word),
            _ => ("", words),
        };
        let (word, is_by_module) = match word.strip_suffix(BY_MODULE) {
            Some(word) if !is_variant => (word, true),
            _ => (word, false),
        };
        let form = match word.strip_suffix(')').and_then(|word| word.rsplit_once(" again (")) {
            _ if is_variant => Form::Variant,
            Some((name, number)) => {
                let target = number.parse().ok().and_then(|number: usize| named.get(number));
                match target {
                    Some(&target) if self.nodes[target].word == name => Form::Again(target),
                    _ => return Err(unclear(word, "refers to no line above")),
                }
            }
            None => form(word).ok_or_else(|| unclear(word, "has an impossible size"))?,
        };
        if matches!(form, Form::Struct | Form::Enum) {
            named.push(self.nodes.len());
        }
        let (label, word) = (label.to_owned(), word.to_owned());
        let takes = Takes::Nothing;
        Ok(SchemaNode { label, word, is_by_module, form, parts: Vec::new(), is_defaulted, takes })
    }

    /// Fails unless each line has as many parts as its form wants, and no two of one name.
    fn check(&self) -> Result<(), WireError> {
        if self.nodes.is_empty() {
            return Err(unclear("", "is empty"));
        }
        for node in &self.nodes {
            let wanted = match node.form {
                Form::Tuple | Form::Struct | Form::Enum | Form::Variant | Form::Opaque => None,
                Form::Map | Form::Result => Some(2),
                Form::List | Form::Bag | Form::Option | Form::Shared | Form::Weak => Some(1),
                Form::Array(_) | Form::Range(_) => Some(1),
                _ => Some(0),
            };
            if wanted.is_some_and(|wanted| wanted != node.parts.len()) {
                return Err(unclear(&node.word, "has parts that it cannot have"));
            }
            let mut names: Vec<&str> = match node.form {
                Form::Struct | Form::Variant => self.parts(node).map(|part| &*part.label).collect(),
                Form::Enum => self.parts(node).map(|part| &*part.word).collect(),
                _ => continue,
            };
            names.sort_unstable();
            if names.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(unclear(&node.word, "has two parts of one name"));
            }
        }
        Ok(())
    }

    /// Finds which lines take bytes: from nothing upwards until nothing changes.
    fn weigh(&mut self) {
        loop {
            let mut is_changed = false;
            for at in (0..self.nodes.len()).rev() {
                let takes = self.takes(&self.nodes[at]);
                is_changed |= std::mem::replace(&mut self.nodes[at].takes, takes) != takes;
            }
            if !is_changed {
                return;
            }
        }
    }

    fn takes(&self, node: &SchemaNode) -> Takes {
        match node.form {
            Form::Fixed(0) | Form::Array(0) | Form::Range(0) => Takes::Nothing,
            Form::Again(target) => self.nodes[target].takes,
            Form::Opaque if node.word.starts_with("serde ") => Takes::Nothing,
            Form::Opaque if node.word == "never" => Takes::Nothing,
            Form::Opaque if node.word.starts_with("dyn ") => Takes::Bytes,
            Form::Opaque => Takes::Unknown,
            Form::Array(_) | Form::Range(_) | Form::Tuple | Form::Struct | Form::Variant => {
                // A part that a module writes counts as nothing.
                let parts = self.parts(node).filter(|part| !part.is_by_module);
                parts.map(|part| part.takes).max().unwrap_or(Takes::Nothing)
            }
            _ => Takes::Bytes,
        }
    }

    /// The line with that number, or the one that it refers to.
    pub(crate) fn resolved(&self, at: usize) -> usize {
        match self.nodes[at].form {
            Form::Again(target) => target,
            _ => at,
        }
    }

    pub(crate) fn parts(&self, node: &SchemaNode) -> impl Iterator<Item = &SchemaNode> {
        node.parts.iter().map(|&part| &self.nodes[part])
    }

    /// The first line of `at` and its parts that cannot be skipped.
    pub(crate) fn unskippable(&self, at: usize) -> Option<&SchemaNode> {
        let mut seen = vec![false; self.nodes.len()];
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            let at = self.resolved(at);
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let node = &self.nodes[at];
            if node.form == Form::Opaque || self.is_marking(at).is_none() {
                return Some(node);
            }
            open.extend(&node.parts);
        }
        None
    }

    /// Whether a byte stands before each element of the list, set or map `at`; `None` if only the
    /// code of the type knows.
    pub(crate) fn is_marking(&self, at: usize) -> Option<bool> {
        let node = &self.nodes[at];
        if !matches!(node.form, Form::List | Form::Bag | Form::Map) {
            return Some(false);
        }
        match self.parts(node).map(|part| part.takes).max() {
            Some(Takes::Bytes) => Some(false),
            Some(Takes::Nothing) => Some(true),
            _ => None,
        }
    }
}

/// How a type of that description lies; `None` if it says what cannot be.
fn form(word: &str) -> Option<Form> {
    if let Some(number) = word.strip_prefix("non-zero ") {
        return Some(match form(number) {
            Some(Form::Number(bytes) | Form::Fixed(bytes)) => Form::Fixed(bytes),
            _ => Form::Opaque,
        });
    }
    if let Some(len) = word.strip_prefix("array of ") {
        return len.parse().ok().map(Form::Array);
    }
    if word.starts_with("plain ") {
        return plain(word);
    }
    Some(match word {
        "u8" | "i8" => Form::Number(1),
        "u16" | "i16" => Form::Number(2),
        "u32" | "i32" | "f32" => Form::Number(4),
        "u64" | "i64" | "f64" => Form::Number(8),
        "u128" | "i128" => Form::Number(16),
        "usize" | "isize" => Form::Fixed(8),
        "bool" => Form::Fixed(1),
        "char" | "IPv4 address" => Form::Fixed(4),
        "IPv6 address" => Form::Fixed(16),
        "IPv4 address and port" => Form::Fixed(6),
        "IPv6 address and port" => Form::Fixed(26),
        "IP address" => Form::Families(4, 16),
        "IP address and port" => Form::Families(6, 26),
        "duration" => Form::Fixed(12),
        "system time" => Form::Fixed(13),
        "nothing" | "range full" => Form::Fixed(0),
        "string" | "path" | "system string" => Form::Text,
        "list" => Form::List,
        "set" | "deque" => Form::Bag,
        "map" => Form::Map,
        "option" => Form::Option,
        "result" => Form::Result,
        "shared" => Form::Shared,
        "weak" => Form::Weak,
        "tuple" => Form::Tuple,
        "range" | "range inclusive" => Form::Range(2),
        "range from" | "range to" | "range to inclusive" => Form::Range(1),
        _ if word.starts_with("struct ") => Form::Struct,
        _ if word.starts_with("enum ") => Form::Enum,
        _ => Form::Opaque,
    })
}

/// `plain Name fingerprint of 16 bytes at 8`
fn plain(word: &str) -> Option<Form> {
    let (rest, align) = word.rsplit_once(" bytes at ")?;
    let (_, size) = rest.rsplit_once(" of ")?;
    let (size, align): (usize, usize) = (size.parse().ok()?, align.parse().ok()?);
    let is_possible = align.is_power_of_two() && align <= ALIGN_MAX && size > 0;
    is_possible.then_some(Form::Plain(size, align))
}

#[cold]
fn unclear(line: &str, why: &str) -> WireError {
    let line: String = line.trim_start().chars().take(100).collect();
    WireError::Custom(format!("the schema of the writer is not understood: `{line}` {why}"))
}

/// Behind a type that travels by the functions of a module.
pub(crate) const BY_MODULE: &str = " (by a module)";
/// So many lines a schema has at most.
const LINES_MAX: usize = 8192;
const DEPTH_MAX: usize = 256;
const ALIGN_MAX: usize = 4096;
