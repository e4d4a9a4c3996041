//! `#[derive(Object)]` at an enum.
//!
//! An enum with the type of its tag as `repr` lies in memory as a union of `#[repr(C)]`
//! structs, one for each variant: the tag, then the variant's fields. The language says so, and
//! the output has these structs: they are what offsets are taken of. It also has a match that
//! makes each of them of the variant that it stands for: it compiles if the variants and
//! their fields are all those that this macro saw. What is taken from the text alone are the
//! `repr` and, where variants have fields, their numbers. So these are integer literals: an
//! expression could have another value in the output than in the enum, and a tag that no variant
//! has would be taken for a value.

use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{DataEnum, Error, Expr, ExprUnary, Fields, Ident, Lit, Result, UnOp};

use crate::layout::{LayoutField, Repr, local};
use crate::object::ShapeCode;
use crate::object_body::ObjectBody;

/// An enum, its parts read.
pub(crate) struct ObjectEnum<'a> {
    name: &'a Ident,
    /// The type of its tag.
    tag: TokenStream,
    variants: Vec<ObjectVariant<'a>>,
    /// Whether no variant has, or could have, fields.
    is_tag_alone: bool,
}

struct ObjectVariant<'a> {
    name: &'a Ident,
    label: String,
    /// The constant that holds its number.
    number: Ident,
    /// What the text says of that, if the enum cannot be asked: a literal.
    given: Option<TokenStream>,
    body: ObjectBody,
}

