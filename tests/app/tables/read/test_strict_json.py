"""A key that is there twice is found wherever it is, and nothing else is taken for one."""

import json
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.errors import InvalidRequestError
from app.tables.read.strict_json import check_duplicate_keys, count_keys, find_duplicate_key, first_too_large


class Pairs:
    """An object as it is written: keys in order, some of them perhaps twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs

    def __repr__(self) -> str:
        return f"Pairs({self.pairs!r})"


texts = st.text(alphabet='a:" \\{}[],é\n', max_size=4)
scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | texts
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.lists(st.tuples(texts, inner), max_size=4).map(Pairs),
    max_leaves=20,
)


def written(tree: Any, chance: random.Random) -> str:
    """JSON with blanks here and there, and some signs as escapes."""
    blank = chance.choice(["", "", " ", "\n\t"])
    if isinstance(tree, Pairs):
        inside = ",".join(f"{written(key, chance)}:{written(part, chance)}" for key, part in tree.pairs)
        return f"{blank}{{{inside}{blank}}}{blank}"
    if isinstance(tree, list):
        return f"{blank}[{','.join(written(part, chance) for part in tree)}]{blank}"
    text = json.dumps(tree, ensure_ascii=chance.random() < 0.5)
    if isinstance(tree, str) and chance.random() < 0.2:
        text = text.replace(":", "\\u003a")
    return blank + text + blank


def has_twice(tree: Any) -> bool:
    if isinstance(tree, Pairs):
        keys = [key for key, _ in tree.pairs]
        return len(set(keys)) < len(keys) or any(has_twice(part) for _, part in tree.pairs)
    return isinstance(tree, list) and any(map(has_twice, tree))


@given(trees, st.integers(0, 1000))
@example([None, Pairs([(":", None), ("", None), ("", None)])], 0)  # the first colon is written as an escape
def test_it_is_found_if_and_only_if_it_is_there(tree: Any, seed: int) -> None:
    text = written(tree, random.Random(seed)).encode()
    assert (find_duplicate_key(text) is not None) == has_twice(tree)
    for keys in (count_keys(json.loads(text)), 0):  # fewer than there are is slower, not wrong
        try:
            check_duplicate_keys(text, keys)
        except InvalidRequestError:
            assert has_twice(tree)
        else:
            assert not has_twice(tree)


@pytest.mark.parametrize(
    ("text", "message", "row", "column"),
    [
        ('{"x": 1, "x": 2}', "the key 'x' is there twice", None, "x"),
        ('[{"x": 1}, {"y": ":", "x" : 2, "x": 2}]', "[1]: the key 'x' is there twice", 1, "x"),
        ('{"spec": {"adapt": {"steps": 1, "steps": 1}}}', "spec.adapt: the key 'steps' is there twice", None, "steps"),
        ('{"a": "12:30", "\\u0061": 1}', "the key 'a' is there twice", None, "a"),
        ('{"\\u003A": 1, "x": 1, "x": 2}', "the key 'x' is there twice", None, "x"),
        ('[{"": 0, "": 0}]', "[0]: the key '' is there twice", 0, ""),
    ],
)
def test_the_refusal_says_where(text: str, message: str, row: int | None, column: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_duplicate_keys(text.encode(), count_keys(json.loads(text)))
    assert caught.value.message == message
    assert (caught.value.faults[0].row, caught.value.faults[0].column) == (row, column)


def test_in_many_rows_the_right_one_is_named() -> None:
    rows = [{"x": row / 7, "when": f"{row % 24:02}:30"} for row in range(5_000)]
    text = json.dumps(rows).encode()
    check_duplicate_keys(text, count_keys(rows))
    twice = text.replace(b'"when": "05:30"', b'"x": 0, "when": "05:30"', 1)
    with pytest.raises(InvalidRequestError, match=r"rows\[5\]: the key 'x'"):
        check_duplicate_keys(twice, count_keys(rows), where="rows")


@pytest.mark.parametrize(
    ("cells", "place"),
    [
        ([1, 2.0, True], None),
        ([10**308, -(10**308)], None),
        ([1, 10**309], 1),
        ([-(10**309), 1.5], 0),
        ([None, "x", 10**400], 2),
        ([1.5, "10" * 400], None),
    ],
)
def test_the_first_whole_number_that_no_double_holds(cells: list[Any], place: int | None) -> None:
    assert first_too_large(cells, set(map(type, cells))) == place
