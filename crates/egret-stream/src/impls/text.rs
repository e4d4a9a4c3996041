//! Strings and paths.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use egret_net::vi::Segment;

use crate::describe::Describe;
use crate::error::WireError;
use crate::reader::Reader;
use crate::wire::{Boxed, FromWire, Stop, Wire, WireSize, Written};
use crate::writer::{ShortWriter, Writer};

impl Wire for str {
    const SIZE: WireSize = WireSize::at_least(4);
    fn describe(d: &mut Describe) {
        d.word("string");
    }
    #[inline]
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        w.list(self.as_bytes())
    }
    #[inline(always)]
    fn write_short(&self, room: &mut ShortWriter<'_>) -> bool {
        room.list(self.as_bytes())
    }
}

impl Wire for String {
    const SIZE: WireSize = WireSize::at_least(4);
    fn describe(d: &mut Describe) {
        str::describe(d);
    }
    #[inline]
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        self.as_str().write(w)
    }
    #[inline(always)]
    fn write_short(&self, room: &mut ShortWriter<'_>) -> bool {
        self.as_str().write_short(room)
    }
    fn give(&mut self, w: &mut Writer<'static>) -> Written {
        if !w.keeps(self.len()) {
            return w.copied(|w| self.as_str().write(w));
        }
        let bytes = std::mem::take(self).into_bytes();
        w.length(bytes.len())?;
        w.keep::<u8>(bytes.len(), Segment::from(bytes))
    }
    fn blank() -> Option<Self> {
        Some(Self::new())
    }
}

impl<'a> FromWire<'a> for String {
    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        let len = r.length(1)?;
        match r.whole(len)? {
            Some(bytes) => checked(r, bytes).map(str::to_owned),
            None => joined(r, len),
        }
    }
}

/// A string that lies in two chunks.
#[cold]
fn joined(r: &mut Reader<'_>, len: usize) -> Result<String, Stop> {
    String::from_utf8(r.bulk(len)?).map_err(|_| r.fail(WireError::NotUtf8))
}

#[inline]
fn checked<'a>(r: &mut Reader<'_>, bytes: &'a [u8]) -> Result<&'a str, Stop> {
    str::from_utf8(bytes).map_err(|_| r.fail(WireError::NotUtf8))
}

impl<'a: 'b, 'b> FromWire<'a> for &'b str {
    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        let len = r.length(1)?;
        match r.whole(len)? {
            Some(bytes) => checked(r, bytes),
            None => Err(r.fail(WireError::Split("a string"))),
        }
    }
}

impl<'a: 'b, 'b> FromWire<'a> for Cow<'b, str> {
    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        let len = r.length(1)?;
        match r.whole(len)? {
            Some(bytes) => checked(r, bytes).map(Cow::Borrowed),
            None => joined(r, len).map(Cow::Owned),
        }
    }
}

impl<'a> Boxed<'a> for str {
    fn read_box(r: &mut Reader<'a>) -> Result<Box<Self>, Stop> {
        String::read(r).map(String::into_boxed_str)
    }
    fn read_rc(r: &mut Reader<'a>, _: usize) -> Result<Rc<Self>, Stop> {
        String::read(r).map(Into::into)
    }
    fn read_arc(r: &mut Reader<'a>, _: usize) -> Result<Arc<Self>, Stop> {
        String::read(r).map(Into::into)
    }
}

macro_rules! system_strings {
    ($($owned:ident $borrowed:ident $name:literal)*) => {$(
        impl Wire for $borrowed {
            const SIZE: WireSize = WireSize::at_least(4);
            fn describe(d: &mut Describe) {
                d.word($name);
            }
            fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
                let system: &OsStr = self.as_ref();
                w.list(system.as_bytes())
            }
        }
        impl Wire for $owned {
            const SIZE: WireSize = WireSize::at_least(4);
            fn describe(d: &mut Describe) {
                d.word($name);
            }
            fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
                let borrowed: &$borrowed = self.as_ref();
                borrowed.write(w)
            }
            fn blank() -> Option<Self> {
                Some(Self::default())
            }
        }
        impl<'a> FromWire<'a> for $owned {
            fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
                let len = r.length(1)?;
                Ok(OsString::from_vec(r.bulk(len)?).into())
            }
        }
    )*};
}

system_strings!(PathBuf Path "path" OsString OsStr "system string");
