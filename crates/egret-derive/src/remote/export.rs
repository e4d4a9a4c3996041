//! `#[remote] impl Grid for Board`: a board is exported as a grid.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Error, ItemImpl, Result};

/// The implementation as it is, and what it is exported as.
pub(super) fn expand(root: &TokenStream, item: &ItemImpl) -> Result<TokenStream> {
    let Some((None, interface, _)) = &item.trait_ else {
        return Err(Error::new(item.self_ty.span(), NO_TRAIT));
    };
    let (generics, _, bounds) = item.generics.split_for_impl();
    let ty = &item.self_ty;
    Ok(quote! {
        #item
        #[automatically_derived]
        impl #generics #root::rmi::Exports<dyn #interface> for #ty #bounds {
            fn held(self) -> #root::rmi::__private::HeldObject<dyn #interface> {
                let object: ::std::boxed::Box<dyn #interface> = ::std::boxed::Box::new(self);
                ::core::convert::From::from(object)
            }
            fn shared(this: ::std::sync::Arc<Self>) -> ::std::sync::Arc<dyn #interface> {
                this
            }
        }
    })
}

const NO_TRAIT: &str = "`#[remote]` needs the trait that this implements: `impl Grid for Board`";
