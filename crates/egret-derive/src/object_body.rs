//! The fields of an object or of one of its variants, as code.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Member};

use crate::layout::{Field, Row, here, local};

/// The fields of a struct, or of a variant with the struct that stands for it.
pub(crate) struct Body<'a> {
    pub(crate) stream: &'a TokenStream,
    /// The struct whose offsets are theirs.
    pub(crate) holder: Ident,
    /// Their names in it.
    pub(crate) places: Vec<Member>,
    pub(crate) fields: Vec<Field>,
}

impl Body<'_> {
    /// `{ a: field_0, … }`, for a pattern.
    pub(crate) fn bind(&self) -> TokenStream {
        let members = self.fields.iter().map(|field| &field.member);
        let locals = (0..self.fields.len()).map(local);
        quote!({ #(#members: #locals,)* })
    }

    /// What proves that they leave no hole in `whole`.
    pub(crate) fn row<'r>(
        &'r self,
        whole: &'r Ident,
        tag: Option<&'r TokenStream>,
        called: String,
        advice: &'r str,
    ) -> Row<'r> {
        let (holder, members, fields) = (&self.holder, self.places.clone(), &self.fields[..]);
        Row { whole, holder, members, fields, tag, called, advice }
    }

    /// Whether any bytes are values of all of them.
    pub(crate) fn any(&self) -> TokenStream {
        let parts = self.fields.iter().map(|field| self.flat(field));
        quote!(true #(&& #parts::ANY)*)
    }

    /// Whether a constant of type `bool` is true of one of them.
    pub(crate) fn some(&self, what: &str) -> TokenStream {
        let what = format_ident!("{what}");
        let parts = self.fields.iter().map(|field| self.object(field));
        quote!(false #(|| #parts::#what)*)
    }

    /// Whether the parts of `bytes` are values of them. The trait is asked by the same path
    /// by which it is implemented: nothing else may stand between the two.
    pub(crate) fn is_value(&self) -> TokenStream {
        let holder = &self.holder;
        let parts = self.fields.iter().zip(&self.places).map(|(field, place)| {
            let (flat, ty) = (self.flat(field), &field.ty);
            quote! {
                && (#flat::ANY || {
                    let start = ::core::mem::offset_of!(#holder, #place);
                    bytes.get(start..start + ::core::mem::size_of::<#ty>())
                        .is_some_and(#flat::is_value)
                })
            }
        });
        quote!(true #(#parts)*)
    }

    /// Returns the fault of the first of them that has one.
    pub(crate) fn fault(&self) -> TokenStream {
        let holder = &self.holder;
        let parts = self.fields.iter().zip(&self.places).map(|(field, place)| {
            let (flat, object, ty) = (self.flat(field), self.object(field), &field.ty);
            quote! {
                let start = ::core::mem::offset_of!(#holder, #place);
                let part = bytes.get(start..start + ::core::mem::size_of::<#ty>());
                if let ::core::option::Option::Some(part) = part.filter(|part| !#flat::is_value(part)) {
                    let (offset, what) = #object::fault(part);
                    return (start + offset, what);
                }
            }
        });
        quote!(#(#parts)*)
    }

    pub(crate) fn describe(&self) -> TokenStream {
        let parts = self.fields.iter().map(|Field { label, ty, .. }| {
            let span = here(ty.span());
            quote_spanned!(span=> describe.field::<#ty>(#label);)
        });
        quote!(let _ = &describe; #(#parts)*)
    }

    pub(crate) fn links(&self) -> TokenStream {
        let parts = self.fields.iter().enumerate().map(|(at, field)| {
            let (object, value) = (self.object(field), local(at));
            quote!(#object::links(#value, see)?;)
        });
        quote!(#(#parts)*)
    }

    pub(crate) fn relink(&self) -> TokenStream {
        let parts = self.fields.iter().enumerate().map(|(at, field)| {
            let (object, value) = (self.object(field), local(at));
            quote!(#object::relink(#value, renew)?;)
        });
        quote!(#(#parts)*)
    }

    /// Returns what is wrong with the first of them that is not as it must be.
    pub(crate) fn check(&self) -> TokenStream {
        let parts = self.fields.iter().enumerate().map(|(at, field)| {
            let (object, value) = (self.object(field), local(at));
            let message = format!("`{}`: {{}}", field.label);
            quote! {
                if #object::CHECKED {
                    #object::check(#value).map_err(|why| ::std::format!(#message, why))?;
                }
            }
        });
        quote!(#(#parts)*)
    }

    fn flat(&self, Field { ty, .. }: &Field) -> TokenStream {
        let stream = self.stream;
        let span = here(ty.span());
        quote_spanned!(span=> <#ty as #stream::net::buf::Flat>)
    }

    fn object(&self, Field { ty, .. }: &Field) -> TokenStream {
        let stream = self.stream;
        let span = here(ty.span());
        quote_spanned!(span=> <#ty as #stream::graph::Object>)
    }
}
