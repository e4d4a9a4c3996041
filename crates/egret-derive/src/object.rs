//! `#[derive(Object)]`: what a type must be, and the proof of it in the output.
//!
//! The output holds an `unsafe impl`, so what it promises is proved beside it, as that of
//! [`Plain`](crate::plain) is: the fields are flat ([`object_part`](crate::object_part)), they
//! are those that this macro saw, and they leave no holes ([`layout`](crate::layout)). For an
//! enum see [`object_enum`](crate::object_enum).

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Fields, Ident, Result};

use crate::layout::{LayoutField, Repr, here, own_crates, same_fields};
use crate::object_attr::ObjectSettings;
use crate::object_body::ObjectBody;
use crate::object_enum::ObjectEnum;
use crate::object_part::part;

/// The implementations for `input`, with their proof; or why it cannot be an object.
pub(crate) fn expand(input: &DeriveInput, stream: &TokenStream) -> Result<TokenStream> {
    let name = &input.ident;
    let settings = ObjectSettings::read(input, stream)?;
    if !input.generics.params.is_empty() || input.generics.where_clause.is_some() {
        return Err(Error::new(name.span(), no_generics(name)));
    }
    let repr = Repr::read(&input.attrs)?;
    let code = match &input.data {
        Data::Struct(data) => of_struct(name, &data.fields, &repr)?,
        Data::Enum(data) => ObjectEnum::read(name, data, &repr)?.code(),
        Data::Union(_) => return Err(Error::new(name.span(), no_union(name))),
    };
    let (crates, small, part) = (own_crates(), is_small(name), part(&settings.stream));
    let (flat, object) = (code.flat(name, &settings), code.object(name, &settings));
    let ShapeCode { proof, .. } = code;
    Ok(quote! {
        #[allow(deprecated)]
        const _: () = {
            #crates
            #small
            #part
            #proof
            #flat
            #object
        };
    })
}

/// What the shape of a type decides.
pub(crate) struct ShapeCode {
    /// Items: what stands for its variants, and the proof of what is promised.
    pub(crate) proof: TokenStream,
    /// Constants.
    pub(crate) any: TokenStream,
    pub(crate) has_refs: TokenStream,
    pub(crate) is_even: TokenStream,
    pub(crate) is_checked: TokenStream,
    /// Bodies of functions.
    pub(crate) is_value: TokenStream,
    pub(crate) fault: TokenStream,
    pub(crate) describe: TokenStream,
    pub(crate) refs: TokenStream,
    pub(crate) renew_refs: TokenStream,
    pub(crate) check: TokenStream,
}

impl ShapeCode {
    fn flat(&self, name: &Ident, ObjectSettings { stream, .. }: &ObjectSettings) -> TokenStream {
        let Self { any, is_value, .. } = self;
        quote! {
            #[automatically_derived]
            unsafe impl #stream::net::buf::Flat for #name {
                const ANY: __core::primitive::bool = #any;
                #[inline]
                fn is_value(bytes: &[__core::primitive::u8]) -> __core::primitive::bool {
                    if bytes.len() != __core::mem::size_of::<Self>() {
                        return false;
                    }
                    #is_value
                }
            }
        }
    }

    fn object(&self, name: &Ident, settings: &ObjectSettings) -> TokenStream {
        let Self { has_refs, is_even, is_checked, fault, describe, refs, renew_refs, .. } = self;
        let ObjectSettings { stream, check } = settings;
        let is_checked = match check {
            None => quote!(#is_checked),
            Some(_) => quote!(true),
        };
        let check = self.check_all(settings);
        quote! {
            // The names of parameters stand beside those of the fields' types.
            #[automatically_derived]
            impl #stream::graph::Object for #name {
                const REFS: __core::primitive::bool = #has_refs;
                const EVEN: __core::primitive::bool = #is_even;
                const CHECKED: __core::primitive::bool = #is_checked;
                fn describe(describe: &mut #stream::graph::DescribeObject<'_>) {
                    #describe
                }
                #[inline]
                fn hint() -> &'static #stream::graph::ClassHint {
                    static HINT: #stream::graph::ClassHint = #stream::graph::ClassHint::new();
                    &HINT
                }
                #[inline]
                fn refs<__S: #stream::graph::SeeRefs>(
                    &self,
                    see: &mut __S,
                ) -> __core::result::Result<(), __S::Stop> {
                    let _ = &see;
                    #refs
                    __core::result::Result::Ok(())
                }
                #[inline]
                fn renew_refs<__R: #stream::graph::RenewRefs>(
                    &mut self,
                    renew: &mut __R,
                ) -> __core::result::Result<(), __R::Stop> {
                    let _ = &renew;
                    #renew_refs
                    __core::result::Result::Ok(())
                }
                fn check(&self) -> __core::result::Result<(), __std::string::String> {
                    #check
                }
                fn fault(
                    bytes: &[__core::primitive::u8],
                ) -> (__core::primitive::usize, &'static __core::primitive::str) {
                    #fault
                }
            }
        }
    }

    /// The checks of the parts, then the type's own.
    fn check_all(&self, ObjectSettings { stream, check }: &ObjectSettings) -> TokenStream {
        let parts = &self.check;
        let own = check.as_ref().map(|check| {
            quote! {
                if let __core::option::Option::Some(why) =
                    #stream::__private::CheckAnswer::refusal(#check(self))
                {
                    return __core::result::Result::Err(why);
                }
            }
        });
        quote! {
            #parts
            #own
            __core::result::Result::Ok(())
        }
    }
}

