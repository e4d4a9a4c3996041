//! `#[derive(Wire)]`: straight code for each field, runs of numbers with one look at
//! the room.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, GenericParam, Generics, Ident, Lifetime, Result, Type};

use crate::wire_attr::{FieldEncoding, WireSettings};
use crate::wire_body::{WireBody, WireVariant};
use crate::wire_plain::plain;

/// The implementations for `input`; or why it cannot travel.
pub(crate) fn expand(input: &DeriveInput, stream: &TokenStream) -> Result<TokenStream> {
    let container = WireSettings::read(&input.attrs, stream)?;
    let shape = WireShape::read(input)?;
    if let Some(via) = &container.via {
        let is_alone = !container.is_plain && container.check.is_none();
        return match is_alone {
            true => Ok(via_type(input, &container, via)),
            false => Err(Error::new(via.span(), NO_VIA)),
        };
    }
    if container.is_plain {
        shape.check_plain(input)?;
        return match &container.check {
            None => Ok(plain(input, &container)),
            Some(check) => Err(Error::new(check.span(), NO_CHECK)),
        };
    }
    let (writing, reading) =
        (writing(input, &container, &shape), reading(input, &container, &shape));
    Ok(quote!(#writing #reading))
}

/// The implementation of `Wire`.
fn writing(input: &DeriveInput, container: &WireSettings, shape: &WireShape<'_>) -> TokenStream {
    let WireSettings { stream, .. } = container;
    let (name, label) = (&input.ident, input.ident.unraw().to_string());
    let size = match (shape.size(stream), &container.check) {
        (size, None) => size,
        // A run of numbers has nowhere to be checked.
        (size, Some(_)) => quote!(#stream::WireSize::at_least((#size).min)),
    };
    let describe = shape.describe(stream, &label);
    let write = shape.write(stream, "write");
    let give = shape.write(stream, "give");
    let write_fixed = shape.write_fixed(stream);
    let blank = blank(input, stream);
    let to = WireBounds::new(input, container, &quote!(#stream::Wire));
    let (to_impl, to_types, to_where) = to.split();
    quote! {
        #[automatically_derived]
        impl #to_impl #stream::Wire for #name #to_types #to_where {
            const SIZE: #stream::WireSize = #size;
            fn describe(d: &mut #stream::Describe) {
                #describe
            }
            #[inline]
            fn write<'__w>(&'__w self, w: &mut #stream::Writer<'__w>) -> #stream::Written {
                #write
            }
            #[inline(always)]
            fn write_fixed(&self, run: &mut &mut [u8]) {
                #write_fixed
            }
            #[inline]
            fn give(&mut self, w: &mut #stream::Writer<'static>) -> #stream::Written {
                #give
            }
            #blank
        }
    }
}

/// The implementation of `FromWire`.
fn reading(input: &DeriveInput, container: &WireSettings, shape: &WireShape<'_>) -> TokenStream {
    let WireSettings { stream, .. } = container;
    let (name, label) = (&input.ident, input.ident.unraw().to_string());
    let read = shape.read_with_check(stream, container, &label);
    let read_fixed = shape.read_fixed(stream, container.check.is_some());
    let read_planned = shape.read_planned(stream, container, &label);
    let from = WireBounds::reading(input, container);
    let (from_impl, _, from_where) = from.split();
    let (_, types, _) = input.generics.split_for_impl();
    let life = WireBounds::life();
    quote! {
        #[automatically_derived]
        impl #from_impl #stream::FromWire<#life> for #name #types #from_where {
            #[inline]
            fn read(
                r: &mut #stream::Reader<#life>,
            ) -> ::core::result::Result<Self, #stream::Stop> {
                #read
            }
            #[inline(always)]
            fn read_fixed(
                run: &mut &[u8],
            ) -> ::core::result::Result<Self, #stream::Invalid> {
                #read_fixed
            }
            #[inline]
            fn read_planned(
                r: &mut #stream::Reader<#life>,
                plan: #stream::PlanCursor<'_>,
            ) -> ::core::result::Result<Self, #stream::Stop> {
                if plan.is_same() {
                    return <Self as #stream::FromWire<#life>>::read(r);
                }
                #read_planned
            }
        }
    }
}

