"""Words that options take, here so that the client commands need not import the service; a test holds both the same."""

METHODS = (
    "batch", "dmax", "kappa", "sb", "info", "rand", "nlml", "nlpp", "vfe", "variance", "loo-cve", "nlgpp", "gpe",
)  # fmt: skip
EFFORTS = ("quick", "normal", "best")
KERNELS = ("auto", "gaussian", "matern52", "matern32", "matern12")
MEAN_ROWS = ("auto", "basis", "all")
MISSING = ("error", "drop", "impute")
DECIMALS = (",", ".")
KEEP = ("none", "others", "all")
ON_ERROR = ("refuse", "null")
EXTRAS = ("latent_std", "median", "support", "imputed")
CRITERIA = ("variance", "improvement")
GOALS = ("max", "min")
AGGREGATES = ("sum", "mean")
OVER = ("rows", "targets", "both")
JOB_STATES = ("queued", "running", "succeeded", "failed", "cancelled")
SCOPES = ("predict", "train", "admin", "monitor")
MOST_FORGOTTEN = 50_000
"""Rows that one update may forget."""
