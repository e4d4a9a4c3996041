//! The bytes of a datagram; `docs/wire/udp.md` has them as a table.
//!
//! Whatever is decoded is consistent in itself: a piece of a message lies inside the
//! message, at a multiple of its unit, and has the bytes that belong there. What does
//! not hold that is no datagram.

use std::borrow::Cow;

use super::fault;
use crate::buf::Kind;
use crate::fabric::DATAGRAM_HEAD;
use crate::fabric::common::bytes::{ByteReader, Malformed, TOO_LONG, TOO_SHORT};
use crate::fabric::seal::TAG;
pub(super) use crate::vi::SIGNATURE;

/// The number of a connection, chosen at random by the end that receives under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnectionNumber(pub u64);

/// What one datagram says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UdpDatagram<'a> {
    /// A message, or a part of one.
    Piece { to: ConnectionNumber, piece: UdpPiece<'a> },
    /// A datagram of a window.
    Window { to: ConnectionNumber, bytes: &'a [u8] },
    /// One that is sealed, whatever it says.
    Sealed { to: ConnectionNumber },
    /// Asks for a sign of life.
    Probe { to: ConnectionNumber },
    /// A sign of life.
    Alive { to: ConnectionNumber },
    /// The other end has left the connection.
    Goodbye { to: ConnectionNumber, why: GoodbyeReason },
    /// No connection has this number here.
    Unknown { number: ConnectionNumber },
    /// The bytes of a handshake so far, by a caller that listens under `from` and has
    /// been given a `token`, or zero.
    Handshake { token: u64, from: ConnectionNumber, stream: &'a [u8] },
    /// To be shown with the next handshake.
    Token { to: ConnectionNumber, token: u64 },
    /// The answer to a handshake so far, by a callee that will listen under `from`.
    Answer { to: ConnectionNumber, from: ConnectionNumber, waits: bool, stream: &'a [u8] },
    /// A message to a group, or a part of one, by the member `from`.
    Group { group: u64, from: u64, signature: Option<&'a [u8; SIGNATURE]>, piece: UdpPiece<'a> },
}

/// A message or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UdpPiece<'a> {
    /// Counts the sender's messages on its connection.
    pub number: u64,
    pub tag: u64,
    /// Whether it is of the eager class.
    pub eager: bool,
    pub split: MessageSplit,
    pub index: u32,
    pub kind: Option<UdpKind<'a>>,
    pub bytes: &'a [u8],
}

/// How a message is cut: into pieces of `unit` bytes, the last of what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageSplit {
    /// Bytes of the message.
    pub len: u32,
    pub unit: u32,
}

/// What the elements of a message are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UdpKind<'a> {
    pub fingerprint: u64,
    pub name: &'a str,
}

/// Why an end has left the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum GoodbyeReason {
    Closed = 0,
    NicDown = 1,
}

/// The largest payload of a datagram over IPv4, and so of all.
pub(super) const DATAGRAM_MAX: usize = 65_507;
/// Bytes of a message that are copied behind its header: a slice costs the system more.
pub(super) const SMALL: usize = 256;
/// Bytes of a handshake, padded: no answer to one is larger.
pub(super) const HANDSHAKE_BYTES: usize = 1200;
/// What a handshake or its answer holds of their streams.
pub(super) const STREAM_MAX: usize = HANDSHAKE_BYTES - HANDSHAKE_HEAD;
/// Largest message.
pub(super) const MESSAGE_MAX: u32 = 1 << 20;
/// Smallest piece of a message that is cut.
pub(super) const UNIT_MIN: u32 = 256;
/// A type's name is cut to so many bytes.
const NAME_MAX: usize = 64;
/// The largest header of a piece.
pub(super) const HEAD_MAX: usize = FRAGMENT + SENDER + TYPE + NAME_MAX;

const HANDSHAKE_HEAD: usize = 24;
/// Bytes before those of a message that goes as one datagram.
pub(super) const WHOLE: usize = 32;
const FRAGMENT: usize = 40;
const SENDER: usize = 8;
const TYPE: usize = 9;

const MESSAGE: u8 = 1;
const FRAGMENTED: u8 = 2;
const PROBE: u8 = 3;
const ALIVE: u8 = 4;
const GOODBYE: u8 = 5;
const UNKNOWN: u8 = 6;
const HANDSHAKE: u8 = 7;
const TOKEN: u8 = 8;
const ANSWER: u8 = 9;
const WINDOW: u8 = 10;
const SEALED: u8 = 11;

