use rustix::fs::{SealFlags, fcntl_get_seals};
use rustix::process::{Resource, getrlimit};

use crate::buf::{MemoryError, Pool, Region};

#[test]
fn a_region_is_whole_pages() {
    let page = rustix::param::page_size();
    for bytes in [1, page - 1, page, page + 1] {
        let region = Region::builder(bytes).map().unwrap();
        assert_eq!(region.len(), bytes.next_multiple_of(page));
        assert!(region.fd().is_none() && !region.is_empty());
    }
}

#[test]
fn a_shareable_region_has_one_writer_and_one_size() {
    let region = Region::builder(5000).shareable().map().unwrap();
    let fd = region.fd().unwrap();
    let seals = fcntl_get_seals(fd).unwrap();
    assert!(seals.contains(SealFlags::SHRINK | SealFlags::GROW));
    assert!(seals.contains(SealFlags::FUTURE_WRITE | SealFlags::SEAL));
    assert!(rustix::fs::ftruncate(fd, 1).is_err());
    assert!(rustix::io::pwrite(fd, b"boo", 0).is_err(), "a second way to write it");
    let size = rustix::fs::fstat(fd).unwrap().st_size;
    assert_eq!(usize::try_from(size).unwrap(), region.len());
}

#[test]
fn a_cooperating_region_has_one_size_and_more_writers() {
    let region = Region::builder(5000).cooperating().map().unwrap();
    assert!(region.is_cooperating() && region.fd().is_none(), "not for everybody");
    let fd = region.cooperating_fd().unwrap();
    let seals = fcntl_get_seals(fd).unwrap();
    assert_eq!(seals, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL);
    assert!(rustix::fs::ftruncate(fd, 1).is_err());
    assert!(rustix::fs::ftruncate(fd, 1 << 20).is_err());
    assert!(rustix::fs::fcntl_add_seals(fd, SealFlags::FUTURE_WRITE).is_err());
    assert_eq!(rustix::io::pwrite(fd, b"yours", 0).unwrap(), 5);
    let again = Region::builder(1).cooperating().shareable().map().unwrap();
    assert!(again.fd().is_some() && !again.is_cooperating(), "the last one counts");
    let pool = Pool::builder().class(64, 4).shareable().cooperating().build().unwrap();
    assert!(pool.region().is_cooperating() && pool.region().fd().is_none());
}

#[test]
fn what_is_written_to_a_shareable_pool_is_in_its_file() {
    let pool = Pool::builder().class(64, 4).shareable().build().unwrap();
    let mut buf = pool.take(5).unwrap();
    buf.bytes_mut().copy_from_slice(b"egret");
    let mut read = [0; 5];
    let fd = pool.region().fd().unwrap();
    rustix::io::pread(fd, &mut read, buf.offset_in_region() as u64).unwrap();
    assert_eq!(&read, b"egret");
}

#[test]
fn the_last_pin_unpins() {
    let region = Region::builder(4096).map().unwrap();
    let pins: Vec<_> = (0..3).map(|_| region.pin().unwrap()).collect();
    for pin in pins {
        assert!(region.is_pinned());
        assert!(locked_bytes(&region) > 0);
        drop(pin);
    }
    assert!(!region.is_pinned());
    assert_eq!(locked_bytes(&region), 0);
}

#[test]
fn a_locked_region_stays_locked() {
    let region = Region::builder(4096).locked().map().unwrap();
    drop(region.pin().unwrap());
    assert!(region.is_pinned());
    assert!(locked_bytes(&region) > 0);
}

/// Runs as root and as a user, with huge pages in reserve and without.
#[test]
fn huge_pages_are_had_or_the_error_says_how() {
    for shareable in [false, true] {
        let builder = Region::builder(1 << 20).huge_pages();
        let builder = if shareable { builder.shareable() } else { builder };
        match builder.map() {
            Ok(region) => assert_eq!(region.len(), 2 << 20),
            Err(MemoryError::HugePages { needed, free }) => {
                assert_eq!(needed, 1);
                assert!(free < needed, "it says {free} are free");
            }
            // Containers and kernels without them.
            Err(MemoryError::System { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

/// Where locking is limited the error knows the limit; root has none.
#[test]
fn a_lock_beyond_the_limit_names_it() {
    let Some(limit) = getrlimit(Resource::Memlock).current else { return };
    let Ok(bytes) = usize::try_from(limit) else { return };
    if bytes > 256 << 20 {
        return;
    }
    match Region::builder(bytes + (1 << 20)).locked().map() {
        Err(MemoryError::LockLimit { bytes: asked, limit: named }) => {
            assert!(asked > bytes);
            assert_eq!(named, Some(limit));
        }
        Ok(_) => assert!(rustix::process::geteuid().is_root(), "only root is above the limit"),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_region_beyond_the_address_space_is_refused() {
    for bytes in [usize::MAX, 1 << 62] {
        let error = Region::builder(bytes).map().unwrap_err();
        assert!(matches!(error, MemoryError::RegionTooLarge { .. }), "{error}");
    }
    let error = Pool::new(1 << 60, 1 << 20).unwrap_err();
    assert!(matches!(error, MemoryError::RegionTooLarge { .. }), "{error}");
}

#[test]
fn a_region_goes_with_its_last_handle() {
    let region = Region::builder(4096).shareable().map().unwrap();
    let other = region.clone();
    let inode = rustix::fs::fstat(region.fd().unwrap()).unwrap().st_ino.to_string();
    let is_mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| line.split_whitespace().nth(4) == Some(&inode))
    };
    drop(region);
    assert!(is_mapped());
    drop(other);
    assert!(!is_mapped());
}

fn locked_bytes(region: &Region) -> usize {
    locked_kib_at(region.base().as_ptr().addr()).expect("mapped") * 1024
}

/// The `Locked:` line of the mapping that starts at `address`. Neighbouring
/// anonymous mappings are merged, but never locked with unlocked ones.
fn locked_kib_at(address: usize) -> Option<usize> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in smaps.lines() {
        if let Some((start, end)) = range(line) {
            inside = (start..end).contains(&address);
        } else if inside && let Some(value) = line.strip_prefix("Locked:") {
            return value.trim().strip_suffix(" kB")?.parse().ok();
        }
    }
    None
}

fn range(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}
