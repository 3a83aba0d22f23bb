"""Pieces of the predictor file: lines of Python, of which a model's file has those that it needs.

Functions of cells to inputs give columns of the design matrix, with `inf` in rows that the service refuses and NaN in
those that it integrates over.
"""

from typing import Final

from core.hyperparameters import KernelFamily
from core.spec import TargetTransform

HEAD: Final = """
from pathlib import Path
import numpy as np

m = dict(np.load(Path(__file__).with_name("model.npz"), allow_pickle=False))
"""
FRACTION: Final = "from fractions import Fraction\n"
PLAIN_NUMBER: Final = """
def number(cells):
    x = np.array(cells, float)
    return np.where(np.isnan(x), np.inf, x)
"""
NUMBER: Final = """
def number(cells, missing=np.inf, mark=False, void=()):
    x = np.array(cells, float)
    absent = np.isnan(x) | np.isin(x, void)
    x = np.where(absent, missing, x)
    return np.column_stack([x, absent] if mark else [x])
"""
BOOLEAN: Final = """
def boolean(cells, void=(), **how):
    x = np.array(cells, float)
    return number(np.where(np.isin(x, (0, 1, *void)) | np.isnan(x), x, np.inf), void=void, **how)
"""
INTEGER: Final = """
def integer(cells, offset, void=(), **how):
    known = [None if c is None or c != c or c in void else c for c in cells]
    return number([None if c is None else float(Fraction(c) - offset) for c in known], **how)
"""
CATEGORY: Final = """
def category(cells, place):
    index = dict(zip(m[f"levels_{place}"].tolist(), m[f"places_{place}"].tolist()))
    texts = ["" if c is None or c != c else str(c).lower() if c is True or c is False else str(c) for c in cells]
    return m[f"table_{place}"][[index.get(text.strip(" \\t\\n\\r\\v\\f"), -1) for text in texts]]
"""
DATE: Final = """
def date(cells, missing=np.inf, mark=False, void=(), cycles=()):
    t = np.array(cells, "datetime64[us]").astype(np.int64)
    absent = np.isin(t, (-(2**63), *void))
    days = np.where(absent, missing, t / 86_400e6)
    t = np.round(np.where(np.isfinite(days), days, 0) * 86_400e6).astype(np.int64)
    year = t.astype("datetime64[us]").astype("datetime64[Y]")
    begin, end = (y.astype("datetime64[us]").astype(np.int64) for y in (year, year + 1))
    turns = {"day": t % 86_400_000_000 / 86_400e6, "week": (t - 345_600_000_000) % 604_800_000_000 / 604_800e6}
    turns["year"] = (t - begin) / (end - begin)
    parts = [f(2 * np.pi * turns[cycle]) for cycle in cycles for f in (np.sin, np.cos)]
    x = np.column_stack([days, *parts, *([absent] if mark else [])])
    x[np.isnan(days)] = np.nan
    return x
"""
SCALED: Final = """
def scaled(x, of=""):
    return np.clip((x - m[of + "shift"]) / m[of + "scale"], -1e100, 1e100) * m[of + "roots"]

def distance(a, b):
    return (a * a).sum(-1)[..., None] + (b * b).sum(-1)[..., None, :] - 2 * a @ b.swapaxes(-1, -2)
"""
POWERED: Final = """
def powered(x, of=""):
    x, j, (centre, unit, power) = x.copy(), m[of + "powered"], m[of + "powers"]
    u = (x[:, j] - centre) / unit
    e = np.where(u < 0, 2 - power, power)
    x[:, j] = np.copysign(np.expm1(np.minimum(e * np.log1p(np.abs(u)), 700)) / e, u)
    return x
"""
KERNELS: Final = {
    KernelFamily.GAUSSIAN: """
def kernel(R, v0):
    return v0 * np.exp(-np.clip(R, 0, 700))
""",
    KernelFamily.MATERN52: """
def kernel(R, v0):
    c = np.minimum(np.sqrt(10 * np.maximum(R, 0)), 700)
    return v0 * (1 + c + c * c / 3) * np.exp(-c)
""",
    KernelFamily.MATERN32: """
def kernel(R, v0):
    c = np.minimum(np.sqrt(6 * np.maximum(R, 0)), 700)
    return v0 * (1 + c) * np.exp(-c)
""",
    KernelFamily.MATERN12: """
def kernel(R, v0):
    return v0 * np.exp(-np.minimum(np.sqrt(2 * np.where(R < 1e-12, 0, R)), 700))
""",
}
GAUSSIAN_NOISE: Final = """
def gaussian(R, v0):
    return v0 * np.exp(-np.clip(R, 0, 700))
"""
NEAR: Final = """
def near_variance(x, R):
    n = min({nearest}, len(m["alpha"]))
    near = np.argpartition(R, n - 1, axis=1)[:, :n]
    X = np.concatenate([m["centres"][near], x[:, None]], axis=1)
    K = kernel(distance(X, X), {signal}) + {bias}
    i = np.arange(n + 1)
    K[:, i, i] = {signal} + {bias} + np.column_stack([m["near_noise"][near], np.zeros(len(x))])
    return np.linalg.cholesky(K)[:, -1, -1] ** 2
"""
TRANSFORMS: Final = {
    TargetTransform.NONE: """
def unbounded(t):
    return t
""",
    TargetTransform.LOG: """
def unbounded(t):
    return np.minimum(np.exp(np.minimum(t, 700)), 1e150)
""",
    TargetTransform.LOG1P: """
def unbounded(t):
    return np.minimum(np.expm1(np.minimum(t, 700)), 1e150)
""",
    TargetTransform.YEO_JOHNSON: """
def box_cox_inverse(t, power):
    if abs(power) < 1e-8:
        return np.minimum(np.expm1(np.minimum(t, 700)), 1e150)
    reached = power * t > -1
    u = np.log1p(np.where(reached, power * t, 0)) / power
    return np.where(reached, np.minimum(np.expm1(np.minimum(u, 700)), 1e150), 1e150)

def unbounded(t):
    above, below = box_cox_inverse(np.maximum(t, 0), {power}), box_cox_inverse(np.maximum(-t, 0), 2 - {power})
    return np.where(t >= 0, above, -below) * {scale} + {shift}
""",
    TargetTransform.RANK_NORMAL: """
def unbounded(t):
    first, last = m["knots"][[0, -1]]
    inside = np.clip(t, first, last)
    piece = np.searchsorted(m["knots"][1:-1], inside, side="right")
    past, (a, b, c, d) = inside - m["knots"][piece], np.moveaxis(m["cubics"][piece], -1, 0)
    low, high = np.clip(t - first, -1e100, 0), np.clip(t - last, 0, 1e100)
    return ((a * past + b) * past + c) * past + d + {low} * low + {high} * high
""",
}
MOMENTS_NONE: Final = """
def moments(t, v):
    return within(t), v
"""
MOMENTS_LOG: Final = """
def moments(t, v):
    v = np.minimum(v, {widest} ** 2)
    level = np.minimum(np.exp(np.minimum(t + v / 2, 700)), 1e150)
    spread = np.exp(np.minimum(2 * t + 2 * v + np.log(-np.expm1(-v)), 690))
    return within(np.clip(level - {less}, {least_mean}, {greatest_mean})), np.minimum(spread, 1e300)
"""
MOMENTS_SUM: Final = """
def moments(t, v):
    v = np.minimum(v, {widest} ** 2)
    values = unbounded(t[:, None] + np.sqrt(v)[:, None] * m["nodes"])
    level = values @ m["weights"]
    return within(np.clip(level, {least_mean}, {greatest_mean})), np.square(values - level[:, None]) @ m["weights"]
"""
ANSWER_PLAIN: Final = """
def std(t, v):
    return {std_factor} * np.sqrt(v)

def at(t, v, deviations):
    return t + deviations * np.sqrt(v)
"""
WITHIN: Final = """
def within(y):
    return np.clip(y, {lowest}, {highest})
"""
ANSWER: Final = """
def at(t, v, deviations):
    return within(unbounded({start} + deviations * np.sqrt(v)))

def std(t, v):
    raw, width = np.sqrt(moments(t, v)[1]), at(t, v, {std_above}) - at(t, v, {std_below})
    normal = np.maximum(width / {normal_width}, {least_std} * raw)
    return np.clip(raw, {std_range[0]} * normal, {std_range[1]} * normal)
"""
PROCESS: Final = """
def process(x):
    {lines}
"""
PREDICT: Final = """
def predict(columns):
    try:
        x = inputs(columns)
    except KeyError:
        raise ValueError("columns are missing: " + repr([each for each in {columns} if each not in columns])) from None
    parts = [answers(x[i : i + {rows}]) for i in range(0, max(1, len(x)), {rows})]
    return {{name: np.concatenate(each) for name, each in zip({names}, zip(*parts))}}

def answers(x):
    refused = np.isinf(x).any(axis=1)
    found = {answer}(np.where(refused[:, None], 0, x))
    return [np.where(refused, np.nan, values) for values in found]
"""
TOLD: Final = """
def told(x):
    t, v = process(x)
    return [{mean}, std(t, v), at(t, v, {below}), at(t, v, {above})]
"""
TOLD_MEAN: Final = """
def told(x):
    return [within(process(x))]
"""
MIXED: Final = """
def mixed(x):
    gaps = np.isnan(x).any(axis=1)
    found = np.empty(({outputs}, len(x)))
    found[:, ~gaps] = told(x[~gaps])
    if gaps.any():
        found[:, gaps] = mixture(x[gaps])
    return found

def scores(x):
    z = (x - m["donor_centre"]) / m["donor_scale"]
    for j in range(x.shape[1]):
        own = m[f"values_{{j}}"]
        if m["fixed"][j]:
            z[(x[:, j] < own[0]) | (x[:, j] > own[-1]), j] = 0
        else:
            z[:, j] = np.interp(x[:, j], own, m[f"scores_{{j}}"])
    return z

def slopes_of(known, gone):
    C, n = m["correlations"], len(m["donors"]) - len(known) - 1
    C_ok, C_om = C[np.ix_(known, known)], C[np.ix_(known, gone)]
    B = np.linalg.solve(C_ok, C_om)
    if len(known) and n > 0:
        R2 = np.clip((C_om * B).sum(axis=0), 0, 1 - 1e-12)
        F = np.maximum(R2 / len(known), 1e-12) / ((1 - R2) / n)
        B *= np.maximum(0, 1 - ({least_f} / F) ** 2)
    else:
        B *= 0
    crossed = C_om.T @ B
    L = np.linalg.cholesky(C[np.ix_(gone, gone)] - crossed - crossed.T + B.T @ C_ok @ B)
    h = np.where(m["movable"][gone], {moved_bandwidth}, {copied_bandwidth})
    return B, np.linalg.solve(L, (B / h).T).T

def weights_of(gap):
    squares = np.square(gap).sum(axis=2)
    squares -= squares.min(axis=1, keepdims=True)
    scale = np.full((len(squares), 1), 0.5)
    for _ in range({widenings}):
        w = np.exp(-scale * squares)
        few = w.sum(axis=1) ** 2 < min({least_donors}, squares.shape[1] / 2) * (w * w).sum(axis=1)
        scale[few] /= {wider} ** 2
    return np.exp(-scale * squares)

def complete(x, absent):
    donors, Z, out = m["donors"], m["donor_scores"], np.repeat(x[:, None], {components}, axis=1)
    steps = (np.arange({components}) + 0.5) / {components}
    for pattern in np.unique(absent, axis=0):
        rows = np.flatnonzero((absent == pattern).all(axis=1))
        known, gone = np.flatnonzero(~pattern[m["features"]]), np.flatnonzero(pattern[m["features"]])
        B, slopes = slopes_of(known, gone)
        z = scores(np.where(np.isnan(x[rows]), 0, x[rows]))[:, known]
        sums = np.cumsum(weights_of((z @ slopes)[:, None] - Z[:, known] @ slopes), axis=1)
        for row, own, total in zip(rows, z, sums):
            taken = np.searchsorted(total, steps * total[-1])
            out[row][:, gone] = donors[taken][:, gone]
            for place, j in enumerate(gone):
                if m["movable"][j]:
                    moved = Z[taken, j] + (own - Z[taken][:, known]) @ B[:, place]
                    out[row][:, j] = np.interp(moved, m[f"scores_{{j}}"], m[f"values_{{j}}"])
    return out
"""
MIXTURE: Final = """
def mixture(x):
    absent = np.isnan(x[:, m["starts"]])
    t, v = process(complete(x, absent).reshape(-1, x.shape[1]))
    t = t + np.repeat((absent * m["shifts"]).sum(axis=1), {components})
    means, stds = ({mean}).reshape(-1, {components}), std(t, v).reshape(-1, {components})
    mean = means.mean(axis=1)
    spread = np.sqrt(np.square(means - mean[:, None]).mean(axis=1) + np.square(stds).mean(axis=1))
    return [mean, spread, quantile(t, v, {lower_p}, {below}), quantile(t, v, {upper_p}, {above})]

def quantile(t, v, probability, deviations):
    t, sd = t.reshape(-1, {components}), np.sqrt(v).reshape(-1, {components})
    low, high = (end(t + deviations * sd, axis=1) for end in (np.min, np.max))
    for _ in range(100):
        middle = low + (high - low) / 2
        below = np.interp((middle[:, None] - t) / sd, m["cdf_scores"], m["cdf"]).mean(axis=1) < probability
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return {bring_back}
"""
MIXTURE_MEAN: Final = """
def mixture(x):
    absent = np.isnan(x[:, m["starts"]])
    means = within(process(complete(x, absent).reshape(-1, x.shape[1])))
    return [means.reshape(-1, {components}).mean(axis=1) + (absent * m["shifts"]).sum(axis=1)]
"""
