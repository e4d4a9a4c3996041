//! What types are told of the connection.

use std::cell::RefCell;

use crate::{Describe, FromWire, Page, Reader, Stop, Wire, WireContext, WireSize, Writer, Written};

/// What the context says where it is written, and where it is read.
#[derive(Debug, PartialEq, Default)]
struct Told {
    there: u64,
    here: u64,
}

fn told(context: Option<&WireContext>) -> u64 {
    context.map_or(0, |c| c.node() + 10 * c.peer() + 100 * c.connection())
}

impl Wire for Told {
    const SIZE: WireSize = WireSize::at_least(8);
    fn describe(d: &mut Describe) {
        d.word("told");
    }
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        w.array(told(w.context()).to_le_bytes())
    }
}

impl<'a> FromWire<'a> for Told {
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        Ok(Self { there: u64::from_le_bytes(r.array()?), here: told(r.context()) })
    }
}

#[test]
fn every_part_of_a_value_sees_the_connection() {
    let (here, there) = (WireContext::new(1, 2, 3), WireContext::new(2, 1, 3));
    let value = (Told::default(), vec![RefCell::new(Told::default())], Box::new(Told::default()));
    let mut writer = Writer::new().with_context(&there);
    writer.write(&value).unwrap();
    writer.write_copy(&value).unwrap();
    let bytes = writer.to_vec();
    let mut reader = Reader::new(&bytes).with_context(&here);
    for _ in 0..2 {
        let told = || Told { there: 312, here: 321 };
        let expected = (told(), vec![RefCell::new(told())], Box::new(told()));
        assert_eq!(reader.read(), Ok(expected));
    }
}

#[test]
fn without_a_connection_there_is_none() {
    let pool = egret_net::buf::Pool::new(64, 1).unwrap();
    let mut page = Page::new(pool.take(64).unwrap());
    page.write(&Told::default()).unwrap();
    let buf = page.finish();
    assert_eq!(Reader::new(buf.bytes()).read_last(), Ok(Told::default()));
}
