//! Rust text, split into code and comments well enough to look for things in.

/// One source file as two texts with the same lines: everything else is blank.
pub(crate) struct Source {
    /// Without comments and without what stands in literals.
    pub(crate) code: String,
    /// The comments alone, with their slashes.
    pub(crate) comments: String,
}

impl Source {
    pub(crate) fn split(text: &str) -> Self {
        let mut source = Self { code: String::new(), comments: String::new() };
        let mut rest = text;
        while !rest.is_empty() {
            let (kind, length) = piece(rest);
            let (this, after) = rest.split_at(length);
            source.code += &if kind == Kind::Code { this.to_owned() } else { blank(this) };
            source.comments += &if kind == Kind::Comment { this.to_owned() } else { blank(this) };
            rest = after;
        }
        source
    }

    /// The words and the signs of the code; `::` is one sign.
    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        let mut tokens = Vec::new();
        for (index, line) in self.code.lines().enumerate() {
            let mut rest = line.trim_start();
            while !rest.is_empty() {
                let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let sign = if rest.starts_with("::") { 2 } else { first_char(rest) };
                let (text, after) = rest.split_at(if word > 0 { word } else { sign });
                tokens.push(Token { line: index + 1, text });
                rest = after.trim_start();
            }
        }
        tokens
    }
}

/// A word or a sign, and the line it stands on, counted from one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) line: usize,
    pub(crate) text: &'a str,
}

impl Token<'_> {
    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(is_word)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// The kind and the length of what `rest` begins with.
fn piece(rest: &str) -> (Kind, usize) {
    let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    if rest.starts_with("//") {
        (Kind::Comment, rest.find('\n').unwrap_or(rest.len()))
    } else if rest.starts_with("/*") {
        (Kind::Comment, block_comment(rest))
    } else if rest.starts_with('"') {
        (Kind::Literal, until_quote(rest, 1, '"'))
    } else if let ("r" | "br" | "cr", Some(length)) = (&rest[..word], raw_literal(&rest[word..])) {
        (Kind::Literal, word + length)
    } else if let Some(length) = char_literal(rest) {
        (Kind::Literal, length)
    } else {
        (Kind::Code, if word > 0 { word } else { first_char(rest) })
    }
}

/// The length of a comment that may hold others.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
        } else {
            at += first_char(&rest[at..]);
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length up to and with the first `quote` at or after `from` that no
/// backslash stands before.
fn until_quote(rest: &str, from: usize, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip_while(|(at, _)| *at < from) {
        if c == quote && !escaped {
            return at + c.len_utf8();
        }
        escaped = c == '\\' && !escaped;
    }
    rest.len()
}

/// The length of `#"…"#`, with as many signs as there are.
fn raw_literal(rest: &str) -> Option<usize> {
    let signs = rest.len() - rest.trim_start_matches('#').len();
    let inside = rest[signs..].strip_prefix('"')?;
    let end = format!("\"{}", &rest[..signs]);
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(signs + 1 + length)
}

/// The length of `'x'`; a lifetime is none.
fn char_literal(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        return Some(until_quote(rest, 1, '\''));
    }
    let length = first_char(inside);
    inside[length..].starts_with('\'').then_some(length + 2)
}

fn blank(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn first_char(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

/// The definition of an item: its line, and what a reader sees before its name.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub(crate) line: usize,
    /// How far from the margin.
    pub(crate) indent: usize,
    /// `struct`, `fn`, `mod` and so on.
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    /// Visible outside of its crate: `pub` alone.
    pub(crate) is_public: bool,
    /// The attributes above it, as one text.
    pub(crate) attributes: String,
    /// The documentation above it, without its slashes.
    pub(crate) docs: String,
}

impl Item<'_> {
    /// Whether it defines a type or a trait.
    pub(crate) fn is_type(&self) -> bool {
        matches!(self.kind, "struct" | "enum" | "trait" | "union")
    }

    /// Whether it is built for tests alone, or documented nowhere.
    pub(crate) fn is_hidden(&self) -> bool {
        let gates = [
            "test",
            "feature = \"conformance",
            "feature = \"fuzzing",
            "feature = \"heap",
            "feature = \"limits",
        ];
        self.attributes.contains("#[doc(hidden)]")
            || gates.iter().any(|gate| {
                self.attributes.contains(&format!("#[cfg({gate}"))
                    || self.attributes.contains(&format!("#[cfg(any({gate}"))
            })
    }
}

