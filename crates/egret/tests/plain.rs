//! A program that depends on `egret` alone, forbids unsafe code and the
//! warnings of the workspace, and still has plain types of its own.
#![forbid(unsafe_code)]

use egret::net::buf::Plain;

/// A particle of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Plain)]
#[plain(crate = egret::net)]
#[repr(C)]
struct Particle {
    position: [f64; 3],
    charge: Charge,
    cell: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Plain)]
#[plain(crate = egret::net)]
#[repr(transparent)]
struct Charge(f32);

fn name_of<T: Plain>(_value: &T) -> &'static str {
    T::NAME
}

#[test]
fn plain_types_need_no_unsafe_and_no_second_dependency() {
    let particle = Particle { position: [0.0; 3], charge: Charge(-1.0), cell: 3 };
    assert_eq!(name_of(&particle), "Particle");
    assert_eq!(name_of(&particle.charge), "Charge");
    assert_ne!(Particle::FINGERPRINT, Charge::FINGERPRINT);
    assert_eq!(size_of::<Particle>(), 32);
}