const TYPED: u8 = 1;
const GROUP: u8 = 2;
const SIGNED: u8 = 4;
const EAGER: u8 = 8;
const WAITS: u8 = 1;

impl MessageSplit {
    /// How a message of `len` bytes goes into datagrams of `room` bytes each, with a
    /// header for this type.
    pub(super) fn new(len: u32, room: usize, extra: usize) -> Self {
        let whole = room.saturating_sub(WHOLE + extra);
        if len as usize <= whole {
            return Self { len, unit: len };
        }
        let unit = u32::try_from(room.saturating_sub(FRAGMENT + extra)).unwrap_or(u32::MAX);
        Self { len, unit: unit.clamp(UNIT_MIN, len - 1) }
    }

    pub(super) const fn count(self) -> u32 {
        if self.is_whole() { 1 } else { self.len.div_ceil(self.unit) }
    }

    pub(super) const fn is_whole(self) -> bool {
        self.len <= self.unit
    }

    /// Where the piece begins, and how long it is.
    pub(super) fn range(self, index: u32) -> (u32, u32) {
        let offset = index * self.unit;
        (offset, (self.len - offset).min(self.unit))
    }

    /// Bytes of a piece, if there can be such a one.
    #[inline]
    fn due(self, index: u32) -> Option<usize> {
        let is_sane = self.len <= MESSAGE_MAX && (self.is_whole() || self.unit >= UNIT_MIN);
        (is_sane && index < self.count()).then(|| self.range(index).1 as usize)
    }
}

/// Bytes that the type of a message adds to each header, and a group's sender.
pub(super) fn extra(kind: Option<&Kind>, group: bool, signed: bool) -> usize {
    let typed = kind.map_or(0, |kind| TYPE + cut(&kind.name).len());
    typed + if group { SENDER } else { 0 } + if signed { SIGNATURE } else { 0 }
}

/// As much of a type's name as goes with a message.
pub(super) fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

impl UdpKind<'_> {
    pub(super) fn to_kind(self) -> Kind {
        Kind { fingerprint: self.fingerprint, name: Cow::Owned(self.name.to_owned()) }
    }
}

/// A header, with room for `N` bytes; or a datagram without bytes of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct UdpHead<const N: usize = HEAD_MAX> {
    bytes: [u8; N],
    len: usize,
}

/// A header with a short message behind it.
pub(super) type SmallHead = UdpHead<{ HEAD_MAX + SMALL }>;

impl<const N: usize> UdpHead<N> {
    #[inline]
    fn new(kind: u8, flags: u8, len: u32, to: u64) -> Self {
        let mut head = Self { bytes: [0; N], len: 0 };
        head.put(&[kind, flags, 0, 0]);
        head.put(&len.to_le_bytes());
        head.put(&to.to_le_bytes());
        head
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// So many bytes more, to be written.
    #[inline]
    pub(super) fn more(&mut self, len: usize) -> &mut [u8] {
        let more = &mut self.bytes[self.len..self.len + len];
        self.len += len;
        more
    }

    /// What stands before the bytes of a piece.
    #[inline]
    pub(super) fn of_piece(to: ConnectionNumber, piece: &UdpPiece<'_>) -> Self {
        Self::piece(to.0, 0, None, piece)
    }

    /// The same for a group.
    pub(super) fn of_group(group: u64, from: u64, signed: bool, piece: &UdpPiece<'_>) -> Self {
        let flags = GROUP | if signed { SIGNED } else { 0 };
        Self::piece(group, flags, Some(from), piece)
    }

    #[inline]
    fn piece(to: u64, flags: u8, from: Option<u64>, piece: &UdpPiece<'_>) -> Self {
        let flags = flags | if piece.kind.is_some() { TYPED } else { 0 };
        let flags = flags | if piece.eager { EAGER } else { 0 };
        let kind = if piece.split.is_whole() { MESSAGE } else { FRAGMENTED };
        let mut head = Self::new(kind, flags, piece.split.len, to);
        head.put(&piece.number.to_le_bytes());
        head.put(&piece.tag.to_le_bytes());
        if kind == FRAGMENTED {
            head.put(&piece.index.to_le_bytes());
            head.put(&piece.split.unit.to_le_bytes());
        }
        if let Some(from) = from {
            head.put(&from.to_le_bytes());
        }
        if let Some(UdpKind { fingerprint, name }) = piece.kind {
            let name = cut(name).as_bytes();
            head.put(&fingerprint.to_le_bytes());
            head.put(&[u8::try_from(name.len()).expect("it was cut")]);
            head.put(name);
        }
        head
    }
}

impl UdpHead {
    /// What stands before so many bytes of a window.
    #[inline]
    pub(super) fn window(to: ConnectionNumber, len: usize) -> [u8; DATAGRAM_HEAD] {
        let len = u32::try_from(len).expect("less than a datagram");
        let head: UdpHead<DATAGRAM_HEAD> = UdpHead::new(WINDOW, 0, len, to.0);
        *head.bytes().first_chunk().expect("a head without more")
    }

