"""Published numbers of Seeger, Williams & Lawrence 2003. Errors carry their factor 1/2."""

SIZES = (100, 200, 300, 400, 500, 1_000, 1_250)
SECONDS = {
    2_000: {
        "info": (1.0, 2.0, 5.0, 9.0, 13.5, 53.5, 85.0),
        "rand": (1.0, 2.0, 4.0, 7.0, 11.0, 48.0, 76.0),
        "sb": (17.0, 54.0, 110.0, 185.0, 281.0, 1_088.0, 1_714.5),
    },
    10_000: {
        "info": (5.0, 13.0, 25.5, 42.0, 62.5, 230.0, 352.0),
        "rand": (3.0, 10.0, 21.0, 35.5, 55.0, 215.0, 338.5),
        "sb": (88.0, 265.0, 530.5, 885.0, 1_327.5, 4_977.0, 7_794.5),
    },
}
"""Table 1: kin-40k, by training rows, method, active set size."""
CANDIDATES = 30
"""Section 4.1: the random subset of smo-bart."""

PUMADYN_FULL, PUMADYN_RBF, PUMADYN_RBF_RELEVANT = 0.0225, 0.4730, 0.024
"""Section 4.1 and its footnote: full process on 1,024 rows, with one lengthscale, and that on the four attributes."""
PUMADYN_ENOUGH = 125
"""The active set size at which all methods compare with the full process."""
PUMADYN_SECONDS = {"full": 1_102.5, "info": 3.0, "rand": 2.0, "sb": 66.0}

SUCCESS = 0.03
"""Section 4.2: the squared error below which a run is a success; failures are close to 0.5."""
SELECTION_SIZES = (50, 100, 200, 500)
SELECTION: dict[tuple[str, int], tuple[int, float | None, float | None, float | None]] = {
    ("full", 0): (10, 0.0236, 200.0, 22_100.5),
    ("info", 500): (10, 0.0296, 200.0, 9_079.0),
    ("info", 200): (10, 0.0259, 177.5, 1_833.5),
    ("info", 100): (9, 0.0252, 200.0, 836.0),
    ("info", 50): (1, None, None, None),
    ("rand", 500): (8, 0.0244, 95.0, 4_412.0),
    ("fixed", 500): (9, 0.0239, 200.0, 9_203.0),
    **{(method, size): (0, None, None, None) for method in ("rand", "fixed") for size in (50, 100, 200)},
}
"""Table 2 and the text: successes of ten; of these the median error, iterations and seconds."""
TRIALS = 10
FULL_AT_SPARSE = 0.0317
"""Section 4.2: a full process with the hyperparameters of a sparse run with 500."""
