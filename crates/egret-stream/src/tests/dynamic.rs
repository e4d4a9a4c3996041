//! Objects of which only a trait is known.

use std::rc::Rc;
use std::sync::Arc;

use super::{at_every_split, bytes_of};
use crate::dynamic::{Names, add};
use crate::{Dynamic, Reader, Wire, WireError, Writer, dynamic, entry, register};

pub(super) trait Shape: Dynamic {
    fn area(&self) -> u32;
}

pub(super) trait Animal: Dynamic {}

dynamic!(Shape, Animal);

#[derive(Wire)]
pub(super) struct Square(pub(super) u32);
#[derive(Wire)]
struct Box2 {
    width: u32,
    heights: Vec<u32>,
}
#[derive(Wire)]
struct Group(Vec<Box<dyn Shape>>);
/// Registered as an animal only.
#[derive(Wire)]
pub(super) struct Cat(pub(super) u8);
/// Registered nowhere at first.
#[derive(Wire)]
struct Late(u8);

impl Shape for Square {
    fn area(&self) -> u32 {
        self.0 * self.0
    }
}
impl Shape for Box2 {
    fn area(&self) -> u32 {
        self.heights.iter().map(|height| height * self.width).sum()
    }
}
impl Shape for Group {
    fn area(&self) -> u32 {
        self.0.iter().map(|shape| shape.area()).sum()
    }
}
impl Shape for Cat {
    fn area(&self) -> u32 {
        0
    }
}
impl Shape for Late {
    fn area(&self) -> u32 {
        self.0.into()
    }
}
impl Animal for Cat {}

register!(Square as dyn Shape, Box2 as dyn Shape, Group as dyn Shape, Cat as dyn Animal);

fn shapes() -> Vec<Box<dyn Shape>> {
    let inner: Vec<Box<dyn Shape>> = vec![Box::new(Square(2)), Box::new(Square(3))];
    vec![
        Box::new(Square(1)),
        Box::new(Box2 { width: 2, heights: vec![3, 4] }),
        Box::new(Group(inner)),
    ]
}

fn areas(shapes: &[Box<dyn Shape>]) -> Vec<u32> {
    shapes.iter().map(|shape| shape.area()).collect()
}

#[test]
fn objects_come_back_as_what_they_were() {
    at_every_split(&bytes_of(&shapes()), |read: Result<Vec<Box<dyn Shape>>, _>| {
        assert_eq!(areas(&read.unwrap()), [1, 14, 13]);
    });
}

#[test]
fn objects_are_shared() {
    let one: Rc<dyn Shape> = Rc::new(Square(5));
    let (a, b): (Rc<dyn Shape>, Rc<dyn Shape>) =
        Reader::new(&bytes_of(&(Rc::clone(&one), one))).read_last().unwrap();
    assert!(Rc::ptr_eq(&a, &b) && a.area() == 25);
    let one: Arc<dyn Shape> = Arc::new(Square(6));
    let read: Vec<Arc<dyn Shape>> =
        Reader::new(&bytes_of(&vec![Arc::clone(&one), one])).read_last().unwrap();
    assert!(Arc::ptr_eq(&read[0], &read[1]) && read[1].area() == 36);
}

#[test]
fn a_type_is_explained_once_in_a_stream() {
    let many = |count| -> Vec<Box<dyn Shape>> {
        (0..count).map(|side| Box::new(Square(side)) as Box<dyn Shape>).collect()
    };
    let (one, ten) = (bytes_of(&many(1)).len(), bytes_of(&many(10)).len());
    assert_eq!(ten - one, 9 * (4 + 4), "a number and a side each");
}

/// Two ends of a connection.
fn connected() -> (Names, Names) {
    (Names::new(), Names::new())
}

/// Sends `shapes`: the message, with the news before it.
fn send(names: &mut Names, shapes: &Vec<Box<dyn Shape>>) -> (Option<Vec<u8>>, Vec<u8>) {
    let mut writer = Writer::new().with_names(std::mem::take(names));
    writer.write(shapes).unwrap();
    let message = writer.to_vec();
    *names = writer.take_names().unwrap();
    (names.news(), message)
}

fn receive(names: &mut Names, message: &[u8]) -> Result<Vec<Box<dyn Shape>>, WireError> {
    let mut reader = Reader::new(message).with_names(std::mem::take(names));
    let read = reader.read_last();
    *names = reader.take_names().unwrap();
    read
}

#[test]
fn names_cross_a_connection_once() {
    let (mut here, mut there) = connected();
    let (news, message) = send(&mut here, &shapes());
    there.learn(&news.unwrap()).unwrap();
    assert_eq!(areas(&receive(&mut there, &message).unwrap()), [1, 14, 13]);
    let (news, again) = send(&mut here, &shapes());
    assert_eq!((news, &again), (None, &message), "nothing to tell");
    assert_eq!(areas(&receive(&mut there, &again).unwrap()), [1, 14, 13]);
}

