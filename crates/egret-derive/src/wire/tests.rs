//! Tokens in, tokens or a clear error out. What the code does is tested where its
//! traits are, in `egret-stream`.

use super::*;

fn derive(text: &str) -> Result<String> {
    expand(&syn::parse_str(text)?, &quote!(::egret_stream)).map(|tokens| tokens.to_string())
}

/// The code for `text`, with `s` for the crate.
fn code(text: &str) -> String {
    derive(&format!("#[wire(crate = s)] {text}")).expect(text)
}

/// The body of one function in `code`.
fn body<'c>(code: &'c str, function: &str) -> &'c str {
    let start = code.find(&format!("fn {function}")).expect(function);
    let end = code[start + 2..].find(" fn ").map_or(code.len(), |end| start + 2 + end);
    &code[start..end]
}

#[test]
fn a_refusal_names_the_reason() {
    let refusals = [
        ("union U { a: u8 }", "`U` cannot travel: which field of a union"),
        ("#[wire(plain, check = f)] struct S { a: u8 }", "what is plain is read in place"),
        ("#[wire(plain)] enum E { A }", "`E` cannot be plain"),
        ("#[wire(plain)] struct G<T> { a: T }", "`G` cannot be plain"),
        ("#[wire(plain)] struct S { #[wire(skip)] a: u8 }", "what is plain travels as its bytes"),
        ("#[wire(packed)] struct S;", "a type has `plain`, `check = fn`"),
        ("#[wire(check)] struct S;", "expected `=`"),
        ("struct S { #[wire(jump)] a: u8 }", "a field has `skip`, `skip = fn`, `default`"),
        ("struct S { #[wire(skip, default)] a: u8 }", "a field travels in one way"),
        ("#[wire(via = u8, check = f)] struct S;", "what travels as another type"),
        ("#[wire(plain, via = u8)] struct S { a: u8 }", "what travels as another type"),
        ("enum E { A { #[wire(plain)] a: u8 } }", "a field has `skip`"),
        ("struct S { #[wire(skip, with = m)] a: u8 }", "a field travels in one way"),
        ("struct S { #[wire(with = m, via = u8)] a: u8 }", "a field travels in one way"),
        ("#[wire(bound = \"T Wire\")] struct S<T>(T);", "expected `:`"),
    ];
    for (text, expected) in refusals {
        let refusal = derive(text).expect_err(text).to_string();
        assert!(refusal.starts_with(expected), "{text}: {refusal}");
    }
}

#[test]
fn the_path_of_the_crate_can_be_set() {
    let usual = derive("struct S(u8);").unwrap();
    assert!(usual.contains("impl :: egret_stream :: Wire for S"), "{usual}");
    let set = derive("#[wire(crate = other::stream)] struct S(u8);").unwrap();
    assert!(set.contains("impl other :: stream :: Wire for S"), "{set}");
    assert!(!set.contains("egret_stream"), "{set}");
}

#[test]
fn numbers_that_follow_each_other_are_one_run() {
    let text = code("struct S { a: u8, b: [i32; 4], c: (f32, bool), d: String, e: u16 }");
    assert_eq!(body(&text, "write <").matches("w . run").count(), 1, "{text}");
    assert!(body(&text, "read (").contains("r . fixed :: < (u8 , [i32 ; 4] , (f32 , bool) ,)"));
    assert!(body(&text, "write <").contains("< u16 as s :: Wire > :: write (field_4"), "{text}");
}

#[test]
fn the_byte_of_an_option_joins_the_run_before_it() {
    let text = code("struct S { a: u8, b: Option<String>, c: Option<u8> }");
    let write = body(&text, "write <");
    assert!(
        write.contains("Size :: fixed (1usize) . and (< u8 as s :: Wire > :: SIZE)"),
        "{write}"
    );
    assert_eq!(write.matches("w . run").count(), 1, "the other has none before it: {write}");
}

#[test]
fn a_run_ends_where_a_tuple_would() {
    let fields: String = (0..30).map(|at| format!("f{at}: u8,")).collect();
    let text = code(&format!("struct S {{ {fields} }}"));
    assert_eq!(body(&text, "read (").matches("r . fixed :: <").count(), 3, "11, 11 and 8");
}

