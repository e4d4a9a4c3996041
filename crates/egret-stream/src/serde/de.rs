//! Reading for serde.

use std::borrow::Cow;

use ::serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};

use super::{SerdeError, VariantTag};
use crate::error::Invalid;
use crate::reader::Reader;
use crate::wire::FromWire;

/// A deserializer out of a stream.
pub(super) struct De<'s, 'a>(pub(super) &'s mut Reader<'a>);

impl<'a> De<'_, 'a> {
    /// Visits something with parts, one level deeper. Nobody says whether what comes of it will
    /// lie in a box, so its memory is charged as if it did.
    fn inner<V: Visitor<'a>>(
        self,
        visitor: V,
        visit: impl FnOnce(V, &mut Reader<'a>) -> Result<V::Value, SerdeError>,
    ) -> Result<V::Value, SerdeError> {
        self.0.charge::<V::Value>(size_of::<V::Value>())?;
        self.0.nested::<V::Value, _, SerdeError>(|r| visit(visitor, r))
    }

    fn parts<V: Visitor<'a>>(self, len: usize, visitor: V) -> Result<V::Value, SerdeError> {
        self.inner(visitor, |visitor, r| {
            visitor.visit_seq(ElementsLeft { r, left: len, is_marked: false })
        })
    }

    fn refuse<T>(self) -> Result<T, SerdeError> {
        Err(SerdeError::Custom("a type that wants to be told what comes cannot be read".to_owned()))
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $type:ty;)*) => {$(
        fn $method<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, SerdeError> {
            let value = <$type>::read(self.0)?;
            visitor.$visit(value)
        }
    )*};
}

impl<'a> de::Deserializer<'a> for De<'_, 'a> {
    type Error = SerdeError;

    numbers! {
        deserialize_bool visit_bool bool;
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_i128 visit_i128 i128;
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_u128 visit_u128 u128;
        deserialize_f32 visit_f32 f32;
        deserialize_f64 visit_f64 f64;
        deserialize_char visit_char char;
        deserialize_string visit_string String;
    }

    fn deserialize_any<V: Visitor<'a>>(self, _: V) -> Result<V::Value, SerdeError> {
        self.refuse()
    }
    fn deserialize_ignored_any<V: Visitor<'a>>(self, _: V) -> Result<V::Value, SerdeError> {
        self.refuse()
    }
    fn deserialize_identifier<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        self.deserialize_u32(visitor)
    }
    fn deserialize_str<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        match Cow::<'a, str>::read(self.0)? {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }
    fn deserialize_bytes<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        match Cow::<'a, [u8]>::read(self.0)? {
            Cow::Borrowed(bytes) => visitor.visit_borrowed_bytes(bytes),
            Cow::Owned(bytes) => visitor.visit_byte_buf(bytes),
        }
    }
    fn deserialize_byte_buf<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        visitor.visit_byte_buf(Vec::read(self.0)?)
    }
    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        match self.0.array()? {
            [0] => {
                self.0.charge::<V::Value>(size_of::<V::Value>())?;
                visitor.visit_none()
            }
            [1] => self.inner(visitor, |visitor, r| visitor.visit_some(De(r))),
            _ => Err(self.0.fail(Invalid::new("option")).into()),
        }
    }
    fn deserialize_unit<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        visitor.visit_unit()
    }
    fn deserialize_unit_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        visitor.visit_unit()
    }
    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.inner(visitor, |visitor, r| visitor.visit_newtype_struct(De(r)))
    }
    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        let left = self.0.length(1)?;
        self.inner(visitor, |visitor, r| {
            visitor.visit_seq(ElementsLeft { r, left, is_marked: true })
        })
    }
    fn deserialize_tuple<V: Visitor<'a>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.parts(len, visitor)
    }
    fn deserialize_tuple_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.parts(len, visitor)
    }
    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        let left = self.0.length(1)?;
        self.inner(visitor, |visitor, r| {
            visitor.visit_map(ElementsLeft { r, left, is_marked: true })
        })
    }
    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.parts(fields.len(), visitor)
    }
    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.inner(visitor, |visitor, r| visitor.visit_enum(De(r)))
    }
    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The parts that are left of something.
struct ElementsLeft<'s, 'a> {
    r: &'s mut Reader<'a>,
    left: usize,
    /// Whether a byte stands before each.
    is_marked: bool,
}

impl<'a> ElementsLeft<'_, 'a> {
    /// Charges the memory of an element. The collection of them may have room for as many again.
    fn charge<T>(&mut self) -> Result<(), SerdeError> {
        Ok(self.r.charge::<T>(2 * size_of::<T>())?)
    }

    fn next<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, SerdeError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        if self.is_marked && self.r.array()? != [0] {
            return Err(self.r.fail(Invalid::new("element")).into());
        }
        if self.is_marked {
            self.charge::<T::Value>()?;
        }
        seed.deserialize(De(self.r)).map(Some)
    }
}

impl<'a> de::SeqAccess<'a> for ElementsLeft<'_, 'a> {
    type Error = SerdeError;
    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, SerdeError> {
        self.next(seed)
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'a> de::MapAccess<'a> for ElementsLeft<'_, 'a> {
    type Error = SerdeError;
    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, SerdeError> {
        self.next(seed)
    }
    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, SerdeError> {
        self.charge::<V::Value>()?;
        seed.deserialize(De(self.r))
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'s, 'a> de::EnumAccess<'a> for De<'s, 'a> {
    type Error = SerdeError;
    type Variant = De<'s, 'a>;
    fn variant_seed<V: DeserializeSeed<'a>>(self, seed: V) -> Result<(V::Value, Self), SerdeError> {
        let tag = VariantTag::read(self.0)?;
        let tag: de::value::U32Deserializer<SerdeError> = tag.into_deserializer();
        Ok((seed.deserialize(tag)?, self))
    }
}

impl<'a> de::VariantAccess<'a> for De<'_, 'a> {
    type Error = SerdeError;
    fn unit_variant(self) -> Result<(), SerdeError> {
        Ok(())
    }
    fn newtype_variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, SerdeError> {
        seed.deserialize(self)
    }
    fn tuple_variant<V: Visitor<'a>>(self, len: usize, visitor: V) -> Result<V::Value, SerdeError> {
        self.parts(len, visitor)
    }
    fn struct_variant<V: Visitor<'a>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.parts(fields.len(), visitor)
    }
}
