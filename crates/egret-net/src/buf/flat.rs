//! Types whose values are bytes, though not all bytes are values of them.

use super::reference::Ref;

/// A type without holes and without pointers whose values can lie in memory that came
/// from elsewhere: numbers, `bool`, `char`, enums, references into a graph, and
/// structs and arrays of such.
///
/// What [`Plain`](super::Plain) is for types that any bytes are a value of, this is for
/// those that have to be looked at first. `#[derive(Object)]` of `egret-stream`
/// implements it.
///
/// # Safety
///
/// * All bytes of every value are initialised: no padding.
/// * Bytes for which [`is_value`](Self::is_value) says `true` are a value of the type, and
///   so are any bytes at all if [`ANY`](Self::ANY) is `true`.
/// * It holds no pointer, and nothing in it can be written through a shared reference
///   (`Copy` sees to the latter).
pub unsafe trait Flat: Copy + Send + Sync + 'static {
    /// Whether any bytes of its size are a value of it.
    const ANY: bool;

    /// Whether `bytes`, as many as a value has, are one. They need not be aligned.
    fn is_value(bytes: &[u8]) -> bool;
}

/// The value that lies at the start of `bytes`, if they are long enough, begin at a multiple
/// of its alignment, and are a value of it.
///
/// ```
/// use egret_net::buf::flat;
///
/// let bytes = [1, 0, 0, 0, 7];
/// assert_eq!(flat::view::<bool>(&bytes[0..]), Some(&true));
/// assert_eq!(flat::view::<bool>(&bytes[4..]), None, "7 is neither true nor false");
/// assert_eq!(flat::view::<u64>(&bytes), None, "too short");
/// ```
#[inline]
#[must_use]
pub fn view<T: Flat>(bytes: &[u8]) -> Option<&T> {
    let bytes = fitting::<T>(bytes.get(..size_of::<T>())?)?;
    // SAFETY: initialised bytes of its size, aligned, and a value of it, all of which `fitting`
    // and the length have shown; they are borrowed for as long as the answer lives.
    Some(unsafe { &*bytes.as_ptr().cast::<T>() })
}

/// The value that lies at the start of `words`, if they are enough and a value of it. What needs
/// no larger alignment than words is aligned there, so that nothing has to be looked at for that.
#[inline]
#[must_use]
pub fn view_words<T: Flat>(words: &[u64]) -> Option<&T> {
    const { assert!(align_of::<T>() <= align_of::<u64>(), "words do not align it") };
    let bytes = bytemuck::cast_slice::<u64, u8>(words).get(..size_of::<T>())?;
    if !T::ANY && !T::is_value(bytes) {
        return None;
    }
    // SAFETY: initialised bytes of its size, aligned as the words are, and a value of it; they are
    // borrowed for as long as the answer lives.
    Some(unsafe { &*bytes.as_ptr().cast::<T>() })
}

/// As [`view_words`], to be written.
#[inline]
#[must_use]
pub fn view_words_mut<T: Flat>(words: &mut [u64]) -> Option<&mut T> {
    const { assert!(align_of::<T>() <= align_of::<u64>(), "words do not align it") };
    let bytes = bytemuck::cast_slice_mut::<u64, u8>(words).get_mut(..size_of::<T>())?;
    if !T::ANY && !T::is_value(bytes) {
        return None;
    }
    // SAFETY: as in `view_words`, borrowed mutably; and whatever `T` is written has no hole, so
    // the bytes stay initialised.
    Some(unsafe { &mut *bytes.as_mut_ptr().cast::<T>() })
}

/// As [`view`], to be written.
#[inline]
#[must_use]
pub fn view_mut<T: Flat>(bytes: &mut [u8]) -> Option<&mut T> {
    let bytes = bytes.get_mut(..size_of::<T>())?;
    fitting::<T>(bytes)?;
    // SAFETY: as in `view`, borrowed mutably; and whatever `T` is written has no hole, so the
    // bytes stay initialised.
    Some(unsafe { &mut *bytes.as_mut_ptr().cast::<T>() })
}

/// The values that `bytes` are, if they are whole ones, aligned, and all are values.
///
/// Of a type that [any](Flat::ANY) bytes are a value of, none is looked at.
#[inline]
#[must_use]
pub fn views<T: Flat>(bytes: &[u8]) -> Option<&[T]> {
    let count = whole::<T>(bytes)?;
    // SAFETY: as in `view`, for each of them.
    Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<T>(), count) })
}

/// As [`views`], to be written.
#[inline]
#[must_use]
pub fn views_mut<T: Flat>(bytes: &mut [u8]) -> Option<&mut [T]> {
    let count = whole::<T>(bytes)?;
    // SAFETY: as in `view_mut`, for each of them.
    Some(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<T>(), count) })
}

/// The bytes that `values` are.
#[inline]
#[must_use]
pub fn bytes_of<T: Flat>(values: &[T]) -> &[u8] {
    // SAFETY: a flat type has no holes, so all of its bytes are initialised.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) }
}