#[test]
fn a_tag_is_as_wide_as_it_must_be() {
    let names = |count: usize| -> String { (0..count).map(|at| format!("V{at},")).collect() };
    let small = code(&format!("enum E {{ {} }}", names(256)));
    assert!(small.contains("Size :: fixed (1usize)") && small.contains("255u8 =>"), "{small}");
    let large = code(&format!("enum E {{ {} }}", names(257)));
    assert!(large.contains("Size :: fixed (4usize)") && large.contains("256u32 =>"), "{large}");
    let with_data = code("enum E { A, B(u8) }");
    assert!(with_data.contains("Size :: at_least (1usize)"), "{with_data}");
    assert!(code("enum E {}").contains("match * self { }"));
}

#[test]
fn bounds_are_those_of_the_parameters_or_what_is_said() {
    let usual = code("struct S<'a, T: Clone>(&'a [T]);");
    assert!(
        usual.contains("impl < 'a , T : Clone > s :: Wire for S < 'a , T > where T : s :: Wire")
    );
    assert!(
        usual.contains("impl < '__a : 'a , 'a , T : Clone > s :: FromWire < '__a >"),
        "{usual}"
    );
    assert!(usual.contains("where T : s :: FromWire < '__a >"), "{usual}");
    let set = code("#[wire(bound = \"T: Other\")] struct S<T>(T);");
    assert_eq!(set.matches("where T : Other").count(), 2, "{set}");
}

#[test]
fn a_field_may_stay_or_travel_otherwise() {
    let text =
        code("struct S { #[wire(skip)] a: A, #[wire(skip = f)] b: B, #[wire(with = m)] c: C }");
    let (write, read) = (body(&text, "write <"), body(&text, "read ("));
    assert!(!write.contains("field_0") && !write.contains("field_1"), "{write}");
    assert!(write.contains("w . copied (| w | m :: write (& * field_2 , w)"), "{write}");
    assert!(
        read.contains("let field_0 : A = :: core :: default :: Default :: default ()"),
        "{read}"
    );
    assert!(read.contains("let field_1 : B = f ()") && read.contains("m :: read (r) ?"), "{read}");
    assert!(body(&text, "describe").contains("m :: describe :: < C > (d)"), "{text}");
}

#[test]
fn a_check_stands_before_the_value_is_handed_out() {
    let text = code("#[wire(check = is_good)] struct S { a: u8 }");
    assert!(text.contains("Size :: at_least"), "it is never read in a run: {text}");
    let read = body(&text, "read (");
    assert!(read.contains("__private :: checked (r , \"S\" , value , | value |"), "{read}");
    assert!(body(&text, "read_fixed").contains("Err (s :: Invalid"), "{text}");
}

#[test]
fn a_raw_name_is_described_as_it_is_spoken() {
    let text = code("struct S { r#type: u8 }");
    assert!(text.contains("d . label (\"type\")"), "{text}");
}

#[test]
fn what_is_plain_travels_as_its_bytes() {
    let text = code("#[wire(plain)] struct S { a: u8 }");
    for wanted in ["w . list (slice)", "r . list ()", "r . plain ()", "s :: InPlace for S"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn a_field_may_be_made_where_the_writer_lacks_it() {
    let text = code("struct S { #[wire(default)] a: A, #[wire(default = f)] b: B, c: C }");
    assert!(body(&text, "write <").contains("field_0 , w"), "it travels: {text}");
    assert_eq!(body(&text, "describe").matches("d . defaulted ()").count(), 2);
    let planned = body(&text, "read_planned");
    for made in ["None => :: core :: default :: Default", "None => f ()", "r . lacks (\"c\")"] {
        assert!(planned.contains(made), "{made}: {planned}");
    }
}

#[test]
fn a_type_may_travel_as_another_one() {
    let text = code("#[wire(via = Other)] struct S { a: A }");
    assert!(body(&text, "describe").contains("< Other as s :: Wire > :: describe (d)"), "{text}");
    assert!(body(&text, "write <").contains("< Other as :: core :: convert :: From < & Self >>"));
    assert!(body(&text, "read (").contains("from_via :: < Self , Other > (r)"), "{text}");
    let text = code("struct S { #[wire(via = Other)] a: A }");
    assert!(body(&text, "read (").contains("from_via :: < A , Other > (r)"), "{text}");
}
