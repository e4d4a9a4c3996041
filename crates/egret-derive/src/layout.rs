//! How a type lies in memory: what its text says of that, and proofs of it as code.
//!
//! [`Plain`](crate::plain) and [`Object`](crate::object) emit `unsafe impl`s, which promise
//! that there are no holes. These are constants that fail to compile if there is one, or if
//! the fields are others than the macro saw.
//!
//! What a user's tokens mean depends on where they stand: a name can be one of the output, and a
//! user's macro can tell `Self` from the name of the type. So the type of a field stands once in
//! the output, as an alias; all else names the alias, and a proof says that the field is of
//! exactly that type.
//!
//! A path that begins with `::core` means what the user's crate calls `core`, which can be that
//! crate itself (`extern crate self as core;`), with a `size_of` of its own. So the output loads
//! `core` and `std` itself, as `__core` and `__std`, and says these.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Fields, Ident, Member, Result, Type};

/// A field of a struct or a variant.
pub(crate) struct LayoutField {
    pub(crate) member: Member,
    /// As it enters descriptions and stands in messages.
    pub(crate) label: String,
    /// What the user says of its type, without `Self`, so that it can be named anywhere.
    given: Type,
    /// The alias that stands for the type, at the place of the type in the user's text.
    pub(crate) ty: Ident,
}

impl LayoutField {
    /// Those of the type `name`, or of a variant of it; the names of their aliases begin with
    /// `prefix`.
    pub(crate) fn all(name: &Ident, prefix: &str, fields: &Fields) -> Result<Vec<Self>> {
        let read = |(at, (field, member)): (usize, (&syn::Field, Member))| {
            let label = match &member {
                Member::Named(name) => name.unraw().to_string(),
                Member::Unnamed(index) => index.index.to_string(),
            };
            let ty = format_ident!("{prefix}{at}", span = here(field.ty.span()));
            Ok(Self { member, label, given: syn::parse2(spelled(&field.ty, name))?, ty })
        };
        fields.iter().zip(fields.members()).enumerate().map(read).collect()
    }

