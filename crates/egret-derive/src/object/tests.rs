//! Tokens in, tokens or a clear error out. What the code does is tested where its
//! traits are, in `egret-stream`.

use super::*;

fn derive(text: &str) -> Result<String> {
    expand(&syn::parse_str(text)?, &quote!(::egret_stream)).map(|tokens| tokens.to_string())
}

/// The code for `text`, with `s` for the crate.
fn code(text: &str) -> String {
    derive(&format!("#[object(crate = s)] {text}")).expect(text)
}

/// Tokens as they are compared: without the spaces between them.
fn tight(text: &str) -> String {
    text.split_whitespace().collect()
}

#[track_caller]
fn assert_in(code: &str, expected: &str) {
    assert!(tight(code).contains(&tight(expected)), "`{expected}` is not in: {code}");
}

#[test]
fn a_refusal_names_the_type_and_the_reason() {
    let refusals = [
        ("struct S { a: u8 }", "`S` needs `#[repr(C)]`"),
        ("#[repr(align(8))] struct S { a: u8 }", "`S` needs `#[repr(C)]`"),
        ("#[repr(C, packed)] struct S { a: u8 }", "`S` cannot be packed"),
        ("#[repr(packed(2))] struct S { a: u8 }", "`S` cannot be packed"),
        ("#[repr(C)] union U { a: u8 }", "`U` cannot be an object: which field of a union"),
        ("#[repr(C)] struct G<T> { a: T }", "`G` cannot derive `Object` with generics"),
        ("#[repr(C)] struct N<const N: usize>([u8; N]);", "`N` cannot derive `Object` with"),
        ("#[repr(C)] struct L<'a> { a: &'a u8 }", "`L` cannot derive `Object` with generics"),
        ("#[repr(C)] struct W(u8) where u8: Copy;", "`W` cannot derive `Object` with generics"),
        ("#[repr(u8)] enum G<T> { A(T) }", "`G` cannot derive `Object` with generics"),
        ("#[repr(C)] struct Z;", "`Z` has no fields"),
        ("#[repr(C)] struct Z();", "`Z` has no fields"),
        ("#[repr(u8)] enum Z {}", "`Z` has no variants"),
        ("enum E { A }", "`E` needs the type of its tag, as `#[repr(u8)]`"),
        ("#[repr(C)] enum E { A }", "`E` needs the type of its tag"),
        ("#[repr(align(4))] enum E { A }", "`E` needs the type of its tag"),
        ("#[repr(usize)] enum E { A }", "`E` cannot be an object with a tag of `usize`"),
        ("#[repr(i128)] enum E { A }", "`E` cannot be an object with a tag of `i128`"),
        ("#[repr(C, u8)] enum E { A(u8) }", "`E` has its fields beside the tag with `#[repr(u8)]`"),
        ("#[repr(u8)] #[repr(C)] enum E { A }", "`E` has its fields beside the tag"),
        ("#[repr(u8)] enum E { A(u8) = tag!(Self) }", "the number of variant `A` has to be an"),
        (
            "#[repr(u8)] enum E { A(u8) = size_of::<__Variant0>() as u8 }",
            "the number of variant `A` has to be an",
        ),
        ("#[repr(u8)] enum E { A(u8), B = FIRST }", "the number of variant `B` has to be an"),
        ("#[repr(u8)] enum E { A() = Self::FIRST }", "the number of variant `A` has to be an"),
        ("#[repr(i8)] enum E { A(u8) = 1 + 1 }", "the number of variant `A` has to be an"),
        ("#[repr(i8)] enum E { A(u8) = -N }", "the number of variant `A` has to be an"),
        ("#[repr(i8)] enum E { A(u8) = !1 }", "the number of variant `A` has to be an"),
        ("#[repr(i8)] enum E { A(u8) = { 1 } }", "the number of variant `A` has to be an"),
    ];
    for (text, expected) in refusals {
        let refusal = derive(text).expect_err(text).to_string();
        assert!(refusal.starts_with(expected), "{text}: {refusal}");
    }
}

#[test]
fn what_cannot_be_said_is_refused() {
    let refusals = [
        ("#[object(path = x)] #[repr(C)] struct S(u8);", "a type has one `check = fn`"),
        ("#[object(check = a, check = b)] #[repr(C)] struct S(u8);", "a type has one `check"),
        ("#[object(check)] #[repr(C)] struct S(u8);", "expected `=`"),
        ("#[repr(C)] struct S(#[object(check = f)] u8);", "`object` says something of a type"),
        ("#[repr(u8)] enum E { #[object(skip)] A }", "`object` says something of a type"),
        ("#[repr(u8)] enum E { A { #[object] a: u8 } }", "`object` says something of a type"),
    ];
    for (text, expected) in refusals {
        let refusal = derive(text).expect_err(text).to_string();
        assert!(refusal.starts_with(expected), "{text}: {refusal}");
    }
}

#[test]
fn the_path_of_the_crate_can_be_set() {
    let usual = derive("#[repr(C)] struct S(u8);").unwrap();
    assert_in(&usual, "unsafe impl ::egret_stream::net::buf::Flat for S");
    assert_in(&usual, "impl ::egret_stream::graph::Object for S");
    let set = derive("#[repr(C)] #[object(crate = a::b)] struct S(u8);").unwrap();
    assert_in(&set, "unsafe impl a::b::net::buf::Flat for S");
    assert_in(&set, "impl a::b::graph::Object for S");
    assert!(!set.contains("egret_stream"), "{set}");
}