/// The implementations for a type that travels as another one.
fn via_type(input: &DeriveInput, container: &WireSettings, via: &Type) -> TokenStream {
    let WireSettings { stream, .. } = container;
    let name = &input.ident;
    let to = WireBounds::new(input, container, &quote!(#stream::Wire));
    let from = WireBounds::reading(input, container);
    let (to_impl, to_types, to_where) = to.split();
    let (from_impl, _, from_where) = from.split();
    let life = WireBounds::life();
    quote! {
        #[automatically_derived]
        impl #to_impl #stream::Wire for #name #to_types #to_where {
            const SIZE: #stream::WireSize =
                #stream::WireSize::at_least(<#via as #stream::Wire>::SIZE.min);
            fn describe(d: &mut #stream::Describe) {
                <#via as #stream::Wire>::describe(d);
            }
            fn write<'__w>(&'__w self, w: &mut #stream::Writer<'__w>) -> #stream::Written {
                let via = <#via as ::core::convert::From<&Self>>::from(self);
                w.copied(|w| #stream::Wire::write(&via, w))
            }
        }
        #[automatically_derived]
        impl #from_impl #stream::FromWire<#life> for #name #to_types #from_where {
            fn read(
                r: &mut #stream::Reader<#life>,
            ) -> ::core::result::Result<Self, #stream::Stop> {
                #stream::__private::from_via::<Self, #via>(r)
            }
            fn read_planned(
                r: &mut #stream::Reader<#life>,
                plan: #stream::PlanCursor<'_>,
            ) -> ::core::result::Result<Self, #stream::Stop> {
                #stream::__private::from_via_planned::<Self, #via>(r, plan)
            }
        }
    }
}