    /// The aliases of the types.
    pub(crate) fn aliases(fields: &[Self]) -> TokenStream {
        let aliases = fields.iter().map(|Self { ty, given, .. }| quote!(type #ty = #given;));
        quote!(#(#aliases)*)
    }

    /// `{ a: mut field_0, … }`, for a pattern whose values [`exact`](Self::exact) takes.
    pub(crate) fn bind_mut(fields: &[Self]) -> TokenStream {
        let members = fields.iter().map(|field| &field.member);
        let values = (0..fields.len()).map(local);
        quote!({ #(#members: mut #values,)* })
    }

    /// Statements that compile if each value is of exactly the type that its alias stands for.
    ///
    /// Nothing is coerced here, as a value of type `!` would be to any other: the cell's type is
    /// inferred first and compared then.
    pub(crate) fn exact(fields: &[Self]) -> TokenStream {
        let proofs = fields.iter().enumerate().map(|(at, Self { ty, .. })| {
            let value = local(at);
            quote! {
                let cell = __core::cell::Cell::from_mut(&mut #value);
                let _: &__core::cell::Cell<#ty> = cell;
            }
        });
        quote!(#(#proofs)*)
    }
}

/// The language's own `core` as `__core`, and `std` as `__std`, whatever else has these names.
pub(crate) fn own_crates() -> TokenStream {
    quote! {
        #[allow(unused_extern_crates)]
        extern crate core as __core;
        #[allow(unused_extern_crates)]
        extern crate std as __std;
    }
}

/// The tokens with `name` in place of each `Self`.
pub(crate) fn spelled(tokens: impl ToTokens, name: &Ident) -> TokenStream {
    let spell = |token| match token {
        TokenTree::Ident(word) if word == "Self" => {
            let mut name = name.clone();
            name.set_span(word.span());
            TokenTree::Ident(name)
        }
        TokenTree::Group(group) => {
            let mut new = Group::new(group.delimiter(), spelled(group.stream(), name));
            new.set_span(group.span());
            TokenTree::Group(new)
        }
        other => other,
    };
    tokens.into_token_stream().into_iter().map(spell).collect()
}

/// What `repr` says.
#[derive(Default)]
pub(crate) struct Repr {
    pub(crate) is_c: bool,
    pub(crate) is_transparent: bool,
    pub(crate) is_packed: bool,
    /// The type of an enum's tag.
    pub(crate) tag: Option<Ident>,
}

impl Repr {
    pub(crate) fn read(attrs: &[Attribute]) -> Result<Self> {
        let mut repr = Self::default();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("repr")) {
            attr.parse_nested_meta(|meta| {
                let word = meta.path.require_ident()?;
                match word.to_string().as_str() {
                    "C" => repr.is_c = true,
                    "transparent" => repr.is_transparent = true,
                    "packed" => repr.is_packed = true,
                    "align" | "Rust" | "simd" => {}
                    _ => repr.tag = Some(word.clone()),
                }
                if meta.input.peek(syn::token::Paren) {
                    let argument;
                    syn::parenthesized!(argument in meta.input);
                    argument.parse::<TokenStream>()?;
                }
                Ok(())
            })?;
        }
        Ok(repr)
    }

    /// Whether it fixes the order of a struct's fields.
    pub(crate) fn is_fixed(&self) -> bool {
        self.is_c || self.is_transparent
    }
}

/// Fields that must follow one another from the start of a type to its end.
pub(crate) struct FieldRow<'a> {
    /// The type.
    pub(crate) whole: &'a Ident,
    /// The struct that has the fields: the type itself, or what stands for a variant of it.
    pub(crate) holder: &'a Ident,
    /// The names of the fields there.
    pub(crate) members: Vec<Member>,
    pub(crate) fields: &'a [LayoutField],
    /// The type of an enum's tag, which lies before the fields.
    pub(crate) tag: Option<&'a TokenStream>,
    /// How messages call it, and what they say to do.
    pub(crate) called: String,
    pub(crate) advice: &'a str,
}

impl FieldRow<'_> {
    /// Constant assertions that each field begins where the one before ends.
    pub(crate) fn no_holes(&self) -> TokenStream {
        let Self { whole, holder, called, advice, .. } = self;
        let mut end = match self.tag {
            None => quote!(0),
            Some(tag) => quote!(__core::mem::size_of::<#tag>()),
        };
        let mut checks = TokenStream::new();
        for (LayoutField { member, label, ty, .. }, place) in self.fields.iter().zip(&self.members)
        {
            let message = format!("padding in {called} before field `{label}`: {advice}");
            let span = here(member.span());
            checks.extend(quote_spanned! {span=>
                __core::assert!(__core::mem::offset_of!(#holder, #place) == #end, #message);
            });
            end = quote! {
                __core::mem::offset_of!(#holder, #place) + __core::mem::size_of::<#ty>()
            };
        }
        let last = match self.fields.last() {
            None => "its tag".to_owned(),
            Some(LayoutField { label, .. }) => format!("its last field `{label}`"),
        };
        let message = format!("padding in {called} after {last}: {advice}");
        let empty = format!("{called} has no bytes, so there is nothing to send");
        let span = here(whole.span());
        quote_spanned! {span=>
            const _: () = {
                #checks
                __core::assert!(__core::mem::size_of::<#whole>() == #end, #message);
                __core::assert!(__core::mem::size_of::<#whole>() != 0, #empty);
            };
        }
    }
}

/// The aliases of a struct's fields, and what fails to compile if they are not its fields:
/// another macro changed them, or their types mean something else in the output.
pub(crate) fn same_fields(name: &Ident, fields: &[LayoutField]) -> TokenStream {
    let aliases = LayoutField::aliases(fields);
    let (bind, exact) = (LayoutField::bind_mut(fields), LayoutField::exact(fields));
    quote! {
        #aliases
        const _: fn(#name) = |#name #bind| { #exact };
    }
}

/// The name of a field's value in the code.
pub(crate) fn local(at: usize) -> Ident {
    format_ident!("field_{at}")
}

/// The macro's own names, at a place in the user's text: errors point there.
pub(crate) fn here(span: Span) -> Span {
    Span::call_site().located_at(span)
}
