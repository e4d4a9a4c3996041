//! The fields of an object or of one of its variants, as code.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{Ident, Member};

use crate::layout::{FieldRow, LayoutField, here, local};

/// The fields of a struct, or of a variant with the struct that stands for it.
pub(crate) struct ObjectBody {
    /// The struct whose offsets are theirs.
    pub(crate) holder: Ident,
    /// Their names in it.
    pub(crate) places: Vec<Member>,
    pub(crate) fields: Vec<LayoutField>,
}

impl ObjectBody {
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
    ) -> FieldRow<'r> {
        let (holder, members, fields) = (&self.holder, self.places.clone(), &self.fields[..]);
        FieldRow { whole, holder, members, fields, tag, called, advice }
    }

    /// Whether a constant is true of all of them.
    pub(crate) fn all(&self, constant: &str) -> TokenStream {
        let all = self.each(constant);
        quote!(true #(&& #all)*)
    }

    /// Whether a constant is true of one of them.
    pub(crate) fn some(&self, constant: &str) -> TokenStream {
        let some = self.each(constant);
        quote!(false #(|| #some)*)
    }

    /// Whether the parts of `bytes` are values of them.
    pub(crate) fn is_value(&self) -> TokenStream {
        let (ask, starts) = (self.each("is_value"), self.starts());
        quote!(true #(&& #ask(bytes, #starts))*)
    }

    /// Returns the fault of the first of them that has one.
    pub(crate) fn fault(&self) -> TokenStream {
        let (ask, starts) = (self.each("fault"), self.starts());
        quote! {#(
            if let __core::option::Option::Some(fault) = #ask(bytes, #starts) {
                return fault;
            }
        )*}
    }

    pub(crate) fn describe(&self) -> TokenStream {
        let (ask, labels) = (self.each("describe"), self.labels());
        quote!(let _ = &describe; #(#ask(describe, #labels);)*)
    }

    pub(crate) fn refs(&self) -> TokenStream {
        let (ask, values) = (self.each("refs"), self.values());
        quote!(#(#ask(#values, see)?;)*)
    }

    pub(crate) fn renew_refs(&self) -> TokenStream {
        let (ask, values) = (self.each("renew_refs"), self.values());
        quote!(#(#ask(#values, renew)?;)*)
    }

    pub(crate) fn check(&self) -> TokenStream {
        let (ask, values, labels) = (self.each("check"), self.values(), self.labels());
        quote!(#(#ask(#values, #labels)?;)*)
    }

    fn each<'a>(&'a self, question: &'a str) -> impl Iterator<Item = TokenStream> + 'a {
        self.fields.iter().map(move |field| ask(field, question))
    }

    fn starts(&self) -> impl Iterator<Item = TokenStream> {
        let holder = &self.holder;
        self.places.iter().map(move |place| quote!(__core::mem::offset_of!(#holder, #place)))
    }

    fn values(&self) -> impl Iterator<Item = Ident> {
        (0..self.fields.len()).map(local)
    }

    fn labels(&self) -> impl Iterator<Item = &String> {
        self.fields.iter().map(|field| &field.label)
    }
}

/// A constant or function of a field's type; see [`object_part`](crate::object_part).
fn ask(LayoutField { ty, .. }: &LayoutField, question: &str) -> TokenStream {
    let span = here(ty.span());
    let question = format_ident!("{question}", span = span);
    quote_spanned!(span=> <#ty as __Part>::#question)
}
