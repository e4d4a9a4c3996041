//! Columns of a matrix, and the product of a block with another.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, Axis, ShapeBuilder};

/// Some columns of a square matrix, one behind the other.
#[derive(Debug, Clone)]
pub(crate) struct MatrixColumns {
    size: usize,
    columns: Range<usize>,
    values: Vec<f64>,
}

impl MatrixColumns {
    /// Columns of the left factor.
    pub(crate) fn left(size: usize, columns: Range<usize>) -> Self {
        Self::of(size, columns, |row, column| value(1, row, column))
    }

    /// Columns of the right factor.
    pub(crate) fn right(size: usize, columns: Range<usize>) -> Self {
        Self::of(size, columns, |row, column| value(2, row, column))
    }

    /// Columns of zeroes.
    pub(crate) fn zero(size: usize, columns: Range<usize>) -> Self {
        Self { size, values: vec![0.0; size * columns.len()], columns }
    }

    fn of(size: usize, columns: Range<usize>, value: impl Fn(usize, usize) -> f64) -> Self {
        let all = columns.clone().flat_map(|column| (0..size).map(move |row| (row, column)));
        let values = all.map(|(row, column)| value(row, column)).collect();
        Self { size, columns, values }
    }

    /// Rows of the matrix.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// The values, column by column.
    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    /// The values by themselves.
    pub(crate) fn into_values(self) -> Vec<f64> {
        self.values
    }

    /// Zeroes again.
    pub(crate) fn clear(&mut self) {
        self.values.fill(0.0);
    }

    /// Adds the product of these columns of the left factor, of which `left` are the
    /// values, and what belongs to them of the right one. With all columns of the left
    /// factor it is the whole product.
    pub(crate) fn add_block(&mut self, left: &[f64], columns: Range<usize>, right: &MatrixColumns) {
        debug_assert_eq!(self.columns, right.columns);
        let left = view(left, self.size, columns.len());
        let right = view(&right.values, self.size, right.columns.len());
        let shape = (self.size, self.columns.len()).f();
        let sum = ArrayViewMut2::from_shape(shape, &mut self.values);
        let mut sum = sum.expect("as many values as rows and columns");
        general_mat_mul(1.0, &left, &right.slice_axis(Axis(0), columns.into()), 1.0, &mut sum);
    }
}

fn view(values: &[f64], rows: usize, columns: usize) -> ArrayView2<'_, f64> {
    let view = ArrayView2::from_shape((rows, columns).f(), values);
    view.expect("as many values as rows and columns")
}

/// A value between -1 and 1 that depends on where it is and on nothing else.
fn value(seed: u64, row: usize, column: usize) -> f64 {
    let mut bits = (seed << 56) ^ ((row as u64) << 28) ^ column as u64;
    for _ in 0..2 {
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits ^= bits >> 27;
    }
    (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}