#[test]
fn an_unknown_type_is_named_and_the_connection_survives() {
    #[derive(Wire)]
    struct Stranger(u8);
    impl Shape for Stranger {
        fn area(&self) -> u32 {
            self.0.into()
        }
    }
    let (mut here, mut there) = connected();
    // The number of the second type is learned though the first stops the message.
    let odd: Vec<Box<dyn Shape>> = vec![Box::new(Stranger(1)), Box::new(Square(2))];
    let (news, message) = send(&mut here, &odd);
    there.learn(&news.unwrap()).unwrap();
    let error = receive(&mut there, &message).err().unwrap();
    assert!(
        matches!(&error, WireError::UnknownType(name) if name.ends_with("Stranger")),
        "{error}"
    );
    let (news, message) = send(&mut here, &vec![Box::new(Square(2))]);
    assert_eq!(news, None);
    assert_eq!(areas(&receive(&mut there, &message).unwrap()), [4]);
}

#[test]
fn a_type_that_is_not_of_the_trait_is_an_error() {
    let animal: Box<dyn Animal> = Box::new(Cat(9));
    let bytes = bytes_of(&animal);
    assert!(Reader::new(&bytes).read::<Box<dyn Animal>>().is_ok());
    let error = Reader::new(&bytes).read::<Box<dyn Shape>>().err().unwrap();
    let expected = "type `egret_stream::tests::dynamic::Cat` is not registered as \
                    `dyn egret_stream::tests::dynamic::Shape`";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn types_can_be_added_at_run_time() {
    let late: Box<dyn Shape> = Box::new(Late(3));
    let bytes = bytes_of(&late);
    let error = Reader::new(&bytes).read::<Box<dyn Shape>>().err().unwrap();
    assert!(matches!(error, WireError::UnknownType(_)), "{error}");
    add(entry!(Late as dyn Shape));
    assert_eq!(Reader::new(&bytes).read::<Box<dyn Shape>>().unwrap().area(), 3);
}

#[test]
fn another_structure_of_the_same_name_is_an_error() {
    another_structure_is_refused();
}

/// Reads a type whose fingerprint is another one.
pub(super) fn another_structure_is_refused() {
    let square: Box<dyn Shape> = Box::new(Square(3));
    let mut bytes = bytes_of(&square);
    bytes[4] ^= 1; // The fingerprint stands behind the number.
    let error = Reader::new(&bytes).read::<Box<dyn Shape>>().err().unwrap();
    assert!(matches!(error, WireError::Differs { .. }), "{error}");
}

/// As `Square`, from a program where it is another one.
#[test]
fn the_error_tells_the_first_difference() {
    let (mut here, mut there) = connected();
    let (news, message) = send(&mut here, &vec![Box::new(Square(2))]);
    let mut news: Vec<(u32, u64, String, String)> = crate::read(&news.unwrap()).unwrap();
    assert_eq!(news[0].3, "struct Square\n  0: u32\n");
    news[0].3 = news[0].3.replace("u32", "i64");
    news[0].1 ^= 1;
    there.learn(&bytes_of(&news)).unwrap();
    let error = receive(&mut there, &message).err().unwrap();
    let expected = "type `egret_stream::tests::dynamic::Square` differs: \
                    Square.0: here it is `u32`, there `i64`";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn names_that_do_not_follow_are_refused() {
    let (mut here, mut there) = connected();
    let (news, message) = send(&mut here, &shapes());
    let news = news.unwrap();
    assert_eq!(receive(&mut there, &message).err(), Some(WireError::NoSuchType(0)));
    there.learn(&news).unwrap();
    assert!(there.learn(&news).is_err(), "they were told already");
    assert!(Names::new().learn(&[255; 8]).is_err());
}

#[test]
fn a_value_that_does_not_fit_explains_nothing() {
    let pool = egret_net::buf::Pool::new(200, 1).unwrap();
    let mut page = crate::Page::new(pool.take(200).unwrap());
    let one: Vec<Box<dyn Shape>> = vec![Box::new(Square(1))];
    let large: (Vec<Box<dyn Shape>>, Vec<u8>) = (shapes(), vec![0; 4000]);
    assert!(page.write(&large).is_err());
    page.write(&one).unwrap();
    let buf = page.finish();
    let read: Vec<Box<dyn Shape>> = Reader::new(buf.bytes()).read_last().unwrap();
    assert_eq!(areas(&read), [1]);
}

fn area(names: &mut Names, message: &[u8]) -> Result<Vec<u32>, WireError> {
    receive(names, message).map(|shapes| areas(&shapes))
}

#[test]
fn in_order_the_first_message_explains() {
    let (mut here, mut there) = (Names::in_order(), Names::in_order());
    let (news, first) = send(&mut here, &shapes());
    let (_, second) = send(&mut here, &shapes());
    assert!(news.is_none(), "the message has it");
    assert!(first.len() > second.len() + 3 * 60, "three names and structures");
    assert_eq!(area(&mut there, &second), Err(WireError::NoSuchType(0)), "it came first");
    assert_eq!(area(&mut there, &first).unwrap(), [1, 14, 13]);
    assert_eq!(area(&mut there, &second).unwrap(), [1, 14, 13]);

    // A receiver that comes later, and one that missed a message.
    for mut late in [Names::in_order(), Names::new()] {
        late.learn(&here.table()).unwrap();
        assert_eq!(area(&mut late, &second).unwrap(), [1, 14, 13]);
    }
}

#[test]
fn in_order_a_value_that_was_not_written_explains_nothing() {
    let cell = std::cell::RefCell::new(1_u8);
    let borrowed = cell.borrow_mut();
    let value = (shapes(), &cell);
    let one: Vec<Box<dyn Shape>> = vec![Box::new(Square(1))];
    let (mut here, mut there) = (Names::in_order(), Names::in_order());
    let mut writer = Writer::new().with_names(here);
    assert!(writer.write(&value).is_err());
    writer.write(&one).unwrap();
    writer.clear();
    assert_eq!(writer.take_names().map(|names| names.len()), Some(0), "none of it is sent");
    here = Names::in_order();
    let mut writer = Writer::new().with_names(here);
    assert!(writer.write(&value).is_err());
    writer.write(&one).unwrap();
    assert_eq!(area(&mut there, &writer.to_vec()).unwrap(), [1]);
    drop(borrowed);

    // What a flushing writer handed over of a value that failed may explain a number otherwise.
    let (_, first) = send(&mut Names::in_order(), &vec![Box::new(Cat(1)), Box::new(Square(2))]);
    assert!(area(&mut there, &first).is_err(), "a cat is no shape");
    let (_, again) = send(&mut Names::in_order(), &vec![Box::new(Square(3))]);
    assert_eq!(area(&mut there, &again).unwrap(), [9]);
}

/// Sends until the other side has said that it knows, over a connection that loses and overtakes.
pub(super) fn numbers_stand_alone_once_acknowledged() {
    let square = || -> Vec<Box<dyn Shape>> { vec![Box::new(Square(2)), Box::new(Square(3))] };
    let (mut here, mut there) = (Names::until_acknowledged(), Names::until_acknowledged());
    let (_, lost) = send(&mut here, &vec![Box::new(Box2 { width: 1, heights: vec![1] })]);
    let (_, first) = send(&mut here, &square());
    let (_, second) = send(&mut here, &square());
    assert_eq!(first, second, "each can be read by itself");
    assert_eq!(area(&mut there, &second).unwrap(), [4, 9], "the second type, and never the first");
    assert_eq!(area(&mut there, &first).unwrap(), [4, 9]);
    let count = here.len();
    here.acknowledge(count);
    let (_, bare) = send(&mut here, &square());
    assert_eq!(bare.len(), 4 + 2 * (4 + 4));
    assert_eq!(area(&mut there, &bare).unwrap(), [4, 9]);
    assert_eq!(area(&mut there, &lost).unwrap(), [1], "late");
}

#[test]
fn a_connection_that_loses_messages_has_names_in_each() {
    numbers_stand_alone_once_acknowledged();
    let hostile = [&[1, 0, 0, 0][..], &u32::MAX.to_le_bytes(), &[0; 100]].concat();
    let error = area(&mut Names::until_acknowledged(), &hostile).unwrap_err();
    assert_eq!(error.to_string(), "names of too many types");
}

/// As `Square` was: its side as a name, and a note.
#[test]
fn an_object_of_another_version_is_read_by_a_plan() {
    let name = std::any::type_name::<Square>();
    let schema = "struct Square\n  note: string\n  0: u32\n";
    let table: Vec<(u32, u64, &str, &str)> = vec![(0, 1, name, schema)];
    let mut there = Names::in_order();
    there.learn(&bytes_of(&table)).unwrap();
    let message = bytes_of(&vec![(0_u32, "old", 5_u32), (0, "older", 6)]);
    assert_eq!(area(&mut there, &message).unwrap(), [25, 36]);
    let shared = bytes_of(&(0_u32, 0_u32, "old", 5_u32, 1_u32));
    let read: (Rc<dyn Shape>, Rc<dyn Shape>) =
        Reader::new(&shared).with_names(there).read_last().unwrap();
    assert!(Rc::ptr_eq(&read.0, &read.1) && read.0.area() == 25);
}
