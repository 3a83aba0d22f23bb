"""The page of Keerthi & Chu 2005."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.benchmarks.papers.keerthi_chu import plots, published
from tests.benchmarks.papers.keerthi_chu.claims import Claim, of_figure_1, of_table_1
from tests.benchmarks.papers.keerthi_chu.found import FigureFound, TableFound, significantly_worse
from tests.benchmarks.papers.keerthi_chu.notes import CHOICES, FIGURE, NLPD_SCALE, TABLE, WHY
from tests.benchmarks.papers.paper import Spread, table, verdict, write_csv

LABELS: Mapping[str, str] = {
    "fixed-sb": "FIXED-SB",
    "adapt-info": "ADAPT-INFO",
    "adapt-dmax": "ADAPT-DMAX",
    "batch-dtc": "batch, DTC",
    "batch-fitc": "batch, FITC",
    "batch-vfe": "batch, VFE",
    "batch-pep": "batch, PEP .7 (default)",
}
OURS = tuple(column for column in LABELS if column not in published.COLUMNS)
READINGS = (("nlpd", "a new target"), ("nlpd_latent", "the latent function alone"))


def page(figure: FigureFound, results: TableFound, folder: Path) -> str:
    """Both parts; CSV files and pictures are written into `folder`."""
    plots.figure_1(figure, folder / "figure-1.png")
    plots.table_1(results, LABELS, folder / "table-1.png")
    _write_figure(figure, folder / "figure-1.csv")
    _write_table(results, folder / "table-1.csv")
    return "\n\n".join(
        [*_figure_part(figure), *_table_part(results), "### Where the paper leaves a choice open", CHOICES]
    )


def _figure_part(figure: FigureFound) -> Iterable[str]:
    yield f"### Figure 1: ways of choosing on kin40k, {_partitions(figure.trials)}"
    yield FIGURE
    yield "![NMSE, NLPD and seconds over the number of basis vectors](figure-1.png)"
    head = ["d", *(method.upper() for method in figure.methods)]
    yield "NMSE of the test rows:"
    yield table(head, [[str(size), *_figure_cells(figure, size, "nmse")] for size in figure.sizes])
    yield "NLPD, nats; the last column is the basis of BATCH with the error bars of power EP, not calibrated:"
    yield table(
        [*head, "BATCH, PEP .7"],
        [
            [
                str(size),
                *_figure_cells(figure, size, "nlpd"),
                Spread.of(figure.each("batch", size, "nlpd", "pep")).text(),
            ]
            for size in figure.sizes
        ],
    )
    yield "Seconds of one processor, choosing and fitting, mean:"
    seconds = {method: figure.seconds(method) for method in figure.methods}
    at_once = figure.seconds("rand", one_by_one=False)
    yield table(
        [*head, "RAND, fitted at once"],
        [
            *(
                [
                    str(size),
                    *(f"{seconds[method][size]:.2f}" for method in figure.methods),
                    f"{at_once[size]:.2f}",
                ]
                for size in figure.timed("rand")
                if all(size in found for found in seconds.values())
            ),
            [
                "exponent in d",
                *(f"{figure.exponent(method):.2f}" for method in figure.methods),
                f"{figure.exponent('rand', one_by_one=False):.2f}",
            ],
        ],
    )
    yield "What the text says of the figure:"
    yield _claims(of_figure_1(figure))


def _table_part(results: TableFound) -> Iterable[str]:
    yield f"### Table 1: model adaptation, {_partitions(results.trials)} of each set"
    yield TABLE
    yield "![NMSE of each set, published and ours](table-1.png)"
    yield "NMSE in percent: ours (published); lowest of ours in bold, \\* significantly worse than it:"
    yield table(
        ["set", *(LABELS[column] for column in published.COLUMNS)],
        [[name, *_beside(results, name, "nmse", "plain", published.NMSE[name])] for name in results.sets],
    )
    for key, reading in READINGS:
        yield f"NLPD of the raw target, with the variance of {reading}: ours (published):"
        yield table(
            ["set", *(LABELS[column] for column in published.COLUMNS)],
            [[name, *_beside(results, name, key, "plain", published.NLPD[name])] for name in results.sets],
        )
    yield _nearer(results)
    yield NLPD_SCALE
    yield "Our own columns, DTC and FITC on the first partitions."
    yield "NMSE in percent; lowest in bold, \\* significantly worse than it:"
    yield table(
        ["set", *(LABELS[column] for column in OURS), "paper's best", "default against it", "best of ours against it"],
        [_own_nmse(results, name) for name in results.sets],
    )
    yield "NLPD of the raw target with the noise, 95% coverage in percent:"
    yield table(
        [
            "set",
            *(LABELS[column] for column in OURS),
            "VFE, calibrated",
            "**default, calibrated**",
            "paper's best",
            "default calibrated against it",
        ],
        [_own_nlpd(results, name) for name in results.sets],
    )
    yield "Seconds of one processor for a training:"
    yield table(
        ["set", *LABELS.values()],
        [[name, *(results.seconds(name, column).text(0) for column in LABELS)] for name in results.sets],
    )
    yield "What the text says of the table:"
    yield _claims(of_table_1(results))
    worse = list(_worse(results))
    if worse:
        yield "Where a number of ours is worse than the published one, and why:"
        yield "\n".join(f"- {line}" for line in worse)


def _figure_cells(figure: FigureFound, size: int, key: str) -> list[str]:
    digits = 4 if key == "nmse" else 2
    return [Spread.of(figure.each(method, size, key)).text(digits) for method in figure.methods]


def _beside(results: TableFound, name: str, key: str, bars: str, theirs: Mapping[str, Spread]) -> list[str]:
    """`22.96 ± .20 (22.58 ± .34): within one deviation`."""
    marked = _marked(results, name, published.COLUMNS, key, bars)
    cells = []
    for column in published.COLUMNS:
        told = verdict(results.spread(name, column, key, bars), theirs[column])
        cells.append(f"{marked[column]} ({theirs[column].text()}): {told}")
    return cells


def _marked(results: TableFound, name: str, columns: Sequence[str], key: str, bars: str) -> dict[str, str]:
    """Mean and deviation; the lowest in bold, those significantly worse with a star."""
    spreads = {column: results.spread(name, column, key, bars) for column in columns}
    winner = min(columns, key=lambda column: spreads[column].mean)
    best = results.each(name, winner, key, bars)
    texts = {}
    for column in columns:
        text = spreads[column].text()
        if column == winner:
            text = f"**{text}**"
        elif significantly_worse(results.each(name, column, key, bars), best):
            text += "\\*"
        texts[column] = text
    return texts


def _nearer(results: TableFound) -> str:
    """Sentence on the reading of NLPD that is nearer to the published numbers."""
    cells = [(name, column) for name in results.sets for column in published.COLUMNS]
    away = {
        key: [abs(results.spread(name, column, key).mean - published.NLPD[name][column].mean) for name, column in cells]
        for key, _ in READINGS
    }
    nearer = sum(latent < noisy for noisy, latent in zip(away["nlpd"], away["nlpd_latent"], strict=True))
    return f"Of the {len(cells)} published numbers {nearer} are nearer to ours without the noise than with it."


def _own_nmse(results: TableFound, name: str) -> list[str]:
    marked = _marked(results, name, OURS, "nmse", "plain")
    theirs = min(published.NMSE[name].values(), key=lambda spread: spread.mean)
    best = min(OURS, key=lambda column: results.spread(name, column, "nmse").mean)
    return [
        name,
        *(marked[column] for column in OURS),
        theirs.text(),
        verdict(results.spread(name, OURS[-1], "nmse"), theirs),
        f"{verdict(results.spread(name, best, 'nmse'), theirs)} ({LABELS[best]})",
    ]


def _own_nlpd(results: TableFound, name: str) -> list[str]:
    theirs = min(published.NLPD[name].values(), key=lambda spread: spread.mean)
    shown = [*((column, "plain") for column in OURS), ("batch-vfe", "calibrated"), (OURS[-1], "calibrated")]
    cells = [
        f"{results.spread(name, column, 'nlpd', bars).text()}; {results.coverage(name, column, bars).mean:.1f}%"
        for column, bars in shown
    ]
    found = results.spread(name, OURS[-1], "nlpd", "calibrated")
    return [name, *cells, theirs.text(), verdict(found, theirs)]


def _worse(results: TableFound) -> Iterable[str]:
    """A line for each cell of the paper's table that ours does not reach."""
    for name in results.sets:
        for column in published.COLUMNS:
            if verdict(results.spread(name, column, "nmse"), published.NMSE[name][column]) == "worse":
                ours, theirs = results.spread(name, column, "nmse"), published.NMSE[name][column]
                why = _why(name, column)
                yield f"NMSE, {name}, {LABELS[column]}: {ours.text()}, published {theirs.text()}. {why}"
        theirs = min(published.NMSE[name].values(), key=lambda spread: spread.mean)
        ours = results.spread(name, OURS[-1], "nmse")
        if verdict(ours, theirs) == "worse":
            why = _why(name, OURS[-1])
            yield f"NMSE, {name}, our default: {ours.text()}, the paper's best {theirs.text()}. {why}"