    /// What stands before the number of a sealed datagram, with so many bytes that are sealed.
    #[inline]
    pub(super) fn sealed(to: ConnectionNumber, len: usize) -> [u8; DATAGRAM_HEAD] {
        let len = u32::try_from(len).expect("less than a datagram");
        let head: UdpHead<DATAGRAM_HEAD> = UdpHead::new(SEALED, 0, len, to.0);
        *head.bytes().first_chunk().expect("a head without more")
    }

    pub(super) fn probe(to: ConnectionNumber) -> Self {
        Self::new(PROBE, 0, 0, to.0)
    }

    pub(super) fn alive(to: ConnectionNumber) -> Self {
        Self::new(ALIVE, 0, 0, to.0)
    }

    pub(super) fn goodbye(to: ConnectionNumber, why: GoodbyeReason) -> Self {
        Self::new(GOODBYE, why as u8, 0, to.0)
    }

    pub(super) fn unknown(number: ConnectionNumber) -> Self {
        Self::new(UNKNOWN, 0, 0, number.0)
    }

    pub(super) fn token(to: ConnectionNumber, token: u64) -> Self {
        let mut head = Self::new(TOKEN, 0, 0, to.0);
        head.put(&token.to_le_bytes());
        head
    }
}

/// Whether a datagram begins as a sealed one does.
#[inline]
pub(super) fn is_sealed(datagram: &[u8]) -> bool {
    datagram.first() == Some(&SEALED)
}

/// A handshake, padded.
pub(super) fn start_handshake(token: u64, from: ConnectionNumber, stream: &[u8]) -> Vec<u8> {
    let mut bytes = streamed(HANDSHAKE, 0, token, from, stream);
    bytes.resize(HANDSHAKE_BYTES, 0);
    bytes
}

/// The answer to a handshake.
pub(super) fn answer(
    to: ConnectionNumber,
    from: ConnectionNumber,
    waits: bool,
    stream: &[u8],
) -> Vec<u8> {
    streamed(ANSWER, if waits { WAITS } else { 0 }, to.0, from, stream)
}

fn streamed(kind: u8, flags: u8, to: u64, from: ConnectionNumber, stream: &[u8]) -> Vec<u8> {
    assert!(stream.len() <= STREAM_MAX, "a handshake of {} bytes", stream.len());
    let len = u32::try_from(stream.len()).expect("checked just now");
    let mut bytes = UdpHead::<HEAD_MAX>::new(kind, flags, len, to).bytes().to_vec();
    bytes.extend(from.0.to_le_bytes());
    bytes.extend(stream);
    bytes
}

impl<'a> UdpDatagram<'a> {
    /// Reads a datagram.
    #[inline]
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (datagram, len) = Self::first(bytes)?;
        if len == bytes.len() { Ok(datagram) } else { Err(Malformed(TOO_LONG)) }
    }

    /// Reads the first of what came together, and how many bytes it has: every datagram says so,
    /// but those of groups, which come alone.
    #[inline]
    pub(super) fn first(bytes: &'a [u8]) -> Result<(Self, usize), Malformed> {
        let mut reader = ByteReader::new(bytes);
        let datagram = Self::read(&mut reader)?;
        Ok((datagram, bytes.len() - reader.rest().len()))
    }

