//! The least-squares fit of hosts and days to a table with holes.

/// Relative size of what may be left of the equations, and the turns after which the fit gives up. In exact arithmetic
/// conjugate gradients end after as many turns as there are days.
const TOLERANCE: f64 = 1e-12;
const MOST_TURNS: usize = 10_000;

/// The mean of one host on one day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cell {
    pub host: usize,
    pub day: usize,
    pub value: f64,
}

/// The levels of days, for the mean host.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fit {
    /// Per day its level; `None` for days outside the largest set that hosts connect.
    pub day_levels: Vec<Option<f64>>,
    /// Whether the equations were solved.
    pub is_settled: bool,
}

/// Fits value = host + day by least squares, each cell counting once, to the largest set of days that common hosts connect.
///
/// The hosts' levels are eliminated from the normal equations, which leaves one equation per day:
/// sum over the day's cells of (b_d - mean of b over the cell's host) = sum over them of (y - mean of y over the host). The
/// matrix is symmetric and positive semidefinite; a constant added to all days changes nothing and stays out of the iteration.
/// Solved by conjugate gradients (M. R. Hestenes and E. Stiefel, Journal of Research of the NBS 49, 1952), at a cost of
/// one pass over the cells a turn, and without a matrix of days.
pub(super) fn additive_fit(cells: &[Cell], hosts: usize, days: usize) -> Fit {
    let connected = largest_component(cells, hosts, days);
    let cells: Vec<Cell> = cells.iter().copied().filter(|cell| connected.get(cell.day) == Some(&true)).collect();
    let table = Table::of(&cells, hosts, days);
    let values: Vec<f64> = cells.iter().map(|cell| cell.value).collect();
    let host_means = table.host_means(|at| values.get(at).copied().unwrap_or(0.0));
    let target = table.day_sums(|at, cell| values.get(at).copied().unwrap_or(0.0) - of(&host_means, cell.host));
    let (effects, is_settled) = table.solve(&target);
    // Means of hosts without their days: the level of the mean host.
    let levels = table.host_means(|at| cells.get(at).map_or(0.0, |cell| cell.value - of(&effects, cell.day)));
    let present = levels.iter().zip(&table.cells_of_host).filter(|(_, count)| **count > 0.0);
    let (sum, count) = present.fold((0.0, 0.0), |(sum, count), (level, _)| (sum + level, count + 1.0));
    let number = connected.iter().filter(|is| **is).count() as f64;
    let mean_effect =
        effects.iter().zip(&connected).filter(|(_, is)| **is).map(|(effect, _)| effect).sum::<f64>() / number.max(1.0);
    let centre = if count > 0.0 { sum / count + mean_effect } else { 0.0 };
    let day_levels =
        effects.iter().zip(&connected).map(|(effect, is)| is.then_some(centre + effect - mean_effect)).collect();
    Fit { day_levels, is_settled }
}

fn of(values: &[f64], at: usize) -> f64 {
    values.get(at).copied().unwrap_or(0.0)
}

struct Table<'a> {
    cells: &'a [Cell],
    cells_of_host: Vec<f64>,
    days: usize,
}

impl<'a> Table<'a> {
    fn of(cells: &'a [Cell], hosts: usize, days: usize) -> Self {
        let mut cells_of_host = vec![0.0; hosts];
        for cell in cells {
            if let Some(count) = cells_of_host.get_mut(cell.host) {
                *count += 1.0;
            }
        }
        Self { cells, cells_of_host, days }
    }

    /// Means over the cells of each host; 0 without one.
    fn host_means(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.cells_of_host.len()];
        for (at, cell) in self.cells.iter().enumerate() {
            if let Some(sum) = sums.get_mut(cell.host) {
                *sum += value(at);
            }
        }
        sums.iter().zip(&self.cells_of_host).map(|(sum, count)| sum / count.max(1.0)).collect()
    }

    /// Sums over the cells of each day.
    fn day_sums(&self, value: impl Fn(usize, &Cell) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.days];
        for (at, cell) in self.cells.iter().enumerate() {
            if let Some(sum) = sums.get_mut(cell.day) {
                *sum += value(at, cell);
            }
        }
        sums
    }

    /// The left side of the equations for these effects of days.
    fn apply(&self, effects: &[f64]) -> Vec<f64> {
        let means = self.host_means(|at| self.cells.get(at).map_or(0.0, |cell| of(effects, cell.day)));
        self.day_sums(|_, cell| of(effects, cell.day) - of(&means, cell.host))
    }

    /// Effects of days that fulfil the equations, and whether they do.
    fn solve(&self, target: &[f64]) -> (Vec<f64>, bool) {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut effects = vec![0.0; target.len()];
        let mut rest = target.to_vec();
        let mut direction = rest.clone();
        let mut square = dot(&rest, &rest);
        let limit = TOLERANCE * TOLERANCE * square;
        for _ in 0..MOST_TURNS {
            if square <= limit || square <= f64::MIN_POSITIVE {
                return (effects, true);
            }
            let applied = self.apply(&direction);
            let curvature = dot(&direction, &applied);
            if curvature <= 0.0 {
                break;
            }
            let step = square / curvature;
            for ((effect, rest), (way, applied)) in
                effects.iter_mut().zip(&mut rest).zip(direction.iter().zip(&applied))
            {
                *effect += step * way;
                *rest -= step * applied;
            }
            let next = dot(&rest, &rest);
            for (way, rest) in direction.iter_mut().zip(&rest) {
                *way = rest + next / square * *way;
            }
            square = next;
        }
        // Rounding may keep the rest above a limit that is as strict as double precision.
        let scale = dot(target, target);
        (effects, square <= 1e-16 * scale)
    }
}

