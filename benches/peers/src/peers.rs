//! One payload, five ways.

use std::cell::RefCell;
use std::hint::black_box;

use bincode::config::{Configuration, Fixint, LittleEndian};
use bincode::{Decode, Encode};
use egret_net::buf::{Buf, Pool};
use egret_stream::{FromWire, Reader, Wire, Writer};
use rkyv::api::high::{HighDeserializer, HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use serde::Serialize;
use serde::de::DeserializeOwned;
use speedy::{Readable, Writable};

use crate::measure::{Round, medians};

/// As it is fastest.
pub const BINCODE: Configuration<LittleEndian, Fixint> =
    bincode::config::standard().with_fixed_int_encoding();

/// Times of writing and of reading: egret's list and its bytes in a slice, bincode,
/// speedy, postcard, rkyv.
pub fn compare<T>(value: T) -> [[f64; 6]; 2]
where
    T: Wire + for<'a> FromWire<'a> + Encode + Decode<()> + Serialize + DeserializeOwned,
    T: for<'a> Readable<'a, speedy::LittleEndian> + Writable<speedy::LittleEndian>,
    T: rkyv::Archive + for<'a> rkyv::Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Error>>,
    T::Archived: for<'a> CheckBytes<HighValidator<'a, Error>>
        + rkyv::Deserialize<T, HighDeserializer<Error>>,
{
    let value = &value;
    let mut writer = Writer::new();
    writer.write(value).expect("writes");
    let as_egret = received(&writer.to_vec());
    let as_bincode = received(&bincode::encode_to_vec(value, BINCODE).expect("writes"));
    let as_speedy = received(&value.write_to_vec().expect("writes"));
    let as_postcard = received(&postcard::to_stdvec(value).expect("writes"));
    let as_rkyv = received(&rkyv::to_bytes::<Error>(value).expect("writes"));
    let bytes = as_egret.len();

    let memory = RefCell::new(vec![0; 2 * bytes + 64]);
    let (memory, len) = (&memory, as_speedy.len());
    let mut to_rkyv = Some(AlignedVec::with_capacity(as_rkyv.len()));
    let writes = [
        Round::new(move || {
            writer.clear();
            writer.write(black_box(value)).expect("writes");
            writer.len()
        }),
        Round::on(memory, |to| egret_stream::write(black_box(value), to).expect("writes")),
        Round::on(memory, |to| {
            bincode::encode_into_slice(black_box(value), to, BINCODE).expect("writes")
        }),
        Round::on(memory, move |to| {
            black_box(value).write_to_buffer(to).expect("writes");
            len
        }),
        Round::on(memory, |to| postcard::to_slice(black_box(value), to).expect("writes").len()),
        Round::new(move || {
            let mut to: AlignedVec = to_rkyv.take().expect("it comes back");
            to.clear();
            let to =
                rkyv::api::high::to_bytes_in::<_, Error>(black_box(value), to).expect("writes");
            let len = to.len();
            to_rkyv = Some(to);
            len
        }),
    ];
    let writes = medians(writes, bytes);
    let reads = [
        Round::new(|| Reader::new(black_box(as_egret.bytes())).read::<T>().expect("reads")),
        Round::new(|| egret_stream::read::<T>(black_box(as_egret.bytes())).expect("reads")),
        Round::new(|| {
            bincode::decode_from_slice::<T, _>(black_box(as_bincode.bytes()), BINCODE)
                .expect("reads")
                .0
        }),
        Round::new(|| T::read_from_buffer(black_box(as_speedy.bytes())).expect("reads")),
        Round::new(|| postcard::from_bytes::<T>(black_box(as_postcard.bytes())).expect("reads")),
        Round::new(|| rkyv::from_bytes::<T, Error>(black_box(as_rkyv.bytes())).expect("reads")),
    ];
    [writes, medians(reads, bytes)]
}

/// `bytes` where a message would lie.
pub fn received(bytes: &[u8]) -> Buf {
    let pool = Pool::new(bytes.len(), 1).expect("a pool");
    let mut buf = pool.take(bytes.len()).expect("a buffer");
    buf.bytes_mut().copy_from_slice(bytes);
    buf
}
