use std::ops::Range;

use proptest::prelude::*;

use super::grid::{Grid, omega, solution};
use super::plan::{SettleRule, SorPass, SorPlan};
use super::sequential::solve;
use super::sweep::Sweep;

/// The program as the definition says it: all red points, then all black ones.
struct Naive {
    size: usize,
    points: Vec<Vec<f64>>,
}

impl Naive {
    fn new(size: usize) -> Self {
        let inner = 1..=size;
        let point = |row, column| match inner.contains(&row) && inner.contains(&column) {
            true => 0.0,
            false => solution(size, row, column),
        };
        let row = |row| (0..size + 2).map(|column| point(row, column)).collect();
        Self { size, points: (0..size + 2).map(row).collect() }
    }

    fn iterate(&mut self) -> f64 {
        let mut most = 0.0_f64;
        for color in 0..2 {
            for (row, column) in (1..=self.size).flat_map(|r| (1..=self.size).map(move |c| (r, c)))
            {
                if (row + column) % 2 != color {
                    continue;
                }
                let p = &self.points;
                let mean = 0.25
                    * ((p[row - 1][column] + p[row + 1][column])
                        + (p[row][column - 1] + p[row][column + 1]));
                let change = omega(self.size) * (mean - p[row][column]);
                self.points[row][column] += change;
                most = most.max(change.abs());
            }
        }
        most
    }

    /// The first point that is not the same, bit for bit.
    fn differs(&self, grid: &mut Grid, rows: Range<usize>) -> Option<(usize, usize)> {
        let all = rows.flat_map(|row| (0..self.size + 2).map(move |column| (row, column)));
        let mut all = all.into_iter();
        all.find(|&(row, column)| {
            grid.point(row, column).to_bits() != self.points[row][column].to_bits()
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    /// Whatever the size, the depth and where it is looked at: the same bits as by
    /// the definition.
    #[test]
    fn the_sequential_program_is_the_definition(
        size in 1_usize..40, iterations in 1_u32..24, depth in 1_u32..10,
        every in proptest::option::of(1_u32..12),
    ) {
        let until = every.map(|every| SettleRule { change: -1.0, every });
        let plan = SorPlan { iterations, depth, until };
        let mut grid = Grid::new(size, 0..size + 2);
        let mut naive = Naive::new(size);
        let mut change = 0.0;
        for _ in 0..iterations {
            change = naive.iterate();
        }
        match solve(&mut grid, &plan, |_| Ok(())) {
            Ok(ended) => prop_assert_eq!(ended.iterations, iterations),
            Err(crate::AppError::NotConverged { change: told, .. }) => {
                prop_assert_eq!(told.to_bits(), f64::to_bits(change));
            }
            Err(other) => panic!("{other}"),
        }
        prop_assert_eq!(naive.differs(&mut grid, 0..size + 2), None);
    }

    /// A block of rows with the borders of its neighbours gives the same bits, and
    /// needs each border no earlier, and each of its own rows is final no later,
    /// than it says.
    #[test]
    fn a_block_needs_its_borders_when_it_says(
        rows in 2_usize..20, above in 0_usize..20, below in 0_usize..20, depth in 1_u32..6,
        down: bool, before in 0_u32..3,
    ) {
        let size = above + rows + below;
        let own = above + 1..above + 1 + rows;
        let mut naive = Naive::new(size);
        (0..before).for_each(|_| _ = naive.iterate());
        let pass = SorPass { depth, down, measured: true };
        let reach = pass.reach();
        let borders = own.start.saturating_sub(reach)..(own.end + reach).min(size + 2);
        let mut grid = Grid::new(size, borders.clone());
        let fill = |grid: &mut Grid, naive: &Naive, rows: Range<usize>| {
            for row in rows {
                (0..size + 2).for_each(|column| *grid.point(row, column) = naive.points[row][column]);
            }
        };
        fill(&mut grid, &naive, borders.clone());
        let far = if down { own.end..borders.end } else { borders.start..own.start };
        grid.span_mut(far.clone()).fill(f64::NAN);
        let mut sweep = Sweep::new(own.clone(), &pass, omega(size));
        sweep.advance(&mut grid, sweep.far());
        fill(&mut grid, &naive, far);
        let mut change = 0.0_f64;
        (0..depth).for_each(|_| change = naive.iterate());
        for count in 1..=rows {
            sweep.advance(&mut grid, sweep.near(count));
            let done = if down { own.start..own.start + count } else { own.end - count..own.end };
            prop_assert_eq!(naive.differs(&mut grid, done), None);
        }
        sweep.advance(&mut grid, usize::MAX);
        prop_assert_eq!(naive.differs(&mut grid, own.clone()), None);
        prop_assert!(sweep.change() <= change);
        if own == (1..size + 1) {
            prop_assert_eq!(sweep.change().to_bits(), change.to_bits());
        }
    }
}

#[test]
fn a_grid_that_settles_is_the_solution() {
    let size = 65;
    let plan = SorPlan {
        iterations: 10_000,
        depth: 4,
        until: Some(SettleRule { change: 1e-13, every: 7 }),
    };
    let mut grid = Grid::new(size, 0..size + 2);
    let ended = solve(&mut grid, &plan, |_| Ok(())).unwrap();
    assert!(ended.iterations.is_multiple_of(7) && ended.iterations < 1000, "{ended:?}");
    for (row, column) in (1..=size).flat_map(|row| (1..=size).map(move |column| (row, column))) {
        let off = (*grid.point(row, column) - solution(size, row, column)).abs();
        assert!(off < 1e-10, "{off} at {row}, {column}");
    }
}

#[test]
fn a_grid_with_a_point_that_is_no_number_has_not_settled() {
    for (row, column) in [(1, 1), (9, 20), (20, 20), (13, 8)] {
        let plan = SorPlan {
            iterations: 100,
            depth: 2,
            until: Some(SettleRule { change: 1e9, every: 1 }),
        };
        let mut grid = Grid::new(20, 0..22);
        *grid.point(row, column) = f64::NAN;
        match solve(&mut grid, &plan, |_| Ok(())) {
            Err(crate::AppError::NotConverged { iterations: 1, change }) => {
                assert!(change.is_nan());
            }
            other => panic!("{row}, {column}: {other:?}"),
        }
    }
}
