use proptest::prelude::*;

use super::matrix::MatrixColumns;

/// The product as the definition says it.
fn naive(size: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let one = |at: usize| {
        let (row, column) = (at % size, at / size);
        (0..size).map(|k| a[row + k * size] * b[k + column * size]).sum()
    };
    (0..size * size).map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() })]

    /// Whatever the size and however it is cut: the product of the definition.
    #[test]
    fn blocks_add_up_to_the_product(size in 1_usize..40, cuts in 1_usize..5) {
        let (a, b) = (MatrixColumns::left(size, 0..size), MatrixColumns::right(size, 0..size));
        let expected = naive(size, a.values(), b.values());
        let mut c = MatrixColumns::zero(size, 0..size);
        let cuts = cuts.min(size);
        for cut in 0..cuts {
            let block = cut * size / cuts..(cut + 1) * size / cuts;
            c.add_block(MatrixColumns::left(size, block.clone()).values(), block, &b);
        }
        for (found, expected) in c.values().iter().zip(&expected) {
            prop_assert!((found - expected).abs() <= 1e-12, "{} {}", found, expected);
        }
    }
}
