//! Many tests at once: the false discovery rate of Benjamini and Hochberg.

/// q values: the smallest false discovery rate at which each test would be called significant.
///
/// With the m p values in ascending order, q_(i) = min over j >= i of p_(j) / (j / m), at most 1. Y. Benjamini and
/// Y. Hochberg, "Controlling the false discovery rate", JRSS B 57 (1995). The rate is controlled for independent tests
/// and for those with positive regression dependence; if all hypotheses are null it is the probability of any false
/// finding. The division is done in the order of statsmodels' `multipletests(method="fdr_bh")`, so that results agree
/// to the bit (R's `p.adjust` multiplies by m / j instead, which can differ in the last bit).
///
/// `None` and NaN are not tests: they get no q and do not count in m, as in R.
pub fn benjamini_hochberg(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> =
        p.iter().enumerate().filter_map(|(i, p)| p.filter(|p| !p.is_nan()).map(|p| (i, p))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let m = order.len() as f64;
    let mut q = vec![None; p.len()];
    let mut least = f64::INFINITY;
    for (rank, (index, p)) in order.iter().enumerate().rev() {
        least = least.min(p / ((rank + 1) as f64 / m));
        if let Some(slot) = q.get_mut(*index) {
            *slot = Some(least.min(1.0));
        }
    }
    q
}
