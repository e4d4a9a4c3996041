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
        let is_by = |how: &_| matches!(how, FieldEncoding::With(_) | FieldEncoding::Via(_));
        self.fields.iter().any(|field| is_by(&field.how))
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
            FieldEncoding::Via(via) => {
                quote!(.and(#stream::WireSize::at_least(<#via as #stream::Wire>::SIZE.min)))
            }
        });
        quote!(#stream::WireSize::fixed(0) #(#parts)*)
    }

    pub(crate) fn describe(&self, stream: &TokenStream) -> TokenStream {
        let parts = self.fields.iter().map(|WireField { ty, how, label, default, .. }| {
            let defaulted = default.is_some().then(|| quote!(d.defaulted();));
            let describe = match how {
                FieldEncoding::Itself => quote!(<#ty as #stream::Wire>::describe(d);),
                FieldEncoding::Skipped(_) => return quote!(),
                FieldEncoding::With(path) => quote!(d.by_module(); #path::describe::<#ty>(d);),
                FieldEncoding::Via(via) => quote!(<#via as #stream::Wire>::describe(d);),
            };
            quote!(d.label(#label); #defaulted #describe)
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
                    FieldEncoding::Via(via) => quote! {
                        let via = <#via as ::core::convert::From<&#ty>>::from(&*#name);
                        w.copied(|w| #stream::Wire::write(&via, w))?;
                    },
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
                FieldEncoding::With(_) | FieldEncoding::Via(_) => quote!(let _ = #name;),
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
                    FieldEncoding::Via(via) => {
                        quote!(let #name = #stream::__private::from_via::<#ty, #via>(r)?;)
                    }
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
                FieldEncoding::With(_) | FieldEncoding::Via(_) => quote!(),
            }
        });
        quote!(#(#parts)*)
    }

    /// Reads the fields of the writer as `plan` says, and makes those that it does not have.
    pub(crate) fn read_planned(&self, stream: &TokenStream, plan: &Ident) -> TokenStream {
        let (mut slots, mut arms, mut ends) = (vec![], vec![], vec![]);
        for (at, WireField { ty, how, label, default, .. }) in self.fields.iter().enumerate() {
            let (name, number) = (local(at), arms.len());
            let read = match how {
                FieldEncoding::Itself => {
                    quote!(<#ty as #stream::FromWire<'_>>::read_planned(r, plan)?)
                }
                FieldEncoding::With(path) => quote!({
                    r.is_same(plan, #label)?;
                    #path::read(r)?
                }),
                FieldEncoding::Via(via) => {
                    quote!(#stream::__private::from_via_planned::<#ty, #via>(r, plan)?)
                }
                FieldEncoding::Skipped(made) => {
                    ends.push(skipped(&name, ty, made.as_ref()));
                    continue;
                }
            };
            let missing = match default {
                None => quote!(return ::core::result::Result::Err(r.lacks(#label))),
                Some(None) => quote!(::core::default::Default::default()),
                Some(Some(path)) => quote!(#path()),
            };
            slots.push(
                quote!(let mut #name: ::core::option::Option<#ty> = ::core::option::Option::None;),
            );
            arms.push(quote!(#number => #name = ::core::option::Option::Some(#read),));
            ends.push(quote! {
                let #name: #ty = match #name {
                    ::core::option::Option::Some(value) => value,
                    ::core::option::Option::None => #missing,
                };
            });
        }
        quote! {
            #(#slots)*
            r.planned_fields(#plan, |r, field, plan| {
                let _ = (&r, &plan);
                match field { #(#arms)* _ => {} }
                ::core::result::Result::Ok(())
            })?;
            #(#ends)*
        }
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