/// Which days belong to the set, of those that hosts connect, that has the most days; of equal ones the earliest.
fn largest_component(cells: &[Cell], hosts: usize, days: usize) -> Vec<bool> {
    // One node per day and, behind them, one per host.
    let mut parent: Vec<usize> = (0..days + hosts).collect();
    for cell in cells {
        let (a, b) = (root(&mut parent, cell.day), root(&mut parent, days + cell.host));
        if let Some(slot) = parent.get_mut(b) {
            *slot = a;
        }
    }
    let mut has_cells = vec![false; days];
    for cell in cells {
        if let Some(has) = has_cells.get_mut(cell.day) {
            *has = true;
        }
    }
    let roots: Vec<Option<usize>> =
        has_cells.iter().enumerate().map(|(day, has)| has.then(|| root(&mut parent, day))).collect();
    let size = |of: usize| roots.iter().filter(|root| **root == Some(of)).count();
    // The last of equal maxima is taken, so from the latest to the earliest.
    let largest = roots.iter().rev().flatten().copied().max_by_key(|root| size(*root));
    roots.iter().map(|root| root.is_some() && *root == largest).collect()
}

/// The representative of a node; paths are halved on the way.
fn root(parent: &mut [usize], mut node: usize) -> usize {
    while let Some(&above) = parent.get(node) {
        if above == node {
            break;
        }
        let next = parent.get(above).copied().unwrap_or(above);
        if let Some(slot) = parent.get_mut(node) {
            *slot = next;
        }
        node = next;
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(cells: &[(usize, usize, f64)], hosts: usize, days: usize) -> Vec<Option<f64>> {
        let cells: Vec<Cell> =
            cells.iter().map(|(host, day, value)| Cell { host: *host, day: *day, value: *value }).collect();
        let fit = additive_fit(&cells, hosts, days);
        assert!(fit.is_settled);
        fit.day_levels
    }

    /// Host 0 is there at first, host 1 later, host 2 throughout: the plain means rise by 50, the days by 1.
    #[test]
    fn hosts_that_come_and_go_do_not_move_the_days() {
        let cells = [
            (0, 0, 10.0),
            (2, 0, 50.0),
            (0, 1, 10.0),
            (2, 1, 50.0),
            (1, 2, 101.0),
            (2, 2, 51.0),
            (1, 3, 101.0),
            (2, 3, 51.0),
        ];
        let found = levels(&cells, 3, 4);
        let expected = [53.333_333, 53.333_333, 54.333_333, 54.333_333];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found.unwrap() - expected).abs() < 1e-5, "{found:?} {expected}");
        }
    }

    #[test]
    fn days_that_nothing_connects_have_no_level() {
        let cells = [(0, 0, 1.0), (0, 1, 2.0), (0, 2, 3.0), (1, 4, 7.0), (1, 5, 8.0)];
        let found = levels(&cells, 2, 6);
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, true, false, false, false]);
        assert!(levels(&[], 0, 0).is_empty());
    }

    #[test]
    fn a_table_without_noise_is_met_exactly() {
        let (hosts, days) = (40, 60);
        let day = |day: usize| (day as f64 * 0.7).sin();
        let mut cells = Vec::new();
        for host in 0..hosts {
            // Each host is there for six days only: a long chain.
            for at in (host..host + 6).filter(|at| *at < days) {
                cells.push((host, at, 3.0 * host as f64 + day(at)));
            }
        }
        let found = levels(&cells, hosts, days);
        let first = found[0].unwrap() - day(0);
        for (at, level) in found.iter().enumerate().take(hosts + 5) {
            assert!((level.unwrap() - day(at) - first).abs() < 1e-7, "day {at}: {level:?}");
        }
    }
}
