//! A method of a remote trait, read and checked.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, GenericArgument, Ident, Pat, PathArguments, Receiver, Result,
    ReturnType, Signature, TraitItemFn, Type,
};

use super::signature::{has_reference, refuse_signature};

/// What the macro knows of a method.
pub(super) struct MacroMethod {
    pub(super) name: Ident,
    /// Its documentation, for the stub.
    pub(super) docs: Vec<Attribute>,
    pub(super) args: Vec<MethodArg>,
    pub(super) returns: MethodReturn,
    pub(super) is_exclusive: bool,
    pub(super) is_oneway: bool,
    pub(super) is_inline: bool,
}

/// An argument.
pub(super) struct MethodArg {
    pub(super) name: Ident,
    pub(super) ty: MethodArgType,
}

/// How an argument is passed.
pub(super) enum MethodArgType {
    /// `&[T]`, read in place.
    Slice(Type),
    /// `&str`, read in place.
    Text,
    /// `&T`, of which the server makes a value.
    Lent(Type),
    Value(Type),
}

/// What a method returns.
pub(super) enum MethodReturn {
    Value(TokenStream),
    Outcome(Box<(Type, Type)>),
}

impl MacroMethod {
    /// Reads a method, and takes the attributes out of it that are the macro's.
    pub(super) fn read(item: &mut TraitItemFn) -> Result<Self> {
        let is_oneway = take_attr(&mut item.attrs, "oneway");
        let is_inline = take_attr(&mut item.attrs, "nonblocking");
        refuse_signature(&item.sig)?;
        let is_exclusive = receiver(&item.sig)?.mutability.is_some();
        let returns = MethodReturn::read(&item.sig)?;
        if is_oneway && !matches!(item.sig.output, ReturnType::Default) {
            return Err(Error::new(item.sig.output.span(), ONEWAY_RETURNS));
        }
        let args: Vec<_> =
            item.sig.inputs.iter().skip(1).map(MethodArg::read).collect::<Result<_>>()?;
        if args.len() > ARGS_MAX {
            return Err(Error::new(item.sig.inputs.span(), TOO_MANY));
        }
        let docs = item.attrs.iter().filter(|attr| attr.path().is_ident("doc")).cloned();
        let (docs, name) = (docs.collect(), item.sig.ident.clone());
        Ok(Self { name, docs, args, returns, is_exclusive, is_oneway, is_inline })
    }

    /// The name as the other side knows it.
    pub(super) fn label(&self) -> String {
        self.name.unraw().to_string()
    }
}

impl MethodArg {
    fn read(arg: &FnArg) -> Result<Self> {
        let FnArg::Typed(arg) = arg else { return Err(Error::new(arg.span(), NO_SELF)) };
        let Pat::Ident(name) = &*arg.pat else {
            return Err(Error::new(arg.pat.span(), "an argument of a remote method has a name"));
        };
        let ty = MethodArgType::read(&arg.ty)?;
        Ok(Self { name: name.ident.clone(), ty })
    }
}

impl MethodArgType {
    fn read(ty: &Type) -> Result<Self> {
        let read = match ty {
            Type::Reference(reference) => {
                if reference.mutability.is_some() {
                    return Err(Error::new(ty.span(), MUTABLE));
                }
                if let Some(lifetime) = &reference.lifetime {
                    return Err(Error::new(lifetime.span(), LIFETIME));
                }
                match &*reference.elem {
                    Type::Slice(slice) => Self::Slice((*slice.elem).clone()),
                    Type::Path(path) if path.path.is_ident("str") => Self::Text,
                    elem => Self::Lent(elem.clone()),
                }
            }
            ty => Self::Value(ty.clone()),
        };
        if let Self::Slice(inner) | Self::Lent(inner) | Self::Value(inner) = &read {
            refuse_inner(inner)?;
        }
        Ok(read)
    }