fn of_struct(name: &Ident, fields: &Fields, repr: &Repr) -> Result<ShapeCode> {
    let fields = LayoutField::all(name, "__Field", fields)?;
    let refuse = |why: String| Err(Error::new(name.span(), why));
    if fields.is_empty() {
        return refuse(no_fields(name));
    }
    if repr.is_packed {
        return refuse(no_packed(name));
    }
    if !repr.is_fixed() {
        return refuse(no_repr(name));
    }
    let places = fields.iter().map(|field| field.member.clone()).collect();
    let body = ObjectBody { holder: name.clone(), places, fields };
    let holes = body.row(name, None, format!("`{name}`"), NAME_THE_HOLE).no_holes();
    let same = same_fields(name, &body.fields);
    let label = name.unraw().to_string();
    let (bind, fault, describe) = (body.bind(), body.fault(), body.describe());
    let (refs, renew_refs, check) = (body.refs(), body.renew_refs(), body.check());
    let otherwise = format!("a `{label}`");
    Ok(ShapeCode {
        proof: quote!(#same #holes),
        any: body.all("ANY"),
        has_refs: body.some("REFS"),
        is_even: body.all("EVEN"),
        is_checked: body.some("CHECKED"),
        is_value: body.is_value(),
        fault: quote!(#fault (0, #otherwise)),
        describe: quote!(describe.named("struct", #label, |describe| { #describe });),
        refs: quote!(let Self #bind = self; #refs),
        renew_refs: quote!(let Self #bind = self; #renew_refs),
        check: quote!(let Self #bind = self; #check),
    })
}

/// A constant assertion about the alignment, which the slots of a graph have.
fn is_small(name: &Ident) -> TokenStream {
    let message = format!("`{name}` is aligned to more than 8 bytes, and objects are to at most 8");
    let span = here(name.span());
    quote_spanned! {span=>
        const _: () = __core::assert!(__core::mem::align_of::<#name>() <= 8, #message);
    }
}

const NAME_THE_HOLE: &str = "order the fields otherwise, or name the hole as a `[u8; N]` field";

fn no_union(name: &Ident) -> String {
    format!(
        "`{name}` cannot be an object: which field of a union is meant is not in its type; use \
         an enum"
    )
}

fn no_generics(name: &Ident) -> String {
    format!(
        "`{name}` cannot derive `Object` with generics: holes are looked for in one layout; \
         write the types out"
    )
}

fn no_fields(name: &Ident) -> String {
    format!("`{name}` has no fields, so there is nothing to send")
}

fn no_packed(name: &Ident) -> String {
    format!(
        "`{name}` cannot be packed: its fields are referred to where they lie, and have to be \
         aligned"
    )
}

fn no_repr(name: &Ident) -> String {
    format!(
        "`{name}` needs `#[repr(C)]` (or `#[repr(transparent)]`) to be an object: \
         otherwise the compiler orders its fields as it likes"
    )
}

#[cfg(test)]
mod tests;
