//! What `#[wire(…)]` says at a type and at a field.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, GenericArgument, LitStr, Member, Path, PathArguments, Result, Token, Type,
    WherePredicate,
};

/// At a type.
pub(crate) struct WireSettings {
    /// The path of `egret_stream` where the output is compiled.
    pub(crate) stream: TokenStream,
    pub(crate) is_plain: bool,
    pub(crate) check: Option<Path>,
    /// The type that it travels as.
    pub(crate) via: Option<Type>,
    pub(crate) bound: Option<Punctuated<WherePredicate, Token![,]>>,
}

impl WireSettings {
    /// `stream` is the path if nothing is said of it.
    pub(crate) fn read(attrs: &[Attribute], stream: &TokenStream) -> Result<Self> {
        let stream = stream.clone();
        let mut read = Self { stream, is_plain: false, check: None, via: None, bound: None };
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("wire")) {
            attr.parse_nested_meta(|meta| {
                let path = &meta.path;
                if path.is_ident("crate") {
                    read.stream = meta.value()?.parse::<Path>()?.to_token_stream();
                } else if path.is_ident("plain") {
                    read.is_plain = true;
                } else if path.is_ident("check") {
                    read.check = Some(meta.value()?.parse()?);
                } else if path.is_ident("via") {
                    read.via = Some(meta.value()?.parse()?);
                } else if path.is_ident("bound") {
                    let text: LitStr = meta.value()?.parse()?;
                    read.bound = Some(text.parse_with(Punctuated::parse_terminated)?);
                } else {
                    return Err(meta.error(
                        "a type has `plain`, `check = fn`, `via = type`, `bound = \"…\"` and \
                         `crate = path`",
                    ));
                }
                Ok(())
            })?;
        }
        Ok(read)
    }

    /// The expression that hands `value` out after its check.
    pub(crate) fn checked(&self, label: &str, value: &TokenStream) -> TokenStream {
        let stream = &self.stream;
        match &self.check {
            None => quote!(::core::result::Result::Ok(#value)),
            Some(check) => quote! {
                #stream::__private::checked(r, #label, #value, |value| {
                    #stream::__private::CheckAnswer::refusal(#check(value))
                })
            },
        }
    }
}

/// A field, with what is said at it.
pub(crate) struct WireField<'a> {
    pub(crate) member: Member,
    /// As it enters the schema.
    pub(crate) label: String,
    pub(crate) ty: &'a Type,
    pub(crate) how: FieldEncoding,
    /// What makes the field where the writer does not have it: its type's default, or a function.
    pub(crate) default: Option<Option<Path>>,
}

/// How a field travels.
pub(crate) enum FieldEncoding {
    /// As its type does.
    Itself,
    /// Not at all: it is made on arrival.
    Skipped(Option<Path>),
    /// By the functions of a module.
    With(Path),
    /// As another type, which it is made of and which is made of it.
    Via(Type),
}

impl<'a> WireField<'a> {
    pub(crate) fn read(field: &'a syn::Field, member: Member) -> Result<Self> {
        let label = match &member {
            Member::Named(name) => name.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        let mut how = FieldEncoding::Itself;
        let mut default = None;
        let mut said = 0;
        for attr in field.attrs.iter().filter(|attr| attr.path().is_ident("wire")) {
            attr.parse_nested_meta(|meta| {
                let path = |meta: &ParseNestedMeta<'_>| -> Result<Option<Path>> {
                    if !meta.input.peek(Token![=]) {
                        return Ok(None);
                    }
                    meta.value()?.parse().map(Some)
                };
                if meta.path.is_ident("default") {
                    default = Some(path(&meta)?);
                } else {
                    said += 1;
                    how = match meta.path.get_ident().map(ToString::to_string).as_deref() {
                        Some("skip") => FieldEncoding::Skipped(path(&meta)?),
                        Some("with") => FieldEncoding::With(meta.value()?.parse()?),
                        Some("via") => FieldEncoding::Via(meta.value()?.parse()?),
                        _ => return Err(meta.error(FIELD_WORDS)),
                    };
                }
                let is_skipped = matches!(how, FieldEncoding::Skipped(_));
                match said > 1 || is_skipped && default.is_some() {
                    true => Err(meta.error(ONE_WAY)),
                    false => Ok(()),
                }
            })?;
        }
        Ok(Self { member, label, ty: &field.ty, how, default })
    }

    /// Whether its text says that it is a number: such fields are written together.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.how, FieldEncoding::Itself) && is_number(self.ty)
    }

    /// What is in the option, if its text says that it is one.
    pub(crate) fn option(&self) -> Option<&'a Type> {
        let (FieldEncoding::Itself, Type::Path(path)) = (&self.how, self.ty) else { return None };
        let only = path.path.segments.first().filter(|_| path.path.segments.len() == 1)?;
        match &only.arguments {
            PathArguments::AngleBracketed(inner) if only.ident == "Option" => {
                match inner.args.first() {
                    Some(GenericArgument::Type(inner)) => Some(inner),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

const FIELD_WORDS: &str = "a field has `skip`, `skip = fn`, `default`, `default = fn`, \
                           `with = module` and `via = type`";

const ONE_WAY: &str = "a field travels in one way, and one that is skipped in none: it is made by \
                       `skip = fn`, and has no `default`";

fn is_number(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => {
            path.path.get_ident().is_some_and(|name| NUMBERS.iter().any(|n| name == n))
        }
        // What a macro was given as a type.
        Type::Group(group) => is_number(&group.elem),
        Type::Array(array) => is_number(&array.elem),
        Type::Tuple(tuple) => !tuple.elems.is_empty() && tuple.elems.iter().all(is_number),
        _ => false,
    }
}

const NUMBERS: [&str; 16] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
    "f64", "bool", "char",
];
