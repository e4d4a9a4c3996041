//! One payload, five ways.

use std::hint::black_box;

use bincode::config::{Configuration, Fixint, LittleEndian};
use bincode::{Decode, Encode};
use egret_net::buf::Pool;
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

const BINCODE: Configuration<LittleEndian, Fixint> =
    bincode::config::standard().with_fixed_int_encoding();

/// Times of writing and of reading: egret, bincode, speedy, postcard, rkyv.
pub fn compare<T>(value: T) -> [[f64; 5]; 2]
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
    let bytes = writer.len();
    let pool = Pool::new(bytes, 1).expect("a pool");
    let mut buf = pool.take(bytes).expect("a buffer");
    writer.copy_to(buf.bytes_mut());
    let as_bincode = bincode::encode_to_vec(value, BINCODE).expect("writes");
    let as_speedy = value.write_to_vec().expect("writes");
    let as_postcard = postcard::to_stdvec(value).expect("writes");
    let as_rkyv = rkyv::to_bytes::<Error>(value).expect("writes");

    let (mut to_bincode, mut to_speedy) = (vec![0; as_bincode.len()], vec![0; as_speedy.len()]);
    let mut to_postcard = vec![0; as_postcard.len()];
    let mut to_rkyv = Some(AlignedVec::with_capacity(as_rkyv.len()));
    let writes = [
        Round::new(move || {
            writer.clear();
            writer.write(black_box(value)).expect("writes");
            black_box(&writer).len()
        }),
        Round::new(move || {
            bincode::encode_into_slice(black_box(value), &mut to_bincode, BINCODE).expect("writes")
        }),
        Round::new(move || black_box(value).write_to_buffer(&mut to_speedy).expect("writes")),
        Round::new(move || {
            postcard::to_slice(black_box(value), &mut to_postcard).expect("writes").len()
        }),
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
        Round::new(|| Reader::new(black_box(buf.bytes())).read::<T>().expect("reads")),
        Round::new(|| {
            bincode::decode_from_slice::<T, _>(black_box(&as_bincode), BINCODE).expect("reads").0
        }),
        Round::new(|| T::read_from_buffer(black_box(&as_speedy)).expect("reads")),
        Round::new(|| postcard::from_bytes::<T>(black_box(&as_postcard)).expect("reads")),
        Round::new(|| rkyv::from_bytes::<T, Error>(black_box(&as_rkyv)).expect("reads")),
    ];
    [writes, medians(reads, bytes)]
}
