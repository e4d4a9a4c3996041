//! What a signature may not have, and types as text.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::{Error, Result, Signature, Type};

/// Fails if something stands before or behind the name that a call cannot have.
pub(super) fn refuse_signature(signature: &Signature) -> Result<()> {
    let generics = &signature.generics;
    if let Some(token) = &signature.asyncness {
        return Err(Error::new(token.span(), ASYNC));
    }
    if !generics.params.is_empty() || generics.where_clause.is_some() {
        return Err(Error::new(generics.span(), GENERIC));
    }
    if signature.unsafety.is_some() || signature.abi.is_some() || signature.constness.is_some() {
        return Err(Error::new(signature.span(), "a remote method is a plain `fn`"));
    }
    if signature.variadic.is_some() {
        return Err(Error::new(
            signature.span(),
            "a remote method has a fixed number of arguments",
        ));
    }
    Ok(())
}

/// Whether there is a reference anywhere in a type.
pub(super) fn has_reference(ty: &Type) -> bool {
    fn any(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Punct(punct) => matches!(punct.as_char(), '&' | '\''),
            TokenTree::Group(group) => any(group.stream()),
            _ => false,
        })
    }
    any(quote::quote!(#ty))
}

/// A type as a person writes it.
pub(super) fn text(tokens: &TokenStream) -> String {
    let tokens = tokens.to_string();
    let mut text = String::with_capacity(tokens.len());
    let mut rest = tokens.chars().peekable();
    while let Some(next) = rest.next() {
        let before = text.chars().next_back();
        let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let keep = next != ' '
            || matches!(before, Some(',' | ';'))
            || joins(before) && joins(rest.peek().copied());
        if keep {
            text.push(next);
        }
    }
    text.replace(", )", ")").replace(",)", ")").replace("::core::result::", "")
}

const ASYNC: &str = "a remote method is not `async`: the caller chooses, by `stub.begin()`, and a method of the server may block";
const GENERIC: &str =
    "a remote method cannot be generic: both sides must know its types before it is called";
