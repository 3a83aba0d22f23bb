"""Full Gaussian processes of other targets of the same rows, at the theta and with the folds of one that is there."""

from collections.abc import Sequence

import numpy as np

from core.arrays import FloatArray, IntArray
from core.mean.closed import closed_form_mean
from core.mean.conjugate import Stopping
from core.mean.full import Mean, full_means, sparse_preconditioner, square_product
from core.mean.precondition import random_basis
from core.process.kernel import Kernel
from core.spec import Effort, TrainSpec
from core.train.block_theta import Tell
from core.train.fit import Subset
from core.train.fold_fits import Seed
from core.train.full_process import LESS_NOISE, TOLERANCE, FullProcess, ProcessTask
from core.train.noise import MOST_FOLLOWED


def processes_of(
    subsets: Sequence[Subset],
    held_out: IntArray,
    process: FullProcess,
    spec: TrainSpec,
    seed: Seed,
    random: np.random.Generator,
    tell: Tell,
) -> list[FullProcess]:
    """Return the processes of other targets of the same rows at the theta and with the folds of one that is there.

    Args:
        subsets: the rows with each target.
        process: of the first target.
        random: draws the preconditioner's rows.
        held_out, spec, seed, tell: as `full_process` has them.

    The kernel matrix is made once, the means of all targets are columns of one system, and the variances with constant
    noise are common.
    """
    theta, folds, rows = process.theta, process.folds, subsets[0].rows
    kernel, product, Z, preconditioner = Kernel.of(theta, rows.groups), None, None, None
    if not process.exact:
        product = square_product(rows, kernel, np.array([theta.noise_variance]), folds, len(subsets))
    tasks = [
        ProcessTask(subset, held_out, theta, spec, seed, random, lambda _: None, folds, product=product)
        for subset in subsets
    ]
    D = tasks[0].floored(np.full(len(rows), theta.noise_variance))
    if not process.exact:
        Z = random_basis(rows.X, random)
        preconditioner = sparse_preconditioner(rows, kernel, Z, D, folds, len(subsets))

    def means(places: Sequence[int], noises: Sequence[FloatArray], resume: Sequence[FloatArray] | None) -> list[Mean]:
        if Z is None or product is None or preconditioner is None:
            return [
                closed_form_mean(subsets[place].rows, kernel, noise, folds).mean
                for place, noise in zip(places, noises, strict=True)
            ]
        targets = [subsets[place].rows.y for place in places]
        stopping = Stopping(tolerance=TOLERANCE)
        found = full_means(targets, noises, preconditioner, folds, stopping=stopping, product=product, resume=resume)
        if all(mean.settled for mean in found) or all(noise is D for noise in noises):
            return found
        typical = np.exp(np.mean(np.log(noises), axis=0))
        own = sparse_preconditioner(rows, kernel, Z, typical, folds, len(subsets))
        last = [mean.unknowns for mean in found]
        return full_means(targets, noises, own, folds, stopping=stopping, product=product, resume=last)

    everything = range(len(subsets))
    latent, found = tasks[0].latent_variance(D), means(everything, [D] * len(subsets), None)
    tell(0.4)
    best = []
    for task, mean in zip(tasks, found, strict=True):
        noise, settled = task.settled(D, mean, 0.4)
        own = latent if settled is mean else task.latent_variance(noise)
        best.append(task.calibrated(noise, settled, own, None))
    again = [
        place
        for place, first in enumerate(best)
        if first.read.noise is not None and first.read.calibration.noise_scale <= MOST_FOLLOWED
    ]
    tell(0.6)
    if again:
        noises = [tasks[place].floored(tasks[place].following(best[place].read)) for place in again]
        seconds = means(again, noises, [best[place].mean.unknowns for place in again])
        tried = {place: [best[place]] for place in again}
        for place, noise, mean in zip(again, noises, seconds, strict=True):
            latent = tasks[place].latent_variance(noise)
            tried[place].append(tasks[place].calibrated(noise, mean, latent, best[place]))
        half = [
            tasks[place].floored(np.sqrt(best[place].D * noise)) for place, noise in zip(again, noises, strict=True)
        ]
        thirds = means(again, half, [tried[place][1].mean.unknowns for place in again])
        for place, mean in zip(again, thirds, strict=True):
            tried[place].append(tasks[place].with_mean(tried[place][1], mean))
        for place in again:
            best[place] = min(tried[place], key=tasks[place].loss)
    gaining = list(everything) if spec.effort is Effort.BEST else []
    for less in LESS_NOISE if gaining else ():
        noises = [tasks[place].floored(less * best[place].D) for place in gaining]
        found = means(gaining, noises, [best[place].mean.unknowns for place in gaining])
        lesser = {place: tasks[place].with_mean(best[place], mean) for place, mean in zip(gaining, found, strict=True)}
        gaining = [place for place in gaining if tasks[place].loss(lesser[place]) < tasks[place].loss(best[place])]
        best = [lesser[place] if place in gaining else each for place, each in enumerate(best)]
        if not gaining:
            break
    best = [task.by_all_rows(each) for task, each in zip(tasks, best, strict=True)]
    tell(1.0)
    return best