def _claims(claims: Iterable[Claim]) -> str:
    return table(
        ["the paper says", "read as", "ours", "verdict"],
        [[claim.said, claim.test, claim.ours, "holds" if claim.holds else "**does not hold**"] for claim in claims],
    )


def _partitions(trials: int) -> str:
    return f"{trials} random partition{'s' if trials > 1 else ''}"


def _write_figure(figure: FigureFound, file: Path) -> None:
    keys = ("nmse", "nlpd", "nlpd_unit", "nlpd_latent", "squares")
    rows = [
        (method, trial, size, *(figure.each(method, size, key)[trial] for key in keys))
        for method in figure.methods
        for size in figure.sizes
        for trial in range(figure.trials)
    ]
    write_csv(file, ["method", "partition", "d", *keys], rows)


def _write_table(results: TableFound, file: Path) -> None:
    keys = ("nmse", "nlpd", "nlpd_unit", "squares")
    rows = [
        (name, column, bars, trial, *(results.each(name, column, key, bars)[place] for key in keys))
        for name in results.sets
        for column in LABELS
        for bars in (("plain", "calibrated") if results.unit(name, column, 0)["calibrated"] else ("plain",))
        for place, trial in enumerate(results.partitions(name, column))
    ]
    write_csv(file, ["set", "column", "error bars", "partition", *keys], rows)


def _why(name: str, column: str) -> str:
    """Reason for a set and a column on one line, for a list."""
    return WHY.get((name, column), "No reason was found.").replace("\n", " ")
