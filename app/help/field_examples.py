"""An example of every field of the specification, of the table of cars that the page of fields begins with, and when it
is of use. A test compares the names with those of the specification, and trains with the examples.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An example. spec: fields as they are sent; when: who wants it."""

    spec: Mapping[str, Any]
    when: str


def _example(when: str, **spec: Any) -> Example:
    return Example(spec=spec, when=when)


EXAMPLES: Mapping[str, Mapping[str, Example]] = {
    "What to learn": {
        "model": _example("The file's name is not what the model is to be called.", model="car-prices"),
        "target": _example("The column to predict is not the last one.", target="price"),
        "share": _example(
            "Several targets, and each is to be learnt by itself.", target=["price", "doors"], share=False
        ),
        "features": _example(
            "Only some columns will be known when predicting.", target="price", features=["weight", "horsepower"]
        ),
        "input_transform": _example(
            "Columns with long tails are to stay as they are, whatever predicts better.", input_transform="none"
        ),
        "target_transform": _example(
            "Errors of the target are relative, such as those of a price.", target_transform="log"
        ),
    },
    "How the table is read": {
        "columns": _example(
            "A column was taken for another kind than it is, such as a zip code for a number.",
            columns={"doors": "category", "sold": "date", "name": "ignore"},
        ),
        "missing": _example("Some cells are empty: `impute` keeps their rows.", missing="impute"),
        "missing_values": _example(
            "The table writes a missing cell as a number or a word.", missing="impute", missing_values=[-200, "unknown"]
        ),
        "weights": _example("Rows are means of different numbers of observations.", weights="sales"),
        "duplicates": _example("Rows that are alike were measured, and not copied.", duplicates="keep"),
        "decimal": _example("Numbers are written as 1.234,5 and their column does not show it.", decimal=","),
        "thousands": _example("The same, for what groups their digits.", decimal=",", thousands="."),
        "sheet": _example("The table is not on a workbook's first sheet.", sheet="2024"),
        "dates": _example("Only the trend in time is to be learnt, and no seasons.", dates="elapsed"),
        "max_levels": _example("A category has many values and few of them matter.", max_levels=20),
        "unseen": _example("New rows may have values of a category that training had not.", unseen="prior"),
    },
    "What error bars are of": {
        "groups": _example("Rows belong together, and new rows will be of new ones.", groups="maker"),
        "order": _example("Rows come in time, and new rows will come later.", order="sold"),
        "holdout": _example("A larger share for the report; the published model has all rows anyway.", holdout=0.2),
        "calibrate": _example("Error bars as the Gaussian process gives them, uncorrected.", calibrate=False),
        "intervals": _example("Errors are skewed: one side of the interval is longer.", intervals="asymmetric"),
        "noise": _example("The noise is known to be the same everywhere.", noise="constant"),
    },
    "How hard to try": {
        "effort": _example("A first look in seconds (`quick`), or the last percent (`best`).", effort="quick"),
        "kernel": _example("The function is known to be rough, or smooth.", kernel="matern32"),
        "seed": _example("Another random draw of held-out rows and candidates.", seed=7),
        "priority": _example("It may wait for other jobs, or go before them.", priority=-10),
    },
    "The sparse model by hand": {
        "method": _example("To compare the papers' ways of choosing basis vectors.", method="dmax", basis_size=30),
        "gain": _example("The same, for what `batch` chooses by.", gain="vfe", basis_size=30),
        "basis_size": _example("A fixed cost of a prediction.", basis_size=40),
        "max_basis_size": _example("A bound on that cost.", max_basis_size=100),
        "approximation": _example("To compare approximations.", approximation="fitc"),
        "power": _example("Between `vfe` (towards 0) and `fitc` (1).", power=0.5),
        "adapt": _example(
            "A longer or shorter search for hyperparameters, or false for none.", adapt={"rounds": 2, "steps": 10}
        ),
        "refine": _example("Fewer basis vectors at the same accuracy.", refine={"steps": 20}, basis_size=20),
        "hyperparameters": _example(
            "Hyperparameters are known, such as those of an earlier version; with `adapt: false` they stay.",
            features=["weight", "horsepower"],
            hyperparameters={
                "signal_variance": 1.0,
                "bias_variance": 0.1,
                "noise_variance": 0.1,
                "lengthscales": {"weight": 2.0, "horsepower": 2.0},
            },
            adapt=False,
        ),
        "standardize": _example("Columns are in units that are comparable already.", standardize=False),
        "candidates": _example("`kappa` looks at more candidates in each step.", method="kappa", candidates=100),
        "cache_size": _example("The same for candidates that are kept.", method="dmax", cache_size=20),
        "pool_size": _example("`batch` chooses from more rows.", pool_size=80),
        "gap_tolerance": _example("`sb` stops earlier or later by itself.", method="sb", gap_tolerance=0.01),
        "bounds": _example("A proof of what the approximation loses.", bounds={"rows": [0, 1]}),
    },
    "What is published": {
        "mean_rows": _example("The mean of all rows, whatever held-out rows say.", mean_rows="all"),
        "variance": _example("Error bars from the basis vectors, which are quicker.", variance="basis"),
        "artefact": _example("Models are many, or sent over a network.", artefact="compact"),
        "tolerance": _example("The same, smaller still.", artefact="compact", tolerance=0.05),
        "precision": _example("Predictions by the million.", precision="float32"),
    },
}
"""Examples by field, in the groups of the page."""
