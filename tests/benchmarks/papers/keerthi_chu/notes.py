"""The page's own words: what was done, what was chosen, why a number differs."""

from collections.abc import Mapping

FIGURE = """\
10,000 random rows for training and the other 30,000 for the test, as in the paper. Every method at the same
hyperparameters, those of a full GP on 2,000 rows, with DTC. BATCH is ours: a pool of max(4 d, 1000) rows, chosen by the
gain of SB. The paper has no table of these values, so what its text says of the figure is what is compared, below. Its
NLPD axis goes from -.4 to -1.8, which cannot be NLPD of this target at unit variance: with errors of one size that
needs an NMSE of .002 (NLPD is at least log(2 pi e NMSE) / 2), and no method comes near that, here or on its NMSE axis.
So the paper's target had another scale or a constant was left out, and only the order and the distances compare.

Seconds are not those of the paper's formulas, because one multiply-add does not cost what another does. Taking a row in
(RAND one by one, INFO, KAPPA, DMAX, SB) reads the whole factor for one vector and waits for memory; scoring the 59
candidates of SB, and fitting a whole basis at once, are matrix products, where a multiply-add costs about a
sixth of that. So SB is far less than 60 times slower than INFO, and RAND, which alone need not go one by one, is far
faster than INFO."""

TABLE = """\
d = 500; the same partitions for every column. FIXED-SB: hyperparameters of a full GP on 2,000 random training
rows. ADAPT-INFO and ADAPT-DMAX: alternating choosing and moving, DTC. Ours: the same alternation with `batch`, by DTC,
FITC, VFE and power EP with power .7; the last with all defaults of a training, whose calibrated error bars are what a
user gets. With five partitions in place of the paper's 20 the rank sum test reaches .01 only where all five of one
column are beyond all five of the other."""

NLPD_SCALE = """\
Published NLPD is on the scale of the raw target, but much of it is not that of a new target. With noise, NLPD of a
Gaussian whose variance fits is log(2 pi e NMSE var(y)) / 2: -2.1 for bank8FM, 2.4 for cpu_small, 12.3 for cal_housing,
and ours are there. Published, at the same NMSE, are .67 to 3.11, 3.0 to 5.2 and 13.0 to 31.8, which no new target's
NLPD can be if error bars are anywhere near right. The paper gives the predictive distribution as that of f(x), whose
variance has no noise in it, and with that variance our models come to large numbers too, in the paper's order on all
four sets where the noise is small (FIXED-SB, ADAPT-INFO, ADAPT-DMAX falling). They hang on the inverse of a small
variance, so their size is not reproduced: on bank8FM and the cpu sets ours are two to six times the printed ones, and
by distance the other reading is often the nearer. No reading gives all of the printed numbers. So a number of ours
with the noise included that is lower than a published one is no merit of the method there, and the distances between
the three columns are much smaller for new targets than the paper's table says."""

CHOICES = """\
- **Hyperparameters of Figure 1**: one full GP on 2,000 rows of the classical training part, from `theta.json`
  beside the sets, for all partitions; no bias.
- **Full GP of FIXED-SB**: 30 evaluations on the 2,000 rows, from the better of two descents on 500 of them.
- **Start of the adapted columns**: Pursuit's own, a full GP on 500 and then 1,000 rows.
- **Length of the adaptation** ("a short gradient based adaptation"): 3 rounds of 20 evaluations, the second round
  twice, once from lengthscales half as long; the pair of basis and hyperparameters with the lowest objective is kept,
  and a basis is chosen once more at the end. The default column has its default of at most 5 rounds.
- **Objective**: that of DTC for the paper's columns, as in its section 4.
- **Standardization**: inputs and target by mean and deviation of the training rows; NLPD is of the raw target again.
- **Cache of DMAX**: c = d as in the paper (Pursuit's default is at least 500); after an adaptation the last basis is in
  it from the start. Fresh candidates are drawn without replacement until every row was seen.
- **Seconds of Figure 1**: of one processor, choosing and then a fit of the whole basis. DMAX and BATCH are run anew for
  every d, since their cache and pool depend on it; the others are timed at the sizes shown and scored on the first d
  rows of the largest.
- **NLPD without noise**: a latent variance is held above 1e-12 of the target's.
- **Not remade**: the Outaouais set, which is not among ours; its test targets were held by a challenge's organizers."""

_OPTIMA = """\
The objective of DTC has several optima, and the paper does not say where its descents begin. Our rounds descend a
second time from lengthscales half as long and keep the lower objective. """
_TOO_SHORT = """\
Here that is harmful: the lower objective has the higher NMSE and error bars far too wide (house_8L, ADAPT-DMAX on
one partition: 46.8; one round of 60 evaluations without a second descent 39.5; with a basis of DMAX at a rule of
thumb's long lengthscales, and no adaptation at all, 34.4). DTC does not charge for the variance that its basis
leaves, so it may prefer lengthscales too short for 500 vectors; VFE, which does charge for it, ends at the
published NMSE."""
_PRICE = """\
Power EP counts .7 of the variance outside the basis as noise where it arises, and probably prefers shorter
lengthscales than 500 vectors can follow (not tried): better than VFE in NLPD before calibration, worse in NMSE.
With VFE, one word of the specification, NMSE is the published one and the calibrated NLPD lower too."""
_BANK = """\
A tenth of a percent past one published deviation; which 4,500 of the 8,192 rows train moves it as much (batch with DTC:
3.58 on the first two partitions)."""
_BANK_32 = """\
As on the house sets: DTC's objective prefers lengthscales too short for 500 vectors of 32 columns. VFE gets 42.7, our
default 44.2, both below the paper's best."""
WHY: Mapping[tuple[str, str], str] = {
    ("bank8FM", "fixed-sb"): _BANK,
    ("bank8FM", "adapt-dmax"): _BANK,
    ("bank8FM", "batch-pep"): _BANK,
    ("bank32nh", "adapt-info"): _BANK_32,
    ("bank32nh", "adapt-dmax"): _BANK_32,
    ("cal_housing", "fixed-sb"): "Just past one published deviation: other partitions and other 2,000 rows.",
    ("cal_housing", "adapt-dmax"): _OPTIMA
    + "Here that lowers NMSE (one round of 60 without it: 23.0, one partition): BATCH to 19 on all, DMAX on one.",
    ("house_8L", "fixed-sb"): "Just past one published deviation; ours depends on the 2,000 rows, from 40 to 49.",
    ("house_8L", "adapt-info"): _OPTIMA + _TOO_SHORT,
    ("house_8L", "adapt-dmax"): _OPTIMA + _TOO_SHORT,
    ("house_16H", "adapt-info"): _OPTIMA + _TOO_SHORT,
    ("house_16H", "adapt-dmax"): _OPTIMA + _TOO_SHORT,
    ("house_8L", "batch-pep"): _PRICE,
}
"""Reasons for a set and a column whose NMSE is worse than the published one, each with what was seen."""
