"""Whatever is handed in, reading it ends soon in a Submission or in Unreadable."""

import json
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from autograder import forbidden
from autograder.reading.submission import Submission, Unreadable, read, released

STUB = "def area(w, h):\n    raise NotImplementedError()"
CODE = [
    STUB,
    "def area(w, h):\n    return w * h",
    "area = lambda w, h: w * h",
    "import torch.nn.functional as F\narea = F.layer_norm",
    "assert area(1, 2)",
    "%%time\nx = 1",
    "%%bash\nls",
    "!ls\n(",
    "class area(",
    "x = '\ud800\0'",
    "\ufeff\r\n\tdef",
    "f'{area!r:{x}}'",
    "match area:\n case [*_, {**k}]: pass",
    "",
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(CODE),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["cell_type", "source", "input", "metadata", "outputs", "id", "language", "cells", "nbformat"]
)
NBGRADER = st.dictionaries(
    st.sampled_from(["grade_id", "grade", "solution", "locked", "points", "schema_version"]),
    st.one_of(st.sampled_from(["area", "test_area", "other"]), VALUES),
)
CELLS = st.one_of(
    VALUES,
    st.dictionaries(KEYS, VALUES),
    st.fixed_dictionaries(
        {
            "cell_type": st.one_of(st.sampled_from(["code", "markdown", "raw"]), VALUES),
            "source": st.one_of(
                st.sampled_from(CODE), st.lists(st.sampled_from(CODE)), st.text(), VALUES
            ),
            "metadata": st.one_of(VALUES, st.fixed_dictionaries({"nbgrader": NBGRADER})),
        }
    ),
)
NOTEBOOKS = st.one_of(
    VALUES,
    st.fixed_dictionaries({"cells": st.lists(CELLS, max_size=8)}),
    st.fixed_dictionaries(
        {"worksheets": st.lists(st.fixed_dictionaries({"cells": st.lists(CELLS, max_size=4)}))}
    ),
    st.dictionaries(KEYS, st.lists(CELLS, max_size=3)),
)
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
# what happens to the bytes: (position in thousandths, bytes cut out, bytes put in)
DAMAGE = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 30), st.binary(max_size=4)), max_size=3
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    cell = {"cell_type": "code", "source": STUB, "metadata": {"nbgrader": {}}}
    cell["metadata"]["nbgrader"] = {"grade_id": "area", "solution": True}
    check = {"cell_type": "code", "source": "assert area(1, 2)", "metadata": {}}
    check["metadata"]["nbgrader"] = {"grade_id": "test_area", "grade": True}
    path = folder / "released.ipynb"
    path.write_text(json.dumps({"cells": [cell, check]}))
    return folder / "area.ipynb", released(path)


def ends_well(place, tree, encoding, damage):
    path, base = place
    data = json.dumps(tree, ensure_ascii=bool(damage)).encode(encoding, "surrogatepass")
    for where, length, put in damage:
        at = where * len(data) // 1000
        data = data[:at] + put + data[at + length :]
    path.write_bytes(data)
    start = time.process_time()
    try:
        got = read(path, base)
    except Unreadable as unreadable:
        assert str(unreadable) and str(unreadable).isprintable()
    else:
        assert isinstance(got, Submission)
        assert all(line.isprintable() for line in got.notices)
        assert set(got.missing) | got.untouched | set(got.broken) <= {"area"}
        for cell in got.cells:
            cell.source.encode("utf-8")
        found = forbidden.find(got.cells, ["area"], {"area": ["torch.nn.functional.layer_norm"]})
        assert all(f.exercise == "area" and f.line >= 1 for f in found)
    assert time.process_time() - start < 2


QUIET = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}


@settings(max_examples=150, **QUIET)
@given(tree=NOTEBOOKS, encoding=ENCODINGS, damage=DAMAGE)
@example(tree={"cells": [{"source": CODE[1]}]}, encoding="utf-16", damage=[(500, 1, b"")])
def test_mutated_notebooks_end_in_a_submission_or_a_reason(place, tree, encoding, damage):
    ends_well(place, tree, encoding, damage)


@pytest.mark.soak
@settings(max_examples=10_000, **QUIET)
@given(tree=NOTEBOOKS, encoding=ENCODINGS, damage=DAMAGE)
def test_ten_thousand_mutated_notebooks_end_so_too(place, tree, encoding, damage):
    ends_well(place, tree, encoding, damage)
