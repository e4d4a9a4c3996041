//! `#[derive(Plain)]` as a user of `egret-net` meets it.

use egret_net::buf::{FINGERPRINT_SEED, Plain, fingerprint};

#[derive(Debug, Clone, Copy, PartialEq, Plain)]
#[repr(C)]
struct Sample {
    at: f64,
    cell: Cell,
    value: [f32; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Plain)]
#[repr(C)]
struct Cell(u32, i32);

#[derive(Debug, Clone, Copy, PartialEq, Plain)]
#[repr(transparent)]
struct Metres(f64);

#[derive(Clone, Copy, Plain)]
#[repr(C, packed)]
struct Packed {
    tag: u8,
    value: u64,
}

#[test]
fn fingerprints_are_these_for_ever() {
    assert_eq!(Cell::FINGERPRINT, 0xf134_40ca_6de3_434d);
    assert_eq!(Sample::FINGERPRINT, 0xf5c8_9bbc_0ad2_aa9e);
}

#[test]
fn a_fingerprint_is_the_structure_spelled_out() {
    let hash = fingerprint(FINGERPRINT_SEED, b"struct Cell {0:");
    let hash = fingerprint(hash, &u32::FINGERPRINT.to_le_bytes());
    let hash = fingerprint(hash, b"1:");
    let hash = fingerprint(hash, &i32::FINGERPRINT.to_le_bytes());
    assert_eq!(Cell::FINGERPRINT, fingerprint(hash, b"}"));
}

#[test]
fn every_part_of_the_structure_changes_the_fingerprint() {
    mod order {
        #[derive(Clone, Copy, egret_net::buf::Plain)]
        #[repr(C)]
        pub(super) struct Cell(i32, u32);
    }
    mod names {
        #[derive(Clone, Copy, egret_net::buf::Plain)]
        #[repr(C)]
        pub(super) struct Cell {
            pub(super) row: u32,
            pub(super) column: i32,
        }
    }
    #[derive(Clone, Copy, Plain)]
    #[repr(C)]
    struct Other(u32, i32);

    let all =
        [Cell::FINGERPRINT, order::Cell::FINGERPRINT, names::Cell::FINGERPRINT, Other::FINGERPRINT];
    let distinct: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
    assert_eq!(names::Cell { row: 1, column: 2 }.row, 1);
    assert_eq!(Cell::kind().name, "Cell");
}

#[test]
fn values_survive_being_bytes() {
    let samples = [
        Sample { at: 0.5, cell: Cell(1, -1), value: [2.0, 4.0] },
        Sample { at: -0.0, cell: Cell(u32::MAX, i32::MIN), value: [f32::MAX, 0.0] },
    ];
    let bytes: Vec<u8> = bytemuck::cast_slice(&samples).to_vec();
    assert_eq!(bytes.len(), 2 * (8 + 8 + 8));
    assert_eq!(bytes[8..12], 1u32.to_ne_bytes());
    let back: Vec<Sample> =
        bytes.chunks_exact(size_of::<Sample>()).map(bytemuck::pod_read_unaligned).collect();
    assert_eq!(back, samples);
    assert_eq!(bytemuck::bytes_of(&Metres(3.0)), 3f64.to_ne_bytes());
}

#[test]
fn a_packed_struct_has_no_holes_to_refuse() {
    let packed = Packed { tag: 7, value: 9 };
    let bytes = bytemuck::bytes_of(&packed);
    assert_eq!(bytes.len(), 9);
    assert_eq!(bytes[0], packed.tag);
    assert_eq!(bytes[1..], { packed.value }.to_ne_bytes());
}
