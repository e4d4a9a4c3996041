//! The fields of a struct or a variant, as code.

use std::ops::Range;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Fields, Ident, Result};

use crate::wire_attr::{FieldEncoding, WireField};

/// The fields of a struct or a variant.
pub(crate) struct WireBody<'a> {
    pub(crate) fields: Vec<WireField<'a>>,
}

/// A variant of an enum.
pub(crate) struct WireVariant<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) body: WireBody<'a>,
}

impl<'a> WireBody<'a> {
    pub(crate) fn of(fields: &'a Fields) -> Result<Self> {
        let all = fields.iter().zip(fields.members());
        let fields = all.map(|(field, member)| WireField::read(field, member));
        Ok(Self { fields: fields.collect::<Result<_>>()? })
    }

    /// Whether nothing of it travels.
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.iter().all(|field| matches!(field.how, FieldEncoding::Skipped(_)))
    }

    /// Whether a part of it travels by other functions than its type's.
    pub(crate) fn has_with(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.how, FieldEncoding::With(_)))
    }

    /// `{ a: field_0, … }`, for a pattern.
    pub(crate) fn bind(&self) -> TokenStream {
        let fields = self.fields.iter().enumerate().map(|(at, field)| {
            let member = &field.member;
            match field.how {
                FieldEncoding::Skipped(_) => quote!(#member: _),
                _ => {
                    let name = local(at);
                    quote!(#member: #name)
                }
            }
        });
        quote!({ #(#fields,)* })
    }

    /// `{ a: field_0, … }`, for a value.
    pub(crate) fn make(&self) -> TokenStream {
        let members = self.fields.iter().map(|field| &field.member);
        let locals = (0..self.fields.len()).map(local);
        quote!({ #(#members: #locals,)* })
    }

    pub(crate) fn size(&self, stream: &TokenStream) -> TokenStream {
        let parts = self.fields.iter().map(|WireField { ty, how, .. }| match how {
            FieldEncoding::Itself => quote!(.and(<#ty as #stream::Wire>::SIZE)),
            FieldEncoding::Skipped(_) => quote!(),
            FieldEncoding::With(_) => quote!(.and(#stream::WireSize::at_least(0))),
        });
        quote!(#stream::WireSize::fixed(0) #(#parts)*)
    }

    pub(crate) fn describe(&self, stream: &TokenStream) -> TokenStream {
        let parts = self.fields.iter().map(|WireField { ty, how, label, .. }| match how {
            FieldEncoding::Itself => quote!(d.label(#label); <#ty as #stream::Wire>::describe(d);),
            FieldEncoding::Skipped(_) => quote!(),
            FieldEncoding::With(path) => quote!(d.label(#label); #path::describe::<#ty>(d);),
        });
        quote!(#(#parts)*)
    }

    /// Writes each field by `method` of its type, `write` or `give`.
    pub(crate) fn write(&self, stream: &TokenStream, method: &Ident) -> TokenStream {
        self.in_runs(
            |at, WireField { ty, how, .. }| {
                let name = local(at);
                match how {
                    FieldEncoding::Itself => quote!(<#ty as #stream::Wire>::#method(#name, w)?;),
                    FieldEncoding::Skipped(_) => quote!(),
                    FieldEncoding::With(path) => quote!(w.copied(|w| #path::write(&*#name, w))?;),
                }
            },
            |run, tagged| self.write_run(stream, run, tagged, method),
        )
    }

    /// Fields in order, those that are numbers in runs. The byte that says whether an
    /// option is there joins the run before it.
    fn in_runs(
        &self,
        one: impl Fn(usize, &WireField<'_>) -> TokenStream,
        run: impl Fn(Range<usize>, bool) -> TokenStream,
    ) -> TokenStream {
        let mut code = TokenStream::new();
        let mut at = 0;
        while at < self.fields.len() {
            let numbers =
                self.fields[at..].iter().take_while(|field| field.is_number()).count().min(RUN_MAX);
            let tagged =
                self.fields.get(at + numbers).is_some_and(|field| field.option().is_some());
            if numbers > 1 || numbers == 1 && tagged {
                code.extend(run(at..at + numbers, tagged));
                at += numbers + usize::from(tagged);
            } else {
                code.extend(one(at, &self.fields[at]));
                at += 1;
            }
        }
        code
    }

    fn write_run(
        &self,
        stream: &TokenStream,
        run: Range<usize>,
        tagged: bool,
        method: &Ident,
    ) -> TokenStream {
        let option = local(run.end);
        let types: Vec<_> = self.fields[run.clone()].iter().map(|field| field.ty).collect();
        let names: Vec<_> = run.map(local).collect();
        let tag = tagged.then(|| {
            quote! {
                #stream::Wire::write_fixed(&::core::option::Option::is_some(#option), run);
            }
        });
        let inner = tagged.then(|| {
            quote! {
                if let ::core::option::Option::Some(inner) = #option {
                    #stream::Wire::#method(inner, w)?;
                }
            }
        });
        let tag_bytes = usize::from(tagged);
        quote! {
            w.run(
                const {
                    #stream::WireSize::fixed(#tag_bytes) #(.and(<#types as #stream::Wire>::SIZE))* .min
                },
                |run| { #(<#types as #stream::Wire>::write_fixed(#names, run);)* #tag },
            )?;
            #inner
        }
    }

    pub(crate) fn write_fixed(&self, stream: &TokenStream) -> TokenStream {
        let parts = self.fields.iter().enumerate().map(|(at, WireField { ty, how, .. })| {
            let name = local(at);
            match how {
                FieldEncoding::Itself => quote!(<#ty as #stream::Wire>::write_fixed(#name, run);),
                FieldEncoding::Skipped(_) => quote!(),
                FieldEncoding::With(_) => quote!(let _ = #name;),
            }
        });
        quote!(#(#parts)*)
    }

    pub(crate) fn read(&self, stream: &TokenStream) -> TokenStream {
        self.in_runs(
            |at, field| {
                let (name, ty) = (local(at), field.ty);
                match &field.how {
                    FieldEncoding::Itself => {
                        quote!(let #name = <#ty as #stream::FromWire<'_>>::read(r)?;)
                    }
                    FieldEncoding::Skipped(default) => skipped(&name, ty, default.as_ref()),
                    FieldEncoding::With(path) => quote!(let #name: #ty = #path::read(r)?;),
                }
            },
            |run, tagged| self.read_run(stream, run, tagged),
        )
    }

    fn read_run(&self, stream: &TokenStream, run: Range<usize>, tagged: bool) -> TokenStream {
        let (option, at) = (local(run.end), run.end);
        let types: Vec<_> = self.fields[run.clone()].iter().map(|field| field.ty).collect();
        let names: Vec<_> = run.map(local).collect();
        let inner = self.fields.get(at).and_then(WireField::option).filter(|_| tagged);
        let Some(inner) = inner else {
            return quote!(let (#(#names,)*) = r.fixed::<(#(#types,)*)>()?;);
        };
        quote! {
            let (#(#names,)* tag,) = r.fixed::<(#(#types,)* u8,)>()?;
            let #option = match tag {
                0 => ::core::option::Option::None,
                1 => ::core::option::Option::Some(<#inner as #stream::FromWire<'_>>::read(r)?),
                _ => return ::core::result::Result::Err(
                    r.fail(#stream::Invalid::new("option")),
                ),
            };
        }
    }

    pub(crate) fn read_fixed(&self, stream: &TokenStream) -> TokenStream {
        let parts = self.fields.iter().enumerate().map(|(at, field)| {
            let (name, ty) = (local(at), field.ty);
            match &field.how {
                FieldEncoding::Itself => {
                    quote!(let #name = <#ty as #stream::FromWire<'_>>::read_fixed(run)?;)
                }
                FieldEncoding::Skipped(default) => skipped(&name, ty, default.as_ref()),
                FieldEncoding::With(_) => quote!(),
            }
        });
        quote!(#(#parts)*)
    }
}

fn skipped(name: &Ident, ty: &syn::Type, default: Option<&syn::Path>) -> TokenStream {
    match default {
        Some(path) => quote!(let #name: #ty = #path();),
        None => quote!(let #name: #ty = ::core::default::Default::default();),
    }
}

fn local(at: usize) -> Ident {
    format_ident!("field_{at}")
}

/// A run is read as a tuple, which has at most 12 parts, with a byte for an option.
const RUN_MAX: usize = 11;
