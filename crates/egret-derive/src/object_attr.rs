//! What `#[object(…)]` says at a type.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, Data, DeriveInput, Error, Path, Result};

/// What is said.
pub(crate) struct ObjectSettings {
    /// The path of `egret_stream` where the output is compiled.
    pub(crate) stream: TokenStream,
    pub(crate) check: Option<Path>,
}

impl ObjectSettings {
    /// `stream` is the path if nothing is said of it.
    pub(crate) fn read(input: &DeriveInput, stream: &TokenStream) -> Result<Self> {
        let mut read = Self { stream: stream.clone(), check: None };
        for attr in said(&input.attrs) {
            attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("crate") {
                    read.stream = meta.value()?.parse::<Path>()?.to_token_stream();
                } else if meta.path.is_ident("check") && read.check.is_none() {
                    read.check = Some(meta.value()?.parse()?);
                } else {
                    return Err(meta.error("a type has one `check = fn` and `crate = path`"));
                }
                Ok(())
            })?;
        }
        match parts(&input.data).find_map(|attrs| said(attrs).next()) {
            None => Ok(read),
            Some(attr) => Err(Error::new_spanned(attr, NOT_HERE)),
        }
    }
}

fn said(attrs: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attrs.iter().filter(|attr| attr.path().is_ident("object"))
}

/// What stands at the fields and variants of a type.
fn parts(data: &Data) -> Box<dyn Iterator<Item = &[Attribute]> + '_> {
    match data {
        Data::Struct(data) => Box::new(data.fields.iter().map(|field| &field.attrs[..])),
        Data::Enum(data) => Box::new(data.variants.iter().flat_map(|variant| {
            let fields = variant.fields.iter().map(|field| &field.attrs[..]);
            [&variant.attrs[..]].into_iter().chain(fields)
        })),
        Data::Union(_) => Box::new([].into_iter()),
    }
}

const NOT_HERE: &str = "`object` says something of a type, and nothing of its parts";
