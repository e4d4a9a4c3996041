//! `#[wire(plain)]`: a struct that travels as its bytes, aligned.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Ident};

use crate::wire_attr::WireSettings;

/// The implementations for a plain struct.
pub(crate) fn plain(input: &DeriveInput, container: &WireSettings) -> TokenStream {
    let (name, stream) = (&input.ident, &container.stream);
    let (writing, reading) = (writing(name, stream), reading(name, stream));
    quote! {
        #writing
        #reading
        #[automatically_derived]
        impl #stream::Bulk for #name {}
        #[automatically_derived]
        impl #stream::InPlace for #name {}
    }
}

fn writing(name: &Ident, stream: &TokenStream) -> TokenStream {
    quote! {
        #[automatically_derived]
        impl #stream::Wire for #name {
            const SIZE: #stream::WireSize = #stream::WireSize::at_least(::core::mem::size_of::<Self>());
            fn describe(d: &mut #stream::Describe) {
                d.plain::<Self>();
            }
            #[inline]
            fn write<'__w>(&'__w self, w: &mut #stream::Writer<'__w>) -> #stream::Written {
                w.bulk(::core::slice::from_ref(self))
            }
            #[inline(always)]
            fn write_short_list(slice: &[Self], room: &mut #stream::ShortWriter<'_>) -> bool {
                room.list(slice)
            }
            #[inline]
            fn write_list<'__w>(
                slice: &'__w [Self],
                w: &mut #stream::Writer<'__w>,
            ) -> #stream::Written {
                w.list(slice)
            }
            #[inline]
            fn give_vec(
                vec: &mut ::std::vec::Vec<Self>,
                w: &mut #stream::Writer<'static>,
            ) -> #stream::Written {
                #stream::__private::give_vec(vec, w)
            }
            #[inline]
            fn give_elements(
                arc: &::std::sync::Arc<[Self]>,
                w: &mut #stream::Writer<'static>,
            ) -> #stream::Written {
                #stream::__private::give_elements(arc, w)
            }
        }
    }
}

fn reading(name: &Ident, stream: &TokenStream) -> TokenStream {
    quote! {
        #[automatically_derived]
        impl<'__a> #stream::FromWire<'__a> for #name {
            #[inline]
            fn read(
                r: &mut #stream::Reader<'__a>,
            ) -> ::core::result::Result<Self, #stream::Stop> {
                r.plain()
            }
            #[inline(always)]
            fn read_short_list(
                rest: &mut #stream::ShortReader<'__a>,
            ) -> ::core::option::Option<::std::vec::Vec<Self>> {
                rest.list().map(<[Self]>::to_vec)
            }
            #[inline]
            fn read_list(
                r: &mut #stream::Reader<'__a>,
            ) -> ::core::result::Result<::std::vec::Vec<Self>, #stream::Stop> {
                r.list()
            }
            #[inline]
            fn read_cow(
                r: &mut #stream::Reader<'__a>,
            ) -> ::core::result::Result<::std::borrow::Cow<'__a, [Self]>, #stream::Stop> {
                #stream::__private::read_cow(r)
            }
        }
    }
}
