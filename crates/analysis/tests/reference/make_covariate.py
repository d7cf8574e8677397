#!/usr/bin/env python3
"""Makes covariate.csv, with which tests/stats_covariate.rs compares the tests that are adjusted for a covariate.

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install scipy statsmodels
    /tmp/reference/bin/python make_covariate.py

Ordinary least squares by statsmodels: of the rounds' log ratios on those of the covariate (blocks), or of the logarithms on the side and
the covariate (unpaired). The covariate by itself: scipy's t tests.
"""

import pathlib
import platform

import numpy
import scipy
import scipy.stats
import statsmodels
import statsmodels.api

RNG = numpy.random.default_rng(21)
COLUMNS = "design,base,test,base_covariates,test_covariates,estimate,se,df,p,slope,explained,covariate_p"


def blocks(base, test, base_covariates, test_covariates):
    values, covariates = numpy.log(test / base), numpy.log(test_covariates / base_covariates)
    fit = statsmodels.api.OLS(values, statsmodels.api.add_constant(covariates)).fit()
    p = scipy.stats.ttest_1samp(covariates, 0).pvalue
    return fit.params[0], fit.bse[0], fit.df_resid, fit.pvalues[0], fit.params[1], fit.rsquared, p


def unpaired(base, test, base_covariates, test_covariates):
    values = numpy.log(numpy.concatenate([base, test]))
    covariates = numpy.log(numpy.concatenate([base_covariates, test_covariates]))
    side = numpy.repeat([0.0, 1.0], [len(base), len(test)])
    fit = statsmodels.api.OLS(values, numpy.column_stack([side, covariates, numpy.ones(len(side))])).fit()
    # Of the variance within the sides.
    without = statsmodels.api.OLS(values, numpy.column_stack([side, numpy.ones(len(side))])).fit()
    p = scipy.stats.ttest_ind(numpy.log(test_covariates), numpy.log(base_covariates), equal_var=False).pvalue
    return fit.params[0], fit.bse[0], fit.df_resid, fit.pvalues[0], fit.params[1], 1 - fit.ssr / without.ssr, p


def words(values):
    return " ".join(repr(float(value)) for value in values)


def main():
    lines = [f"# made by {pathlib.Path(__file__).name}: Python {platform.python_version()}, scipy {scipy.__version__}, statsmodels {statsmodels.__version__}, numpy {numpy.__version__}", COLUMNS]
    for design in (blocks, unpaired):
        for _ in range(60):
            base_n = int(RNG.integers(3, 25))
            test_n = base_n if design is blocks else int(RNG.integers(2, 25))
            slope, effect, noise, moved = RNG.uniform(-1, 3), RNG.normal(0, 0.1), 10 ** RNG.uniform(-3, -1), RNG.normal(0, 0.05)
            sides = []
            for n, of_value, of_covariate in ((base_n, 0, 0), (test_n, effect, moved)):
                covariates = of_covariate + RNG.normal(0, 0.1, n)
                values = of_value + slope * covariates + RNG.normal(0, noise, n)
                sides += [1000 * numpy.exp(values), 5 * numpy.exp(covariates)]
            base, base_covariates, test, test_covariates = sides
            found = design(base, test, base_covariates, test_covariates)
            lines.append(",".join([design.__name__, words(base), words(test), words(base_covariates), words(test_covariates), *(repr(float(value)) for value in found)]))
    pathlib.Path(__file__).with_name("covariate.csv").write_text("\n".join(lines) + "\n")


main()