/// The items that a file formatted by rustfmt defines, but for those in modules for tests.
pub(crate) fn items(text: &str) -> impl Iterator<Item = Item<'_>> {
    let (mut found, mut attributes, mut skipped) = (Vec::new(), String::new(), None);
    let mut docs = String::new();
    let (mut in_literal, mut is_open) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(outer) = skipped {
            if indent == outer && trimmed.starts_with('}') {
                skipped = None;
            }
            continue;
        }
        if in_literal {
            in_literal = !trimmed.contains("\"#");
        } else if is_open || trimmed.starts_with("#[") {
            attributes += trimmed;
            is_open = !trimmed.ends_with(']');
        } else if let Some(item) = item(trimmed) {
            let item = Item {
                line: index + 1,
                indent,
                attributes: std::mem::take(&mut attributes),
                docs: std::mem::take(&mut docs),
                ..item
            };
            if item.kind == "mod"
                && trimmed.ends_with('{')
                && item.attributes.contains("#[cfg(test)]")
            {
                skipped = Some(indent);
            } else {
                found.push(item);
            }
        } else if let Some(line) = trimmed.strip_prefix("///") {
            docs.push_str(line);
            docs.push('\n');
        } else if !trimmed.starts_with("//") {
            attributes.clear();
            docs.clear();
            in_literal = trimmed.contains("r#\"") && !trimmed.contains("\"#");
        }
    }
    found.into_iter()
}

/// What a line without its margin defines, if it defines something.
fn item(line: &str) -> Option<Item<'_>> {
    let (is_public, mut rest) = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => (false, rest.split_once(") ")?.1),
        Some(rest) => (true, rest.strip_prefix(' ')?),
        None => (false, line),
    };
    loop {
        let (word, after) = rest.split_once(' ')?;
        match word {
            "struct" | "enum" | "trait" | "union" | "type" | "fn" | "mod" | "macro_rules!" => {
                let end = after.find(|c| !is_word(c)).unwrap_or(after.len());
                let name = &after[..end];
                let (attributes, docs) = (String::new(), String::new());
                return (!name.is_empty()).then_some(Item {
                    line: 0,
                    indent: 0,
                    kind: word,
                    name,
                    is_public,
                    attributes,
                    docs,
                });
            }
            "const" | "unsafe" | "async" | "extern" => rest = after,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::split(text).code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn code_is_what_is_in_no_comment_and_no_literal() {
        assert_eq!(code("a(); // b();\nc /* d /* e */ f */ g"), "a(); c g");
        assert_eq!(code(r#"x("a\"b", 'c', '\'', '"') y"#), "x( , , , ) y");
        assert_eq!(code("r#\"a\"b\"# c br\"d\" e r#type"), "c e r#type");
        assert_eq!(code("fn f<'a>(x: &'a str, y: &'_ u8)"), "fn f<'a>(x: &'a str, y: &'_ u8)");
        assert_eq!(code("attr\"{\" { }"), "attr { }");
    }

    #[test]
    fn lines_stay_where_they_are() {
        let source = Source::split("a\n\"b\nc\"\n// d\ne");
        assert_eq!(source.code.lines().count(), 5);
        assert_eq!(source.comments.lines().nth(3), Some("// d"));
        let tokens = source.tokens();
        assert_eq!((tokens[1].text, tokens[1].line), ("e", 5));
    }

    #[test]
    fn tokens_are_words_and_signs() {
        let source = Source::split("use crate::a_b::{C};");
        let texts: Vec<_> = source.tokens().iter().map(|token| token.text).collect();
        assert_eq!(texts, ["use", "crate", "::", "a_b", "::", "{", "C", "}", ";"]);
    }
}
