//! Registered memory: pinned once, however often.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::buf::{MemoryError, Pinned, Region};

/// Memory registered with a nic; the registration ends when this is dropped.
///
/// A region is pinned by its first registration and unpinned after its last.
#[derive(Debug)]
pub(crate) struct Registration {
    region: Region,
    registrar: Arc<Registrar>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registrar.release(&self.region);
    }
}

/// What one nic has registered.
#[derive(Debug)]
pub(super) struct Registrar {
    max: u64,
    regions: Mutex<BTreeMap<usize, RegisteredRegion>>,
}

#[derive(Debug)]
struct RegisteredRegion {
    registrations: usize,
    bytes: u64,
    _pinned: Pinned,
}

impl Registrar {
    pub(super) fn new(max: u64) -> Self {
        Self { max, regions: Mutex::default() }
    }

    pub(super) fn register(self: &Arc<Self>, region: &Region) -> Result<Registration, MemoryError> {
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let registered: u64 = regions.values().map(|entry| entry.bytes).sum();
        if let Some(entry) = regions.get_mut(&region.id()) {
            entry.registrations += 1;
        } else {
            let bytes = region.len() as u64;
            if registered.saturating_add(bytes) > self.max {
                return Err(MemoryError::RegistrationLimit { bytes, registered, max: self.max });
            }
            let entry = RegisteredRegion { registrations: 1, bytes, _pinned: region.pin()? };
            regions.insert(region.id(), entry);
        }
        drop(regions);
        Ok(Registration { region: region.clone(), registrar: Arc::clone(self) })
    }

    #[cfg(any(test, feature = "conformance"))]
    pub(super) fn registered(&self) -> u64 {
        let regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        regions.values().map(|entry| entry.bytes).sum()
    }

    fn release(&self, region: &Region) {
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = regions.get_mut(&region.id()).expect("present while registered");
        entry.registrations -= 1;
        if entry.registrations == 0 {
            regions.remove(&region.id());
        }
    }
}