#[test]
fn a_field_is_asked_by_the_traits_that_are_emitted() {
    let text = code("#[repr(C)] struct S { a: Odd, b: u8 }");
    assert_in(&text, "T: s::graph::Object + s::net::buf::Flat");
    assert_in(&text, "unsafe impl s::net::buf::Flat for S");
    assert_eq!(text.matches("< __Field0 as __Part >").count(), 10, "{text}");
}

#[test]
fn the_type_of_a_field_stands_once_in_the_output() {
    let text = code("#[repr(C)] struct S { a: Odd, b: [Even; N] }");
    assert_in(&text, "type __Field0 = Odd; type __Field1 = [Even; N];");
    assert_eq!(["Odd", "Even"].map(|name| text.matches(name).count()), [1; 2], "{text}");
    let text = code("#[repr(u8)] enum E { A(u8), B { b: Odd } }");
    assert_in(&text, "type __Variant1Field0 = Odd;");
    assert_eq!(text.matches("Odd").count(), 1, "{text}");
}

#[test]
fn the_proof_asks_the_core_of_the_language() {
    for text in
        ["#[repr(C)] struct S { a: A }", "#[repr(u8)] enum E { A }", "#[repr(u8)] enum E { A(X) }"]
    {
        let text = code(text);
        assert_in(&text, "extern crate core as __core;");
        assert!(!text.contains(":: core ::") && !text.contains(":: std ::"), "{text}");
    }
}

#[test]
fn holes_are_looked_for_before_between_and_behind() {
    let text = code("#[repr(C)] struct S { a: A, b: B }");
    assert_in(&text, "offset_of!(S, a) == 0, \"padding in `S` before field `a`");
    assert_in(&text, "== __core::mem::offset_of!(S, a) + __core::mem::size_of::<__Field0>()");
    let end = "offset_of!(S, b) + __core::mem::size_of::<__Field1>(), \"padding in `S` after its";
    assert_in(&text, end);
    assert_in(&text, "align_of::<S>() <= 8");
}

#[test]
fn a_variant_lies_as_a_struct_with_the_tag_before_it() {
    let text = code("#[repr(i16)] enum E { A(X, Y) = 5, B { z: Z } }");
    assert_in(&text, "#[repr(i16)] enum __Tag { V0 = 5, V1, }");
    let holder = "type __Variant0Field0 = X; type __Variant0Field1 = Y; #[repr(C)] struct \
                  __Variant0 { tag: __core::primitive::i16, field_0: __Variant0Field0, \
                  field_1: __Variant0Field1, }";
    assert_in(&text, holder);
    assert_in(&text, "E::A { 0: mut field_0, 1: mut field_1, } => { let cell =");
    assert_in(&text, "let _: &__core::cell::Cell<__Variant0Field1> = cell;");
    assert_in(&text, "let _ = __Variant0 { tag: __TAG_0,");
    assert_in(&text, "\"padding in variant `A` of `E` before field `1`: name the hole");
    assert_in(&text, "\"padding in variant `B` of `E` after its last field `z`: name the hole");
    let first =
        "offset_of!(__Variant1, field_0) == __core::mem::size_of::<__core::primitive::i16>()";
    assert_in(&text, first);
}

#[test]
fn a_tag_alone_is_asked_of_the_enum_itself() {
    let text = code("#[repr(u8)] enum E { A = 3, B }");
    assert_in(&text, "const __TAG_1: __core::primitive::u8 = E::B as __core::primitive::u8;");
    assert!(!text.contains("__Variant") && !text.contains("__Tag"), "{text}");
    assert_in(&text, "padding in variant `A` of `E` after its tag");
    assert_eq!(text.matches("padding").count(), 1, "one stands for all: {text}");
}

#[test]
fn self_is_spelled_out_where_there_is_none() {
    let text = code("#[repr(C)] struct S { next: Option<Ref<Self>>, rest: [u8; Self::N] }");
    assert_in(&text, "type __Field0 = Option<Ref<S>>; type __Field1 = [u8; S::N];");
    assert!(!tight(&text).contains("Ref<Self>"), "{text}");
}

#[test]
fn numbers_of_variants_with_fields_are_the_literals_of_the_text() {
    let text = code("#[repr(i8)] enum E { A(u8) = -0x80, B(u8), C(u8) = 7_i8, D(u8) }");
    assert_in(&text, "enum __Tag { V0 = -0x80, V1, V2 = 7_i8, V3, }");
    let macro_given = quote!(1);
    let group = proc_macro2::Group::new(proc_macro2::Delimiter::None, macro_given);
    let given: DeriveInput = syn::parse_quote!(#[repr(u8)] enum E { A(u8) = #group });
    assert_in(
        &expand(&given, &quote!(::egret_stream)).unwrap().to_string(),
        "enum __Tag { V0 = 1, }",
    );
}

#[test]
fn a_check_of_ones_own_comes_last() {
    let without = code("#[repr(C)] struct S { a: A }");
    assert_in(
        &without,
        "const CHECKED: __core::primitive::bool = false || <__Field0 as __Part>::CHECKED;",
    );
    let with = code("#[object(check = m::f)] #[repr(C)] struct S { a: A }");
    assert_in(&with, "const CHECKED: __core::primitive::bool = true;");
    assert_in(&with, "<__Field0 as __Part>::check(field_0, \"a\")?; if let");
    assert_in(&with, "s::__private::CheckAnswer::refusal(m::f(self))");
}

#[test]
fn raw_names_are_told_as_they_are_spoken() {
    let text = code("#[repr(C)] struct r#S { r#type: u8 }");
    assert_in(&text, "describe.named(\"struct\", \"S\"");
    assert_in(&text, "describe(describe, \"type\")");
    let text = code("#[repr(u8)] enum E { r#fn }");
    assert_in(&text, "describe.variant(\"fn\", __TAG_0 as");
}