    #[inline]
    fn read(reader: &mut ByteReader<'a>) -> Result<Self, Malformed> {
        let [kind, flags, 0, 0] = reader.array()? else {
            return Err(Malformed("reserved bytes"));
        };
        let (len, to) = (reader.u32()?, reader.u64()?);
        if kind == WINDOW && flags == 0 {
            return Ok(Self::Window {
                to: ConnectionNumber(to),
                bytes: reader.bytes(len as usize)?,
            });
        }
        if kind == SEALED && flags == 0 {
            // Its number, what is sealed, at least eight bytes, and the tag.
            let len = Some(len as usize).filter(|len| *len >= 8).ok_or(Malformed(TOO_SHORT))?;
            reader.bytes(len.saturating_add(8 + TAG))?;
            return Ok(Self::Sealed { to: ConnectionNumber(to) });
        }
        if matches!(kind, MESSAGE | FRAGMENTED) {
            return piece(reader, kind, flags, len, to);
        }
        Self::read_other(reader, (kind, flags), len, to)
    }

    fn read_other(
        reader: &mut ByteReader<'a>,
        (kind, flags): (u8, u8),
        len: u32,
        to: u64,
    ) -> Result<Self, Malformed> {
        Ok(match kind {
            HANDSHAKE if flags == 0 => {
                let from = ConnectionNumber(reader.u64()?);
                let padded = reader.bytes(STREAM_MAX)?;
                let stream = padded.get(..len as usize).ok_or(Malformed(TOO_SHORT))?;
                Self::Handshake { token: to, from, stream }
            }
            ANSWER if flags & !WAITS == 0 => {
                let from = ConnectionNumber(reader.u64()?);
                let stream = reader.bytes(len as usize)?;
                Self::Answer { to: ConnectionNumber(to), from, waits: flags == WAITS, stream }
            }
            _ if len != 0 => return Err(Malformed("a length where none belongs")),
            GOODBYE if flags == GoodbyeReason::Closed as u8 => {
                Self::Goodbye { to: ConnectionNumber(to), why: GoodbyeReason::Closed }
            }
            GOODBYE if flags == GoodbyeReason::NicDown as u8 => {
                Self::Goodbye { to: ConnectionNumber(to), why: GoodbyeReason::NicDown }
            }
            _ if flags != 0 => return Err(Malformed("flags")),
            PROBE => Self::Probe { to: ConnectionNumber(to) },
            ALIVE => Self::Alive { to: ConnectionNumber(to) },
            UNKNOWN => Self::Unknown { number: ConnectionNumber(to) },
            TOKEN => Self::Token { to: ConnectionNumber(to), token: reader.u64()? },
            _ => return Err(Malformed("kind")),
        })
    }
}

#[inline]
fn piece<'a>(
    reader: &mut ByteReader<'a>,
    kind: u8,
    flags: u8,
    len: u32,
    to: u64,
) -> Result<UdpDatagram<'a>, Malformed> {
    if flags & !(TYPED | GROUP | SIGNED | EAGER) != 0 || flags & (GROUP | SIGNED) == SIGNED {
        return Err(Malformed("flags"));
    }
    let (number, tag) = (reader.u64()?, reader.u64()?);
    let (index, unit) = match kind {
        MESSAGE => (0, len),
        _ => (reader.u32()?, reader.u32()?),
    };
    let split = MessageSplit { len, unit };
    if kind == FRAGMENTED && split.is_whole() {
        return Err(Malformed("a fragment of a whole message"));
    }
    let from = if flags & GROUP == 0 { None } else { Some(reader.u64()?) };
    let named = if flags & TYPED == 0 { None } else { Some(named(reader)?) };
    let signature = if flags & SIGNED == 0 { None } else { Some(reader.last()?) };
    if number == u64::MAX {
        return Err(Malformed("the last message number"));
    }
    let due = fault::bytes_due(split.due(index), reader.rest().len());
    let due = due.ok_or(Malformed("a piece outside its message"))?;
    let bytes = reader.bytes(due)?;
    let eager = flags & EAGER != 0;
    let piece = UdpPiece { number, tag, eager, split, index, kind: named, bytes };
    Ok(match from {
        None => UdpDatagram::Piece { to: ConnectionNumber(to), piece },
        Some(from) => UdpDatagram::Group { group: to, from, signature, piece },
    })
}

fn named<'a>(reader: &mut ByteReader<'a>) -> Result<UdpKind<'a>, Malformed> {
    let fingerprint = reader.u64()?;
    let [len] = reader.array()?;
    if usize::from(len) > NAME_MAX {
        return Err(Malformed("a type name that is too long"));
    }
    let name = str::from_utf8(reader.bytes(len.into())?)
        .map_err(|_| Malformed("a type name that is not UTF-8"))?;
    Ok(UdpKind { fingerprint, name })
}