#[inline]
fn fitting<T: Flat>(bytes: &[u8]) -> Option<&[u8]> {
    let is_aligned = bytes.as_ptr().addr().is_multiple_of(align_of::<T>());
    (is_aligned && (T::ANY || T::is_value(bytes))).then_some(bytes)
}

#[inline]
fn whole<T: Flat>(bytes: &[u8]) -> Option<usize> {
    const { assert!(size_of::<T>() > 0, "elements without size hold no bytes") };
    let is_aligned = bytes.as_ptr().addr().is_multiple_of(align_of::<T>());
    let is_whole = bytes.len().is_multiple_of(size_of::<T>());
    if !is_aligned || !is_whole {
        return None;
    }
    let are_values = T::ANY || bytes.chunks_exact(size_of::<T>()).all(T::is_value);
    are_values.then_some(bytes.len() / size_of::<T>())
}

macro_rules! any_bytes {
    ($($number:ident)*) => {$(
        // SAFETY: a number of fixed width has no holes, and any bytes are one.
        unsafe impl Flat for $number {
            const ANY: bool = true;

            #[inline]
            fn is_value(_: &[u8]) -> bool {
                true
            }
        }
    )*};
}

any_bytes!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);

// SAFETY: one byte, and only 0 and 1 are values.
unsafe impl Flat for bool {
    const ANY: bool = false;

    #[inline]
    fn is_value(bytes: &[u8]) -> bool {
        matches!(bytes, [0 | 1])
    }
}

// SAFETY: four bytes, the number of a character.
unsafe impl Flat for char {
    const ANY: bool = false;

    #[inline]
    fn is_value(bytes: &[u8]) -> bool {
        let number = bytes.try_into().map(u32::from_ne_bytes);
        number.is_ok_and(|number| char::from_u32(number).is_some())
    }
}

// SAFETY: eight bytes that are not all zero; see the representation of `Ref`.
unsafe impl<T: ?Sized + 'static> Flat for Ref<T> {
    const ANY: bool = false;

    #[inline]
    fn is_value(bytes: &[u8]) -> bool {
        bytes.try_into().is_ok_and(|bits| u64::from_ne_bytes(bits) != 0)
    }
}

// SAFETY: `Ref` is a transparent non-zero number; the language promises that an option of such
// is as large and that its `None` is zero. So any eight bytes are one.
unsafe impl<T: ?Sized + 'static> Flat for Option<Ref<T>> {
    const ANY: bool = true;

    #[inline]
    fn is_value(_: &[u8]) -> bool {
        true
    }
}

// SAFETY: elements follow one another without holes.
unsafe impl<T: Flat, const N: usize> Flat for [T; N] {
    const ANY: bool = T::ANY;

    #[inline]
    fn is_value(bytes: &[u8]) -> bool {
        T::ANY || bytes.chunks_exact(size_of::<T>().max(1)).all(T::is_value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_values_are_not_viewed() {
        let mut words = [0_u64, 1, u64::MAX];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        assert_eq!(view::<bool>(&bytes[..1]), Some(&false));
        assert_eq!(view::<bool>(&bytes[16..]), None);
        assert_eq!(view::<char>(&bytes[8..]), Some(&'\u{1}'));
        assert_eq!(view::<char>(&bytes[16..]), None);
        assert_eq!(view::<Ref<u8>>(bytes), None, "zero is no reference");
        assert_eq!(view::<Option<Ref<u8>>>(bytes), Some(&None));
        assert!(view::<Ref<u8>>(&bytes[8..]).is_some());
        assert_eq!(
            view_mut::<[bool; 9]>(bytes),
            Some(&mut [false, false, false, false, false, false, false, false, true])
        );
        assert_eq!(view::<[bool; 17]>(bytes), None);
    }

    #[test]
    fn misfit_bytes_are_not_viewed() {
        let words = [7_u64; 2];
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        assert_eq!(view::<u64>(&bytes[1..]), None, "not aligned");
        assert_eq!(view::<u64>(&bytes[9..]), None, "too short");
        assert_eq!(views::<u64>(bytes), Some(&words[..]));
        assert_eq!(views::<u64>(&bytes[..12]), None, "one and a half");
        assert_eq!(views::<u32>(&bytes[4..]).map(<[u32]>::len), Some(3));
        assert_eq!(views::<bool>(bytes), None);
        assert_eq!(views::<u16>(&bytes[..0]).map(<[u16]>::len), Some(0));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut words = [0_u64; 2];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        *view_mut::<f64>(bytes).unwrap() = 1.5;
        views_mut::<u32>(&mut bytes[8..]).unwrap().copy_from_slice(&[1, 2]);
        assert_eq!(bytes_of(&[1.5_f64]), &bytes[..8]);
        assert_eq!(bytes_of(&[1_u32, 2]), &bytes[8..]);
        assert_eq!(bytes_of::<u64>(&[]), &[]);
    }
}