    /// As the caller passes it, and waits.
    pub(super) fn passed(&self) -> TokenStream {
        match self {
            Self::Slice(elem) => quote!(&[#elem]),
            Self::Text => quote!(&str),
            Self::Lent(ty) => quote!(&#ty),
            Self::Value(ty) => quote!(#ty),
        }
    }

    /// As the caller gives it away.
    pub(super) fn owned(&self, root: &TokenStream) -> TokenStream {
        match self {
            Self::Slice(elem) => quote!(impl #root::rmi::Array<#elem>),
            Self::Text => quote!(::std::string::String),
            Self::Lent(ty) | Self::Value(ty) => quote!(#ty),
        }
    }

    /// As the server reads it, in words.
    pub(super) fn read_as(&self) -> TokenStream {
        match self {
            Self::Slice(elem) => quote!(&[#elem]),
            Self::Text => quote!(&str),
            Self::Lent(ty) | Self::Value(ty) => quote!(#ty),
        }
    }
}

impl MethodReturn {
    fn read(signature: &Signature) -> Result<Self> {
        let ReturnType::Type(_, ty) = &signature.output else {
            return Ok(Self::Value(quote!(())));
        };
        if has_reference(ty) {
            return Err(Error::new(ty.span(), RETURNS_REFERENCE));
        }
        if matches!(**ty, Type::ImplTrait(_) | Type::TraitObject(_) | Type::Never(_)) {
            return Err(Error::new(ty.span(), UNSUPPORTED));
        }
        let Type::Path(path) = &**ty else { return Ok(Self::Value(quote!(#ty))) };
        let Some(last) = path.path.segments.last().filter(|last| last.ident == "Result") else {
            return Ok(Self::Value(quote!(#ty)));
        };
        let PathArguments::AngleBracketed(inner) = &last.arguments else {
            return Err(Error::new(ty.span(), WHICH_RESULT));
        };
        let mut types = inner.args.iter().filter_map(|arg| match arg {
            GenericArgument::Type(ty) => Some(ty.clone()),
            _ => None,
        });
        match (types.next(), types.next()) {
            (Some(value), Some(error)) => Ok(Self::Outcome(Box::new((value, error)))),
            _ => Err(Error::new(ty.span(), WHICH_RESULT)),
        }
    }

    /// As its structure is told.
    pub(super) fn ty(&self) -> TokenStream {
        match self {
            Self::Value(ty) => ty.clone(),
            Self::Outcome(types) => {
                let (value, error) = &**types;
                quote!(::core::result::Result<#value, #error>)
            }
        }
    }
}

fn receiver(signature: &Signature) -> Result<&Receiver> {
    let receiver = signature.receiver().ok_or_else(|| Error::new(signature.span(), NO_SELF))?;
    if receiver.reference.is_none() || receiver.colon_token.is_some() {
        return Err(Error::new(receiver.span(), SELF_BY_VALUE));
    }
    Ok(receiver)
}

fn refuse_inner(ty: &Type) -> Result<()> {
    if matches!(ty, Type::ImplTrait(_) | Type::TraitObject(_)) {
        return Err(Error::new(ty.span(), UNSUPPORTED));
    }
    if has_reference(ty) {
        return Err(Error::new(ty.span(), INNER_REFERENCE));
    }
    Ok(())
}

/// Takes an attribute out; whether it was there.
fn take_attr(attrs: &mut Vec<Attribute>, name: &str) -> bool {
    let before = attrs.len();
    attrs.retain(|attr| !attr.path().is_ident(name));
    attrs.len() < before
}

/// As many as a tuple of a stream has.
const ARGS_MAX: usize = 12;
const TOO_MANY: &str = "a remote method has at most 12 arguments: put some into a struct";
const NO_SELF: &str =
    "a remote method is a method of an object: it begins with `&self` or `&mut self`";
const SELF_BY_VALUE: &str =
    "an object stays where it was exported: a remote method takes `&self` or `&mut self`";
const MUTABLE: &str =
    "an argument travels to the object and not back: take it by value, and return it";
const LIFETIME: &str =
    "an argument of a remote method lives as long as the call: leave the lifetime out";
const INNER_REFERENCE: &str = "a reference inside of an argument: only `&[T]`, `&str` and `&T` as a whole can be lent to a call";
const RETURNS_REFERENCE: &str =
    "a remote method cannot return a reference: what it points to stays at the server";
const UNSUPPORTED: &str =
    "a type without a structure of its own cannot travel: name one that implements `Wire`";
const WHICH_RESULT: &str =
    "which error is that? Write `Result<T, E>` out, so that the caller gets `CallError<E>`";
const ONEWAY_RETURNS: &str =
    "a caller does not wait for a `#[oneway]` method: it cannot return anything";