/// A value to close cycles with, if the type has a default.
fn blank(input: &DeriveInput, stream: &TokenStream) -> TokenStream {
    // Whether a type with parameters has one depends on them, and cannot be asked.
    if input.generics.type_params().next().is_some() {
        return TokenStream::new();
    }
    quote! {
        fn blank() -> ::core::option::Option<Self> {
            // One of the two traits in there answers.
            use #stream::__private::*;
            (&#stream::__private::DefaultProbe::<Self>::new()).blank()
        }
    }
}

/// A struct or an enum, its parts read.
enum WireShape<'a> {
    Struct(WireBody<'a>),
    Enum(Vec<WireVariant<'a>>),
}

impl<'a> WireShape<'a> {
    fn read(input: &'a DeriveInput) -> Result<Self> {
        match &input.data {
            Data::Struct(data) => Ok(Self::Struct(WireBody::of(&data.fields)?)),
            Data::Enum(data) => {
                let variants = data.variants.iter().map(|variant| {
                    Ok(WireVariant { name: &variant.ident, body: WireBody::of(&variant.fields)? })
                });
                Ok(Self::Enum(variants.collect::<Result<_>>()?))
            }
            Data::Union(_) => Err(Error::new(input.ident.span(), no_union(&input.ident))),
        }
    }

    /// Fails unless it can be a plain struct.
    fn check_plain(&self, input: &DeriveInput) -> Result<()> {
        match self {
            Self::Struct(body) if input.generics.params.is_empty() => {
                match body.fields.iter().find(|field| !matches!(field.how, FieldEncoding::Itself)) {
                    Some(field) => Err(Error::new(field.ty.span(), NO_FIELDS)),
                    None => Ok(()),
                }
            }
            _ => Err(Error::new(input.ident.span(), no_plain(&input.ident))),
        }
    }

    fn size(&self, stream: &TokenStream) -> TokenStream {
        match self {
            Self::Struct(body) => body.size(stream),
            Self::Enum(variants) => {
                let tag = tag_bytes(variants.len());
                match self.is_tag_alone() {
                    true => quote!(#stream::WireSize::fixed(#tag)),
                    false => quote!(#stream::WireSize::at_least(#tag)),
                }
            }
        }
    }

    fn describe(&self, stream: &TokenStream, label: &str) -> TokenStream {
        match self {
            Self::Struct(body) => {
                let fields = body.describe(stream);
                quote!(d.named::<Self>("struct", #label, |d| { let _ = &d; #fields });)
            }
            Self::Enum(variants) => {
                let variants = variants.iter().map(|WireVariant { name, body }| {
                    let name = name.unraw().to_string();
                    let fields = body.describe(stream);
                    quote!(d.group(#name, |d| { let _ = &d; #fields });)
                });
                quote!(d.named::<Self>("enum", #label, |d| { let _ = &d; #(#variants)* });)
            }
        }
    }

    /// Writes the fields by `method` of their types, `write` or `give`.
    fn write(&self, stream: &TokenStream, method: &str) -> TokenStream {
        let method = format_ident!("{method}");
        match self {
            Self::Struct(body) => {
                let (bind, fields) = (body.bind(), body.write(stream, &method));
                quote! {
                    if const { <Self as #stream::Wire>::SIZE.is_fixed } {
                        return w.fixed(self);
                    }
                    let Self #bind = self;
                    #fields
                    ::core::result::Result::Ok(())
                }
            }
            Self::Enum(variants) if variants.is_empty() => quote!(match *self {}),
            Self::Enum(variants) => {
                let tag_type = tag_type(variants.len());
                let body = matched(variants, |WireVariant { body, .. }, tag| {
                    let fields = body.write(stream, &method);
                    quote!({ w.array(#tag_type::to_le_bytes(#tag))?; #fields })
                });
                quote!(#body ::core::result::Result::Ok(()))
            }
        }
    }

    fn write_fixed(&self, stream: &TokenStream) -> TokenStream {
        match self {
            Self::Struct(body) => {
                let (bind, fields) = (body.bind(), body.write_fixed(stream));
                quote!(let _ = &run; let Self #bind = self; #fields)
            }
            Self::Enum(variants) if variants.is_empty() => quote!(match *self {}),
            Self::Enum(variants) if self.is_tag_alone() => {
                let tag_type = tag_type(variants.len());
                let tag = matched(variants, |_, tag| quote!(#tag));
                quote!(let tag: #tag_type = #tag; #stream::Wire::write_fixed(&tag, run);)
            }
            Self::Enum(_) => quote!(let _ = run;),
        }
    }

    /// Whether nothing of an enum travels but which variant it is.
    fn is_tag_alone(&self) -> bool {
        matches!(self, Self::Enum(variants) if variants.iter().all(|variant| variant.body.is_empty()))
    }

    fn read_with_check(
        &self,
        stream: &TokenStream,
        container: &WireSettings,
        label: &str,
    ) -> TokenStream {
        self.with_check(
            stream,
            container,
            label,
            &self.read_value(stream, container.check.is_some()),
        )
    }

    fn read_planned(
        &self,
        stream: &TokenStream,
        container: &WireSettings,
        label: &str,
    ) -> TokenStream {
        let (plan, fields) = (format_ident!("plan"), format_ident!("fields"));
        let value = match self {
            Self::Struct(body) => {
                let (read, make) = (body.read_planned(stream, &plan), body.make());
                quote!(#read ::core::result::Result::Ok(Self #make))
            }
            Self::Enum(variants) => {
                let arms = variants.iter().enumerate().map(|(at, WireVariant { name, body })| {
                    let (read, make) = (body.read_planned(stream, &fields), body.make());
                    quote!(#at => { #read ::core::result::Result::Ok(Self::#name #make) })
                });
                quote! {
                    let (variant, fields) = r.planned_variant(plan)?;
                    let _ = &fields;
                    match variant {
                        #(#arms)*
                        _ => ::core::result::Result::Err(
                            r.fail(#stream::Invalid::new("variant of an enum")),
                        ),
                    }
                }
            }
        };
        self.with_check(stream, container, label, &value)
    }

    /// The code that reads a `value`, with the check behind it if there is one.
    fn with_check(
        &self,
        stream: &TokenStream,
        container: &WireSettings,
        label: &str,
        value: &TokenStream,
    ) -> TokenStream {
        if container.check.is_none() {
            return value.clone();
        }
        let checked = container.checked(label, &quote!(value));
        let life = WireBounds::life();
        quote! {
            let read = |r: &mut #stream::Reader<#life>|
                -> ::core::result::Result<Self, #stream::Stop> { #value };
            let value = read(r)?;
            #checked
        }
    }

    fn read_value(&self, stream: &TokenStream, has_check: bool) -> TokenStream {
        match self {
            Self::Struct(body) => {
                let (read, make) = (body.read(stream), body.make());
                let fixed = (!has_check).then(|| {
                    quote! {
                        if const { <Self as #stream::Wire>::SIZE.is_fixed } {
                            return r.fixed();
                        }
                    }
                });
                quote! {
                    #fixed
                    let _ = &r;
                    #read
                    ::core::result::Result::Ok(Self #make)
                }
            }
            Self::Enum(variants) => {
                let tag_type = tag_type(variants.len());
                let arms = made(variants, stream);
                quote! {
                    match #tag_type::from_le_bytes(r.array()?) {
                        #(#arms)*
                        _ => ::core::result::Result::Err(
                            r.fail(#stream::Invalid::new("variant of an enum")),
                        ),
                    }
                }
            }
        }
    }

    fn read_fixed(&self, stream: &TokenStream, has_check: bool) -> TokenStream {
        let refuse = quote! {
            let _ = run;
            ::core::result::Result::Err(#stream::Invalid::new("value of fixed size"))
        };
        match self {
            _ if has_check => refuse,
            Self::Struct(body) if body.has_with() => refuse,
            Self::Struct(body) => {
                let (read, make) = (body.read_fixed(stream), body.make());
                quote!(let _ = &run; #read ::core::result::Result::Ok(Self #make))
            }
            Self::Enum(variants) if !variants.is_empty() && self.is_tag_alone() => {
                let tag_type = tag_type(variants.len());
                let arms = made(variants, stream);
                quote! {
                    match <#tag_type as #stream::FromWire<'_>>::read_fixed(run)? {
                        #(#arms)*
                        _ => ::core::result::Result::Err(
                            #stream::Invalid::new("variant of an enum"),
                        ),
                    }
                }
            }
            Self::Enum(_) => refuse,
        }
    }
}

/// A match on an enum with an `arm` for each variant and its tag.
fn matched(
    variants: &[WireVariant<'_>],
    arm: impl Fn(&WireVariant<'_>, syn::LitInt) -> TokenStream,
) -> TokenStream {
    let arms = variants.iter().enumerate().map(|(at, variant)| {
        let (name, bind) = (variant.name, variant.body.bind());
        let arm = arm(variant, tag(at, variants.len()));
        quote!(Self::#name #bind => #arm,)
    });
    quote!(match self { #(#arms)* })
}

/// Arms that read each variant by its tag.
fn made<'v>(
    variants: &'v [WireVariant<'_>],
    stream: &'v TokenStream,
) -> impl Iterator<Item = TokenStream> + 'v {
    variants.iter().enumerate().map(|(at, WireVariant { name, body })| {
        let (tag, make, read) = (tag(at, variants.len()), body.make(), body.read(stream));
        quote!(#tag => { #read ::core::result::Result::Ok(Self::#name #make) })
    })
}

fn tag_bytes(variants: usize) -> usize {
    if variants <= 1 << 8 { 1 } else { 4 }
}

fn tag_type(variants: usize) -> Ident {
    format_ident!("u{}", tag_bytes(variants) * 8)
}

fn tag(at: usize, variants: usize) -> syn::LitInt {
    syn::LitInt::new(&format!("{at}{}", tag_type(variants)), proc_macro2::Span::call_site())
}

/// The type's generics with what their parameters must do.
struct WireBounds {
    declared: Generics,
    used: Generics,
}

impl WireBounds {
    fn new(input: &DeriveInput, container: &WireSettings, bound: &TokenStream) -> Self {
        let mut declared = input.generics.clone();
        let names: Vec<Ident> = declared.type_params().map(|param| param.ident.clone()).collect();
        let clause = declared.make_where_clause();
        match &container.bound {
            Some(bounds) => clause.predicates.extend(bounds.clone()),
            None => clause.predicates.extend(
                names
                    .iter()
                    .map(|name| -> syn::WherePredicate { syn::parse_quote!(#name: #bound) }),
            ),
        }
        Self { declared, used: input.generics.clone() }
    }

    /// The same for reading: what is borrowed lives as long as the stream.
    fn reading(input: &DeriveInput, container: &WireSettings) -> Self {
        let (stream, life) = (&container.stream, Self::life());
        let mut bounds = Self::new(input, container, &quote!(#stream::FromWire<#life>));
        let lifetimes: Vec<Lifetime> =
            bounds.declared.lifetimes().map(|param| param.lifetime.clone()).collect();
        let param: GenericParam = match lifetimes.is_empty() {
            true => syn::parse_quote!(#life),
            false => syn::parse_quote!(#life: #(#lifetimes)+*),
        };
        bounds.declared.params.insert(0, param);
        bounds
    }

    fn life() -> Lifetime {
        Lifetime::new("'__a", proc_macro2::Span::call_site())
    }

    fn split(&self) -> (syn::ImplGenerics<'_>, syn::TypeGenerics<'_>, Option<&syn::WhereClause>) {
        let (declared, _, clause) = self.declared.split_for_impl();
        let (_, used, _) = self.used.split_for_impl();
        (declared, used, clause)
    }
}

const NO_CHECK: &str = "what is plain is read in place, where nobody checks it: \
                        leave out `plain` or `check`";

const NO_VIA: &str = "what travels as another type is neither `plain` nor has a `check`: `TryFrom` \
                      of the other type can refuse";

const NO_FIELDS: &str = "what is plain travels as its bytes, and all of them: \
                         leave out `plain` or what is said at the field";

fn no_plain(name: &Ident) -> String {
    format!("`{name}` cannot be plain: only a struct without generics can")
}

fn no_union(name: &Ident) -> String {
    format!("`{name}` cannot travel: which field of a union is meant is not in its type")
}

#[cfg(test)]
mod tests;