impl<'a> ObjectEnum<'a> {
    pub(crate) fn read(name: &'a Ident, data: &'a DataEnum, repr: &Repr) -> Result<Self> {
        let refuse = |why: String| Err(Error::new(name.span(), why));
        if data.variants.is_empty() {
            return refuse(no_variants(name));
        }
        let tag = match &repr.tag {
            Some(tag) if TAGS.iter().any(|known| tag == known) => tag,
            Some(tag) => return refuse(no_such_tag(name, tag)),
            None => return refuse(no_tag(name)),
        };
        if repr.is_c {
            return refuse(no_c(name, tag));
        }
        let is_tag_alone = data.variants.iter().all(|v| matches!(v.fields, Fields::Unit));
        let variants = data.variants.iter().enumerate().map(|(at, variant)| {
            let read = ObjectVariant::read(name, at, variant)?;
            Ok(if is_tag_alone { read } else { read.with_literal(name, variant)? })
        });
        let variants = variants.collect::<Result<_>>()?;
        Ok(Self { name, tag: quote!(__core::primitive::#tag), variants, is_tag_alone })
    }

    pub(crate) fn code(&self) -> ShapeCode {
        let name = self.name.unraw().to_string();
        let (tag, fault) = (&self.tag, format!("a variant of `{name}`"));
        let is_value = self.by_number(&quote!(false), ObjectBody::is_value);
        let fault = self.by_number(&quote!(return (0, #fault)), ObjectBody::fault);
        let otherwise = format!("a `{name}`");
        let read = quote! {
            let tag = bytes.first_chunk().copied().map(<#tag>::from_ne_bytes);
        };
        let describe = self.variants.iter().map(|ObjectVariant { label, number, body, .. }| {
            let fields = body.describe();
            quote! {
                describe.variant(#label, #number as __core::primitive::i128, |describe| {
                    #fields
                });
            }
        });
        let some = |what| {
            let parts = self.variants.iter().map(|variant| variant.body.some(what));
            quote!(#(#parts)||*)
        };
        let has_refs = some("REFS");
        let kind = self.tag_name().map_or_else(String::new, |tag| format!("enum of {tag}"));
        ShapeCode {
            proof: self.proof(),
            any: quote!(false),
            is_even: quote!(!(#has_refs)),
            has_refs,
            is_checked: some("CHECKED"),
            is_value: quote!(#read #is_value),
            fault: quote!(#read #fault (0, #otherwise)),
            describe: quote!(describe.named(#kind, #name, |describe| { #(#describe)* });),
            refs: self.by_variant(ObjectBody::refs),
            renew_refs: self.by_variant(ObjectBody::renew_refs),
            check: self.by_variant(ObjectBody::check),
        }
    }

    /// What `then` says of the fields of the variant that `tag` is the number of.
    fn by_number(
        &self,
        otherwise: &TokenStream,
        then: impl Fn(&ObjectBody) -> TokenStream,
    ) -> TokenStream {
        let arms = self.variants.iter().map(|ObjectVariant { number, body, .. }| {
            let then = then(body);
            quote!(__core::option::Option::Some(#number) => { #then })
        });
        quote!(match tag { #(#arms)* _ => #otherwise })
    }

    /// What `then` says of the fields of the variant that `self` is.
    fn by_variant(&self, then: impl Fn(&ObjectBody) -> TokenStream) -> TokenStream {
        let arms = self.variants.iter().map(|ObjectVariant { name, body, .. }| {
            let (bind, then) = (body.bind(), then(body));
            quote!(Self::#name #bind => { #then })
        });
        quote!(match self { #(#arms)* })
    }

    fn proof(&self) -> TokenStream {
        let (numbers, holders) = (self.numbers(), self.holders());
        let (same, holes) = (self.same_variants(), self.no_holes());
        quote!(#numbers #holders #same #holes)
    }

    /// The type of the tag, by its name alone.
    fn tag_name(&self) -> Option<TokenTree> {
        self.tag.clone().into_iter().last()
    }

    /// Constants with the numbers of the variants, as the language counts them.
    fn numbers(&self) -> TokenStream {
        let Self { name, tag, .. } = self;
        let numbers: Vec<_> = self.variants.iter().map(|variant| &variant.number).collect();
        if self.is_tag_alone {
            let variants = self.variants.iter().map(|variant| variant.name);
            return quote!(#(const #numbers: #tag = #name::#variants as #tag;)*);
        }
        // The fields are in the way of asking the enum itself.
        let repr = self.tag_name();
        let names: Vec<_> = (0..numbers.len()).map(|at| format_ident!("V{at}")).collect();
        let given = self.variants.iter().map(|variant| {
            let given = variant.given.as_ref()?;
            Some(quote!(= #given))
        });
        let given = given.map(Option::unwrap_or_default);
        quote! {
            #[repr(#repr)]
            enum __Tag { #(#names #given,)* }
            #(const #numbers: #tag = __Tag::#names as #tag;)*
        }
    }

    /// The structs that stand for variants with fields.
    fn holders(&self) -> TokenStream {
        let tag = &self.tag;
        let holders = self.with_fields().map(|ObjectBody { holder, places, fields, .. }| {
            let aliases = LayoutField::aliases(fields);
            let types = fields.iter().map(|field| &field.ty);
            quote! {
                #aliases
                #[repr(C)]
                struct #holder { tag: #tag, #(#places: #types,)* }
            }
        });
        quote!(#(#holders)*)
    }

    /// Fails to compile if another macro changed the variants after this one saw them, or the
    /// types of their fields mean something else in the output.
    fn same_variants(&self) -> TokenStream {
        let name = self.name;
        let arms =
            self.variants.iter().map(|ObjectVariant { name: variant, number, body, .. }| {
                let ObjectBody { holder, places, fields, .. } = body;
                let (bind, exact) = (LayoutField::bind_mut(fields), LayoutField::exact(fields));
                let made = (!fields.is_empty()).then(|| {
                    let values = (0..fields.len()).map(local);
                    quote!(#exact let _ = #holder { tag: #number, #(#places: #values,)* };)
                });
                quote!(#name::#variant #bind => { #made })
            });
        quote!(const _: fn(#name) = |value| match value { #(#arms)* };)
    }

    /// Of the variants without fields one stands for all.
    fn no_holes(&self) -> TokenStream {
        let (with, without): (Vec<_>, Vec<_>) =
            self.variants.iter().partition(|variant| !variant.body.fields.is_empty());
        let holes =
            without.into_iter().take(1).chain(with).map(|ObjectVariant { label, body, .. }| {
                let called = format!("variant `{label}` of `{}`", self.name);
                body.row(self.name, Some(&self.tag), called, NAME_THE_HOLE).no_holes()
            });
        quote!(#(#holes)*)
    }

    fn with_fields(&self) -> impl Iterator<Item = &ObjectBody> {
        self.variants.iter().map(|variant| &variant.body).filter(|body| !body.fields.is_empty())
    }
}

impl<'a> ObjectVariant<'a> {
    fn read(owner: &Ident, at: usize, variant: &'a syn::Variant) -> Result<Self> {
        let fields = LayoutField::all(owner, &format!("__Variant{at}Field"), &variant.fields)?;
        let places = (0..fields.len()).map(|at| local(at).into()).collect();
        Ok(Self {
            name: &variant.ident,
            label: variant.ident.unraw().to_string(),
            number: format_ident!("__TAG_{at}"),
            given: None,
            body: ObjectBody { holder: format_ident!("__Variant{at}"), places, fields },
        })
    }

    /// The same with the literal that its number is given as.
    fn with_literal(mut self, owner: &Ident, variant: &syn::Variant) -> Result<Self> {
        if let Some((_, given)) = &variant.discriminant {
            let why = || Error::new_spanned(given, no_literal(owner, &self.label));
            self.given = Some(literal(given).ok_or_else(why)?);
        }
        Ok(self)
    }
}

/// An integer literal or its negative, which are the same numbers everywhere.
fn literal(given: &Expr) -> Option<TokenStream> {
    match given {
        // What a macro was given as a literal or an expression.
        Expr::Group(group) => literal(&group.expr),
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(number) => Some(quote!(#number)),
            _ => None,
        },
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => {
            let number = literal(expr)?;
            Some(quote!(-#number))
        }
        _ => None,
    }
}

/// The types of tags that are the same everywhere.
const TAGS: [&str; 8] = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"];

const NAME_THE_HOLE: &str = "name the hole as a `[u8; N]` field, or make each variant an object \
                             of its own behind `Ref<dyn Trait>`";

fn no_variants(name: &Ident) -> String {
    format!("`{name}` has no variants, so there is nothing to send")
}

fn no_tag(name: &Ident) -> String {
    format!(
        "`{name}` needs the type of its tag, as `#[repr(u8)]`, to be an object: otherwise the \
         compiler chooses where the tag lies, and how large it is"
    )
}

fn no_such_tag(name: &Ident, tag: &Ident) -> String {
    format!(
        "`{name}` cannot be an object with a tag of `{tag}`: tags are `u8` to `u64` and `i8` to \
         `i64`, which are the same everywhere"
    )
}

fn no_literal(name: &Ident, variant: &str) -> String {
    format!(
        "the number of variant `{variant}` has to be an integer literal, as `1` or `-1`, because \
         `{name}` has variants with fields: the derive says the number once more, and another \
         expression could have another value there"
    )
}

fn no_c(name: &Ident, tag: &Ident) -> String {
    format!("`{name}` has its fields beside the tag with `#[repr({tag})]` alone: leave out `C`")
}
