//! `#[derive(Plain)]`: what a struct must be, and the proof of it in the output.
//!
//! The output holds two `unsafe impl`s, so everything they promise is proved
//! beside them: all fields are plain (their fingerprints are asked for), they
//! are the fields this macro saw (a destructuring that compares the type of each),
//! and they follow one another without holes (constant assertions over
//! their offsets). If one of these fails, the crate does not compile.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Attribute, Data, DeriveInput, Error, Ident, Path, Result};

use crate::layout::{FieldRow, LayoutField, Repr, here, own_crates, same_fields};

/// The implementations for `input`, with their proof; or why it cannot be plain.
pub(crate) fn expand(input: &DeriveInput, net: &TokenStream) -> Result<TokenStream> {
    let plain = PlainStruct::read(input, net)?;
    let PlainStruct { name, net, .. } = &plain;
    let label = name.unraw().to_string();
    let fingerprint = plain.fingerprint();
    let holes = plain.no_holes();
    let (crates, fields) = (own_crates(), same_fields(name, &plain.fields));
    Ok(quote! {
        #[allow(deprecated)]
        const _: () = {
            #crates
            #fields
            #holes
            #[automatically_derived]
            unsafe impl #net::__private::bytemuck::Zeroable for #name {}
            #[automatically_derived]
            unsafe impl #net::__private::bytemuck::Pod for #name {}
            #[automatically_derived]
            impl #net::buf::Plain for #name {
                const NAME: &'static __core::primitive::str = #label;
                const FINGERPRINT: __core::primitive::u64 = #fingerprint;
            }
        };
    })
}

/// A struct that may be plain, as far as its text says.
struct PlainStruct<'a> {
    name: &'a Ident,
    /// The path of `egret_net` where the output is compiled.
    net: TokenStream,
    fields: Vec<LayoutField>,
}

impl<'a> PlainStruct<'a> {
    fn read(input: &'a DeriveInput, net: &TokenStream) -> Result<Self> {
        let name = &input.ident;
        let fields = match &input.data {
            Data::Struct(data) => LayoutField::all(name, "__Field", &data.fields)?,
            Data::Enum(_) => return Err(Error::new(name.span(), no_enum(name))),
            Data::Union(_) => return Err(Error::new(name.span(), no_union(name))),
        };
        if !input.generics.params.is_empty() || input.generics.where_clause.is_some() {
            return Err(Error::new(name.span(), no_generics(name)));
        }
        if fields.is_empty() {
            return Err(Error::new(name.span(), no_fields(name)));
        }
        if !Repr::read(&input.attrs)?.is_fixed() {
            return Err(Error::new(name.span(), no_repr(name)));
        }
        Ok(Self { name, net: path_of_net(&input.attrs, net)?, fields })
    }

    fn no_holes(&self) -> TokenStream {
        let row = FieldRow {
            whole: self.name,
            holder: self.name,
            members: self.fields.iter().map(|field| field.member.clone()).collect(),
            fields: &self.fields,
            tag: None,
            called: format!("`{}`", self.name),
            advice: "a plain struct has no holes",
        };
        row.no_holes()
    }

    /// The hash of the struct's name, and each field's name and fingerprint in order.
    ///
    /// A field is asked for its fingerprint by a function that also wants of it the
    /// very traits that are emitted, by the same path: whatever `crate = …` names,
    /// it cannot prove one thing and emit another. It is asked once, so that a
    /// field that is not plain is one error.
    fn fingerprint(&self) -> TokenStream {
        let net = &self.net;
        let opening = format!("struct {} {{", self.name.unraw());
        let start = quote!(#net::buf::FINGERPRINT_SEED);
        let mut hash = quote!(#net::buf::fingerprint(#start, #opening.as_bytes()));
        for LayoutField { label, ty, .. } in &self.fields {
            let label = format!("{label}:");
            let span = here(ty.span());
            let of_field = quote_spanned!(span=> of_field::<#ty>());
            hash = quote!(#net::buf::fingerprint(#hash, #label.as_bytes()));
            hash = quote!(#net::buf::fingerprint(#hash, &#of_field.to_le_bytes()));
        }
        quote! {{
            const fn of_field<T>() -> __core::primitive::u64
            where
                T: #net::buf::Plain
                    + #net::__private::bytemuck::Zeroable
                    + #net::__private::bytemuck::Pod,
            {
                <T as #net::buf::Plain>::FINGERPRINT
            }
            #net::buf::fingerprint(#hash, b"}")
        }}
    }
}

/// What `#[plain(crate = path)]` says, or `net`.
fn path_of_net(attrs: &[Attribute], net: &TokenStream) -> Result<TokenStream> {
    let mut net = net.clone();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("plain")) {
        attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("the only setting is `crate = path::to::egret_net`"));
            }
            net = meta.value()?.parse::<Path>()?.to_token_stream();
            Ok(())
        })?;
    }
    Ok(net)
}

