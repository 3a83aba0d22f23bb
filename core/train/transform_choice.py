"""Choice of the target's transform for `target_transform: "auto"`.

    log p(y_i | the others) = log q(g(y_i) | the others) + log g'(y_i)

of rows left out of blocks of near ones (`core.train.block_judge`), q with scales, varying noise and a tail of its own
as published error bars have them. The target stays as it is unless another is better there; of several that are as near
to the best the first is taken, in the order of KINDS, which is from plain to flexible, but none whose squared errors
are larger than those of another that is better.

Nothing is compared where no map makes the targets themselves likelier as draws of a normal distribution. Logarithms are
compared where they do so better than a power, by LEAST_AHEAD: the exponential of a doubt is a mean beyond all targets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset
from core.errors import InvalidDataError
from core.input_transform import InputTransform
from core.predict.transforms import LEAST_TARGET, Transform, transform_of
from core.spec import Artefact, TargetTransform, TrainSpec
from core.train.block_judge import DOUBTS, LEAST_GAIN, BlockJudge, Judgement
from core.train.report import TransformReport

KINDS = (
    TargetTransform.LOG,
    TargetTransform.LOG1P,
    TargetTransform.YEO_JOHNSON,
    TargetTransform.RANK_NORMAL,
)
LEAST_TAIL, LEAST_AHEAD = 0.05, 0.05
"""Nats a row by which a map must make targets likelier as normal ones, and logarithms likelier than a power does."""
ALL_LARGE = 10.0
"""Targets above this have the same logarithm with 1 added."""
_LOGARITHMS = (TargetTransform.LOG, TargetTransform.LOG1P)
LEAST_ROWS = 30
"""Rows below which densities tell nothing of a target's distribution."""
TIED_SHARE, MOST_ALIKE = 0.5, 0.02
"""Share of distinct targets below which ranks are no scale, and of equal ones above: an atom has no density."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformChoice:
    """The transform of all targets, and why it is this one; None where it was asked for, or nothing was compared."""

    transform: Transform
    reason: str | None = None

    def report(self, targets: FloatArray) -> TransformReport:
        """Return the report on it; targets in their own unit."""
        return TransformReport.of(self.transform, values_of(targets), self.reason)


def transform_asked(judge: BlockJudge, tell: Callable[[float], None] = lambda _: None) -> TransformChoice:
    """Return the transform that is asked for, or the one that `auto` chooses: none where what is stored is to be the
    mean alone. tell: hears the share that is done; may raise to cancel."""
    kind, targets = judge.spec.target_transform, judge.dataset.targets
    if kind is not TargetTransform.AUTO:
        return TransformChoice(transform=transform_of(kind, targets))
    if judge.spec.artefact is Artefact.MEAN:
        return TransformChoice(transform=transform_of(TargetTransform.NONE, targets))
    return choose_transform(judge, tell)


def judges_of(
    dataset: Dataset,
    spec: TrainSpec,
    held_out: IntArray,
    random: Callable[[], np.random.Generator],
    *,
    quick: bool = False,
    workers: int = 1,
) -> list[BlockJudge]:
    """Return what judges transforms of the first target, then of each other, without the held-out rows.

    random: makes a generator, the same for each target. quick: as `BlockJudge` has it.
    """
    learning = np.setdiff1d(np.arange(len(dataset.targets)), held_out)
    tables = [dataset, *(dataset.of_other(place) for place in range(dataset.others.shape[1]))]
    return [BlockJudge(table, learning, spec, random(), quick=quick, workers=workers) for table in tables]


def as_learnt(
    dataset: Dataset, judges: Sequence[BlockJudge], tell: Callable[[float], None] = lambda _: None
) -> tuple[Dataset, list[TransformChoice]]:
    """Return the rows with every target under its transform, and these: of the first target, then of each other.

    judges: one for each of the targets. tell: as in `transform_asked`.
    """
    choices: list[TransformChoice] = []
    for judge in judges:
        choices.append(transform_asked(judge, lambda share: tell((len(choices) + share) / len(judges))))
    first, *others = [
        choice.transform.forward(judge.dataset.targets) for choice, judge in zip(choices, judges, strict=True)
    ]
    return replace(dataset, targets=first, others=np.column_stack(others) if others else dataset.others), choices


def choose_transform(judge: BlockJudge, tell: Callable[[float], None] = lambda _: None) -> TransformChoice:
    """Choose the transform under which left-out rows are predicted best. A judgement for each that is compared."""
    dataset, learning = judge.dataset, judge.learning
    looks = f"the target looks like {values_of(dataset.targets)}"
    plain = transform_of(TargetTransform.NONE, dataset.targets)
    if len(learning) < LEAST_ROWS:
        return TransformChoice(
            transform=plain, reason=f"{looks}; learnt as it is, for {len(learning)} rows are too few"
        )
    possible = _possible(dataset.targets, learning)
    if not possible:
        return TransformChoice(transform=plain)
    judged: dict[TargetTransform, Judgement | None] = {}

    def listen(share: float) -> None:
        tell((len(judged) + share) / (2 + len(possible)))

    for kind in (TargetTransform.NONE, *possible):
        judged[kind] = judge.judge(transform_of(kind, dataset.targets), InputTransform(), listen)
    standing = judged.pop(TargetTransform.NONE)
    if standing is None:
        return TransformChoice(transform=plain, reason=f"{looks}; learnt as it is")
    found = {kind: one for kind, one in judged.items() if one is not None}
    better = better_kinds(found, standing)
    chosen, told = TargetTransform.NONE, []
    best = max(better.values(), key=lambda one: float(one.density.mean()), default=standing)
    for kind, one in found.items():
        gain, doubt = one.gain(standing)
        larger = "; squared errors are larger" if one.has_larger_errors(standing) else ""
        told.append(f"{kind} {gain:.4f} (standard error {doubt:.4f}{larger})")
        behind, unsure = best.gain(one)
        if chosen is TargetTransform.NONE and kind in better and behind <= max(DOUBTS * unsure, LEAST_GAIN):
            chosen = kind
    gains = f"gains over none on {len(standing.density):,} left-out rows, nats a row: {', '.join(told)}"
    if chosen is not TargetTransform.NONE:
        choice, share = transform_of(chosen, dataset.targets), (1.5 + len(possible)) / (2 + len(possible))
        stands, why = judge.stands((choice, InputTransform()), (plain, InputTransform()), lambda _: tell(share))
        if not stands:
            chosen, gains = TargetTransform.NONE, f"{gains}; of {chosen}: {why}"
    return TransformChoice(
        transform=transform_of(chosen, dataset.targets), reason=f"{looks}; learnt as {chosen}: {gains}"
    )


def better_kinds(found: Mapping[TargetTransform, Judgement], standing: Judgement) -> dict[TargetTransform, Judgement]:
    """Return the kinds that are better than none, without those whose squared errors are larger than another one's."""
    better = {kind: one for kind, one in found.items() if one.is_better(standing)}
    return {
        kind: one
        for kind, one in better.items()
        if not any(one.has_larger_errors(other) for other in better.values() if other is not one)
    }


