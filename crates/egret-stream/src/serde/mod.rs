//! Types that have serde's traits and no others, by way of these: slower, since each
//! value is written and read by itself.
//!
//! ```
//! use egret_stream::{Reader, Serde, Wire, Writer};
//!
//! #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
//! struct Foreign {
//!     name: String,
//!     marks: Vec<u16>,
//! }
//!
//! #[derive(Wire)]
//! struct Ours {
//!     #[wire(with = egret_stream::serde)]
//!     foreign: Foreign,
//! }
//!
//! let value = Foreign { name: "x".into(), marks: vec![1, 2] };
//! let mut writer = Writer::new();
//! writer.write_copy(&Serde(value))?; // or wrapped
//! let message = writer.to_vec();
//! let ours: Ours = Reader::new(&message).read()?;
//! assert_eq!(ours.foreign.marks, [1, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod de;
mod ser;

use std::any::type_name;
use std::fmt;

use ::serde::{Deserialize, Serialize};

use crate::describe::Describe;
use crate::error::WireError;
use crate::reader::Reader;
use crate::wire::{FromWire, Stop, Wire, WireSize, Written};
use crate::writer::Writer;

/// Writes by serde's traits.
///
/// The [module](self) has an example.
///
/// # Errors
///
/// The writer knows why.
pub fn write<T: Serialize>(value: &T, w: &mut Writer<'_>) -> Written {
    value.serialize(ser::Ser(w)).map_err(|error| match error {
        SerdeError::Stop(stop) => stop,
        SerdeError::Custom(why) => w.fail(WireError::Custom(why)),
    })
}

/// Reads by serde's traits.
///
/// The [module](self) has an example.
///
/// # Errors
///
/// The reader knows why.
pub fn read<'a, T: Deserialize<'a>>(r: &mut Reader<'a>) -> Result<T, Stop> {
    T::deserialize(de::De(r)).map_err(|error| match error {
        SerdeError::Stop(stop) => stop,
        SerdeError::Custom(why) => r.fail(WireError::Custom(why)),
    })
}

/// The structure is not known: the type's name stands for it.
/// The [module](self) has an example.
pub fn describe<T>(d: &mut Describe) {
    d.word(&format!("serde {}", type_name::<T>()));
}

/// A value that travels by serde's traits.
/// The [module](self) has an example.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serde<T>(pub T);

impl<T: Serialize> Wire for Serde<T> {
    const SIZE: WireSize = WireSize::at_least(0);
    fn describe(d: &mut Describe) {
        describe::<T>(d);
    }
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        write(&self.0, w)
    }
}

impl<'a, T: Serialize + Deserialize<'a>> FromWire<'a> for Serde<T> {
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        read(r).map(Self)
    }
}

/// Why serde stopped.
#[derive(Debug)]
enum SerdeError {
    Stop(Stop),
    Custom(String),
}

impl From<Stop> for SerdeError {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl fmt::Display for SerdeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stop(_) => f.write_str("stopped"),
            Self::Custom(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for SerdeError {}

impl ::serde::ser::Error for SerdeError {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self::Custom(why.to_string())
    }
}

impl ::serde::de::Error for SerdeError {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self::Custom(why.to_string())
    }
}

/// What serde calls a variant is its number.
type VariantTag = u32;