fn no_enum(name: &Ident) -> String {
    format!(
        "`{name}` cannot be plain: an enum has bytes that are no value of it; \
         send its number as a `u32` and convert it with a check on arrival"
    )
}

fn no_union(name: &Ident) -> String {
    format!(
        "`{name}` cannot be plain: which field of a union is meant, and whether its bytes are \
         all written, is not in its type; use a struct"
    )
}

fn no_generics(name: &Ident) -> String {
    format!(
        "`{name}` cannot derive `Plain` with generics: holes are looked for in one layout; \
         write the types out"
    )
}

fn no_fields(name: &Ident) -> String {
    format!("`{name}` has no fields, so there is nothing to send")
}

fn no_repr(name: &Ident) -> String {
    format!(
        "`{name}` needs `#[repr(C)]` (or `#[repr(transparent)]`) to be plain: \
         otherwise the compiler orders its fields as it likes"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derive(text: &str) -> Result<String> {
        expand(&syn::parse_str(text)?, &quote!(::egret_net)).map(|tokens| tokens.to_string())
    }

    #[test]
    fn a_refusal_names_the_type_and_the_reason() {
        let refusals = [
            ("struct S { a: u8 }", "`S` needs `#[repr(C)]`"),
            ("#[repr(align(8))] struct S { a: u8 }", "`S` needs `#[repr(C)]`"),
            ("#[repr(u8)] enum E { A }", "`E` cannot be plain: an enum"),
            ("#[repr(C)] union U { a: u8 }", "`U` cannot be plain: which field of a union"),
            ("#[repr(C)] struct G<T> { a: T }", "`G` cannot derive `Plain` with generics"),
            ("#[repr(C)] struct L<'a> { a: &'a u8 }", "`L` cannot derive `Plain` with generics"),
            ("#[repr(C)] struct Z;", "`Z` has no fields"),
            ("#[repr(C)] #[plain(path = x)] struct S { a: u8 }", "the only setting is `crate"),
        ];
        for (text, expected) in refusals {
            let refusal = derive(text).expect_err(text).to_string();
            assert!(refusal.starts_with(expected), "{text}: {refusal}");
        }
    }

    #[test]
    fn the_layout_may_be_c_or_transparent_with_more_said() {
        for repr in ["C", "transparent", "C, packed", "C, align(16)", "packed(2), C"] {
            derive(&format!("#[repr({repr})] struct S {{ a: u8 }}")).expect(repr);
        }
    }

    #[test]
    fn the_path_of_the_crate_can_be_set() {
        let usual = derive("#[repr(C)] struct S(u8);").unwrap();
        assert!(usual.contains(":: egret_net :: buf :: Plain for S"), "{usual}");
        let set = derive("#[repr(C)] #[plain(crate = other::net)] struct S(u8);").unwrap();
        assert!(set.contains("impl other :: net :: buf :: Plain for S"), "{set}");
        assert!(!set.contains("egret_net"), "{set}");
    }

    #[test]
    fn a_field_proves_everything_at_once() {
        let text = derive("#[repr(C)] #[plain(crate = n)] struct S { a: Odd, b: u8 }").unwrap();
        let asked = |what: &str| text.matches(what).count();
        assert_eq!(asked("of_field :: < __Field0 >"), 1, "{text}");
        assert_eq!(asked("__Field0 as"), 0, "a second question is a second error: {text}");
        assert_eq!((asked("Odd"), asked("type __Field0 = Odd ;")), (1, 1), "{text}");
        let wanted = "T : n :: buf :: Plain + n :: __private :: bytemuck :: Zeroable \
                      + n :: __private :: bytemuck :: Pod";
        assert_eq!(asked(wanted), 1, "{text}");
    }

    #[test]
    fn the_proof_asks_the_core_of_the_language() {
        let text = derive("#[repr(C)] struct S { a: A, b: B }").unwrap();
        assert!(text.contains("extern crate core as __core ;"), "{text}");
        assert!(!text.contains(":: core ::") && !text.contains(":: std ::"), "{text}");
    }

    #[test]
    fn a_raw_name_is_hashed_as_it_is_spoken() {
        let raw = derive("#[repr(C)] struct S { r#type: u8 }").unwrap();
        assert!(raw.contains("\"type:\""), "{raw}");
    }
}
