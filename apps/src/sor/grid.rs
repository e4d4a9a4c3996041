//! Rows of a red/black grid, and how a point relaxes.

use std::ops::Range;

use fearless_simd::{Level, Simd, dispatch};

/// Some rows of a grid of `size` by `size` points inside a fixed edge.
///
/// Rows are numbered over the whole grid: 0 and `size + 1` are edge. A row is its
/// red points and then its black ones, so that the points of one colour, and
/// those around them, are each a run of memory.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    size: usize,
    /// Points of one colour in a row, edge and padding included.
    half: usize,
    rows: Range<usize>,
    points: Vec<f64>,
    /// What vectors the processor has.
    level: Level,
}

/// The points that are relaxed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Color {
    Red,
    Black,
}

impl Grid {
    /// Makes these rows as they are at the beginning: zero but for the edge.
    pub(crate) fn new(size: usize, rows: Range<usize>) -> Self {
        let half = (size + 2).div_ceil(2).next_multiple_of(LANES);
        let points = vec![0.0; rows.len() * 2 * half];
        let mut grid = Self { size, half, rows, points, level: Level::new() };
        for row in grid.rows.clone() {
            let inner = (1..=size).contains(&row);
            for column in (0..size + 2).filter(|column| !(inner && (1..=size).contains(column))) {
                *grid.point(row, column) = solution(size, row, column);
            }
        }
        grid
    }

    /// Rows and columns of the whole grid, without its edge.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The memory of these rows.
    pub(crate) fn span(&self, rows: Range<usize>) -> &[f64] {
        &self.points[self.at(rows.start)..self.at(rows.end)]
    }

    /// The same, to be written.
    pub(crate) fn span_mut(&mut self, rows: Range<usize>) -> &mut [f64] {
        let (from, to) = (self.at(rows.start), self.at(rows.end));
        &mut self.points[from..to]
    }

    /// A number for each of these rows that another result would hardly have: of all
    /// its bits, and where they are.
    pub(crate) fn digests(&self, rows: Range<usize>) -> Vec<u64> {
        let mix = |sum: u64, value: &f64| {
            (sum.rotate_left(5) ^ value.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        let row = |row: usize| self.span(row..row + 1).iter().fold(row as u64, mix);
        rows.map(row).collect()
    }

    /// Relaxes the points of one colour in a row, by code compiled for the vectors of the processor.
    pub(crate) fn relax(&mut self, row: usize, color: Color, omega: f64) {
        let (level, around) = (self.level, self.around(row, color));
        dispatch!(level, simd => simd.vectorize(#[inline(always)] || around.each(omega, |_| ())));
    }

    /// The same, and returns the largest change.
    pub(crate) fn relax_measured(&mut self, row: usize, color: Color, omega: f64) -> f64 {
        let (level, around) = (self.level, self.around(row, color));
        dispatch!(level, simd => simd.vectorize(#[inline(always)] || around.each_measured(omega)))
    }

    /// The points of a colour in a row, and those beside them.
    fn around(&mut self, row: usize, color: Color) -> Around<'_> {
        let half = self.half;
        let odd = (row + color as usize) % 2;
        let (first, count) = if odd == 0 { (1, self.size / 2) } else { (0, self.size.div_ceil(2)) };
        let start = self.at(row) + color as usize * half;
        let (before, rest) = self.points.split_at_mut(start);
        let (own, after) = rest.split_at_mut(half);
        // Where the row of the other colour lies, of this row and of those beside it.
        let (above, same, below) = match color {
            Color::Red => (&before[start - half..], &after[..half], &after[2 * half..3 * half]),
            Color::Black => {
                let above = start - 3 * half;
                (&before[above..above + half], &before[start - half..], &after[..half])
            }
        };
        let left = if odd == 0 { first - 1 } else { first };
        Around {
            own: &mut own[first..first + count],
            above: &above[first..first + count],
            below: &below[first..first + count],
            left: &same[left..left + count],
            right: &same[left + 1..left + 1 + count],
        }
    }

    /// Where a row begins.
    fn at(&self, row: usize) -> usize {
        debug_assert!(self.rows.start <= row && row <= self.rows.end);
        (row - self.rows.start) * 2 * self.half
    }

    /// One point.
    pub(crate) fn point(&mut self, row: usize, column: usize) -> &mut f64 {
        let color = (row + column) % 2;
        let at = self.at(row) + color * self.half + column / 2;
        &mut self.points[at]
    }
}

/// What the grid is when nothing changes any more, and on its edge from the
/// beginning: `x² - y²`, which the mean of four neighbours meets exactly.
pub(crate) fn solution(size: usize, row: usize, column: usize) -> f64 {
    let scale = (size + 1) as f64;
    let (x, y) = (column as f64 / scale, row as f64 / scale);
    x * x - y * y
}

/// The larger of two changes, neither of which is below 0. What is not a number is larger
/// than all numbers, and its bits are too: a grid with such a point has not settled.
pub(crate) fn larger(one: f64, other: f64) -> f64 {
    f64::from_bits(one.to_bits().max(other.to_bits()))
}

/// How far a point goes towards its neighbours so that the grid settles soonest.
pub(crate) fn omega(size: usize) -> f64 {
    let radius = (std::f64::consts::PI / (size + 1) as f64).cos();
    2.0 / (1.0 + (1.0 - radius * radius).sqrt())
}

/// Padding of rows: as many numbers as the widest vector, so that all rows lie alike.
const LANES: usize = 8;

/// The points of one colour in a row and their neighbours, all of one length.
struct Around<'a> {
    own: &'a mut [f64],
    above: &'a [f64],
    below: &'a [f64],
    left: &'a [f64],
    right: &'a [f64],
}

impl Around<'_> {
    /// Relaxes every point; tells `seen` what is added to it.
    #[inline(always)]
    fn each(self, omega: f64, mut seen: impl FnMut(f64)) {
        let count = self.own.len();
        let (above, below) = (&self.above[..count], &self.below[..count]);
        let (left, right) = (&self.left[..count], &self.right[..count]);
        for at in 0..count {
            let mean = 0.25 * ((above[at] + below[at]) + (left[at] + right[at]));
            let change = omega * (mean - self.own[at]);
            self.own[at] += change;
            seen(change);
        }
    }

    /// Relaxes every point and returns the largest change.
    #[inline(always)]
    fn each_measured(self, omega: f64) -> f64 {
        // Of bits, for the sake of what is not a number, as `larger` says.
        let mut most = 0;
        self.each(omega, |change| most = most.max(change.abs().to_bits()));
        f64::from_bits(most)
    }
}
