//! Writing for serde.

use ::serde::ser::{self, Serialize};

use super::{SerdeError, VariantTag};
use crate::error::WireError;
use crate::writer::Writer;

/// A serializer into a stream.
pub(super) struct Ser<'s, 'w>(pub(super) &'s mut Writer<'w>);

type SerdeResult = Result<(), SerdeError>;

impl<'s, 'w> Ser<'s, 'w> {
    fn put<const N: usize>(self, bytes: [u8; N]) -> SerdeResult {
        Ok(self.0.array(bytes)?)
    }

    fn copy(self, bytes: &[u8]) -> SerdeResult {
        self.0.length(bytes.len())?;
        Ok(self.0.copy(bytes)?)
    }

    fn inner<T: Serialize + ?Sized>(self, value: &T) -> SerdeResult {
        self.0.nested::<T, SerdeError>(|w| value.serialize(Ser(w)))
    }

    fn tag(self, variant: VariantTag) -> Result<Self, SerdeError> {
        self.0.array(variant.to_le_bytes())?;
        Ok(self)
    }

    fn counted(self, len: Option<usize>) -> Result<Self, SerdeError> {
        let Some(len) = len else { return Err(self.0.fail(WireError::NoLength).into()) };
        self.0.length(len)?;
        Ok(self)
    }
}

macro_rules! numbers {
    ($($method:ident $type:ident)*) => {$(
        fn $method(self, value: $type) -> SerdeResult {
            self.put(value.to_le_bytes())
        }
    )*};
}

impl ser::Serializer for Ser<'_, '_> {
    type Ok = ();
    type Error = SerdeError;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    numbers!(serialize_i8 i8 serialize_i16 i16 serialize_i32 i32 serialize_i64 i64
        serialize_i128 i128 serialize_u8 u8 serialize_u16 u16 serialize_u32 u32
        serialize_u64 u64 serialize_u128 u128 serialize_f32 f32 serialize_f64 f64);

    fn serialize_bool(self, value: bool) -> SerdeResult {
        self.put([u8::from(value)])
    }
    fn serialize_char(self, value: char) -> SerdeResult {
        self.put(u32::from(value).to_le_bytes())
    }
    fn serialize_str(self, value: &str) -> SerdeResult {
        self.copy(value.as_bytes())
    }
    fn serialize_bytes(self, value: &[u8]) -> SerdeResult {
        self.copy(value)
    }
    fn serialize_none(self) -> SerdeResult {
        self.put([0])
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> SerdeResult {
        self.0.array([1])?;
        self.inner(value)
    }
    fn serialize_unit(self) -> SerdeResult {
        Ok(())
    }
    fn serialize_unit_struct(self, _: &'static str) -> SerdeResult {
        Ok(())
    }
    fn serialize_unit_variant(self, _: &'static str, tag: u32, _: &'static str) -> SerdeResult {
        self.tag(tag).map(drop)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> SerdeResult {
        self.inner(value)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        tag: u32,
        _: &'static str,
        value: &T,
    ) -> SerdeResult {
        self.tag(tag)?.inner(value)
    }
    fn serialize_seq(self, len: Option<usize>) -> Result<Self, SerdeError> {
        self.counted(len)
    }
    fn serialize_tuple(self, _: usize) -> Result<Self, SerdeError> {
        Ok(self)
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, SerdeError> {
        Ok(self)
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        tag: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, SerdeError> {
        self.tag(tag)
    }
    fn serialize_map(self, len: Option<usize>) -> Result<Self, SerdeError> {
        self.counted(len)
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, SerdeError> {
        Ok(self)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        tag: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, SerdeError> {
        self.tag(tag)
    }
    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The parts of something, one after the other. An element of a sequence or a map
/// takes a byte of its own before it: serde does not say how small it may be.
macro_rules! parts {
    ($($trait:ident $method:ident $mark:expr;)*) => {$(
        impl ser::$trait for Ser<'_, '_> {
            type Ok = ();
            type Error = SerdeError;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> SerdeResult {
                let mark: &[u8] = $mark;
                self.0.claim(mark.len())?.copy_from_slice(mark);
                Ser(self.0).inner(value)
            }
            fn end(self) -> SerdeResult {
                Ok(())
            }
        }
    )*};
}

parts! {
    SerializeSeq serialize_element &[0];
    SerializeTuple serialize_element &[];
    SerializeTupleStruct serialize_field &[];
    SerializeTupleVariant serialize_field &[];
}

impl ser::SerializeMap for Ser<'_, '_> {
    type Ok = ();
    type Error = SerdeError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> SerdeResult {
        self.0.array([0])?;
        Ser(self.0).inner(key)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> SerdeResult {
        Ser(self.0).inner(value)
    }
    fn end(self) -> SerdeResult {
        Ok(())
    }
}

macro_rules! fields {
    ($($trait:ident)*) => {$(
        impl ser::$trait for Ser<'_, '_> {
            type Ok = ();
            type Error = SerdeError;
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                _: &'static str,
                value: &T,
            ) -> SerdeResult {
                Ser(self.0).inner(value)
            }
            fn end(self) -> SerdeResult {
                Ok(())
            }
        }
    )*};
}

fields!(SerializeStruct SerializeStructVariant);