def values_of(targets: FloatArray) -> str:
    """Return what targets (n,) look like, in words: counts, shares, never negative, or any number."""
    if targets.min() < 0.0:
        return "any number"
    if targets.max() <= 1.0:
        return "shares from 0 to 1"
    return "counts" if (targets == np.rint(targets)).all() else "a quantity that is never negative"


def _possible(targets: FloatArray, learning: IntArray) -> list[TargetTransform]:
    """Kinds that targets (n,) may be learnt as, and that make those of the rows to learn from likelier."""
    least, some = float(targets.min()), targets[learning]
    _, counts = np.unique(some, return_counts=True)
    if len(counts) == 1:
        return []
    kinds = [kind for kind in _LOGARITHMS if least > LEAST_TARGET[kind] and least >= 0.0]
    if least > ALL_LARGE:
        kinds.remove(TargetTransform.LOG1P)
    if len(counts) >= TIED_SHARE * len(some) and counts.max() <= max(1.0, MOST_ALIKE * len(some)):
        kinds.append(TargetTransform.RANK_NORMAL)
    kinds.append(TargetTransform.YEO_JOHNSON)
    likelier = {kind: _likelier(kind, some) for kind in kinds}
    by_power = likelier[TargetTransform.YEO_JOHNSON]
    if not max(likelier.values()) > LEAST_TAIL:
        return []
    return [
        kind
        for kind in KINDS
        if kind in likelier and (kind not in _LOGARITHMS or likelier[kind] > by_power + LEAST_AHEAD)
    ]


def _likelier(kind: TargetTransform, targets: FloatArray) -> float:
    """Return how much likelier the transform makes targets (n,) as draws of a normal distribution, nats a row."""
    try:
        transform = transform_of(kind, targets)
    except InvalidDataError:
        return -np.inf
    with np.errstate(all="ignore"):  # targets near the largest double: not a number, and no gain
        slopes = float(transform.log_slope(targets).mean())
        spreads = np.log(np.var(targets)) - np.log(np.var(transform.forward(targets)))
    return 0.5 * float(spreads) + slopes
