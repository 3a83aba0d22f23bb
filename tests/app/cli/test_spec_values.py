"""The words that options take are those of the service."""

from app.cli import spec_values
from app.jobs.job import JobState
from app.services.keys.caller import KeyScope
from app.services.predict.joint import Aggregate
from app.services.predict.options import EXTRAS, Keep, OnError
from app.services.suggestions import Criterion, Goal
from app.services.train.updates import MOST_FORGOTTEN
from app.tables.schema.table_options import Missing
from core.spec import Effort, KernelChoice, MeanRows, Method


def test_words_are_the_services() -> None:
    for words, meant in (
        (spec_values.METHODS, Method),
        (spec_values.EFFORTS, Effort),
        (spec_values.KERNELS, KernelChoice),
        (spec_values.MEAN_ROWS, MeanRows),
        (spec_values.MISSING, Missing),
        (spec_values.KEEP, Keep),
        (spec_values.ON_ERROR, OnError),
        (spec_values.AGGREGATES, Aggregate),
        (spec_values.CRITERIA, Criterion),
        (spec_values.GOALS, Goal),
        (spec_values.JOB_STATES, JobState),
        (spec_values.SCOPES, KeyScope),
    ):
        assert sorted(words) == sorted(meant)
    assert spec_values.EXTRAS == EXTRAS
    assert spec_values.MOST_FORGOTTEN == MOST_FORGOTTEN
