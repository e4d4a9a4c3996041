//! `#[remote]`: at a trait, a table of its methods and a stub that calls them; at an
//! implementation, which interface the type is exported as.

mod carried;
mod export;
mod interface;
mod method;
mod signature;
mod stub;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{Error, Item, Path, Result};

/// The code for `item`; or why it cannot be remote.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let root = root(args)?;
    match syn::parse2(item)? {
        Item::Trait(item) => interface::expand(&root, item),
        Item::Impl(item) => export::expand(&root, &item),
        other => Err(Error::new(other.span(), NEITHER)),
    }
}

/// The path of `egret` where the output is compiled.
fn root(args: TokenStream) -> Result<TokenStream> {
    let mut root = quote!(::egret);
    let parser = syn::meta::parser(|meta| {
        if meta.path.is_ident("crate") {
            root = meta.value()?.parse::<Path>()?.to_token_stream();
            return Ok(());
        }
        Err(meta.error("`#[remote]` takes `crate = path` alone"))
    });
    parser.parse2(args)?;
    Ok(root)
}

const NEITHER: &str = "`#[remote]` stands at a trait, or at its implementation for a type";
