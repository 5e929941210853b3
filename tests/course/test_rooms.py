"""The house of the code: who may know whom, and no module in a circle."""

from __future__ import annotations

import pytest

from autograder.course import ROOT
from autograder.sandbox import forkserver
from tools import rooms
from tools.rooms import imported, modules, room_of

PROCESSES = {"subprocess", "multiprocessing", "autograder.grading", "autograder.sandbox"}
# Room -> what it may import of the project. What a room knows, it knows for good.
KNOWS = {
    "kernel_sanitizer": set(),
    "autograder.worker": {"kernel_sanitizer"},
    "autograder.reading": set(),
    "autograder.forbidden": {"autograder.reading", "autograder.worker"},
    "autograder.testing": {
        "autograder.reading", "autograder.forbidden", "autograder.worker", "kernel_sanitizer",
        "autograder.misconceptions", "solutions",
    },
    "autograder.reports": {"autograder.reading", "autograder.testing"},
    "autograder.sandbox": set(),
    "autograder.gradebook": {"autograder.reading", "autograder.reports"},
    "autograder.grading": {
        "autograder.reading", "autograder.forbidden", "autograder.testing", "autograder.worker",
        "autograder.sandbox", "autograder.gradebook", "autograder.reports", "kernel_sanitizer",
    },
    "autograder.collect": {"autograder.reading"},
    "autograder.cluster": {
        "autograder.reading", "autograder.testing", "autograder.grading",
    },
}  # fmt: skip
# Modules at the top that any room may import. They import no room.
SHARED = {
    f"autograder.{name}"
    for name in ("course", "errors", "files", "protections", "student_ids", "versions")
}


@pytest.mark.parametrize("room", KNOWS)
def test_a_room_knows_those_below_it_alone(room: str) -> None:
    wrong = []
    inside = [m for m in modules() if m == room or m.startswith(f"{room}.")]
    assert inside
    for module in inside:
        for name in imported(module):
            ours = name.split(".")[0] in ("autograder", "kernel_sanitizer", "solutions", "tests")
            of = "solutions" if name.startswith("solutions") else room_of(name)
            if ours and of not in {room, "autograder"} | KNOWS[room] | SHARED:
                wrong.append(f"{module} imports {name}")
    assert not wrong


@pytest.mark.parametrize("module", sorted(SHARED))
def test_what_all_share_imports_no_room(module: str) -> None:
    assert {n for n in imported(module) if n.startswith("autograder")} <= SHARED | {"autograder"}


@pytest.mark.parametrize("room", ["reading", "testing", "reports"])
def test_no_process_is_started_where_only_data_is_at_hand(room: str) -> None:
    for module in (m for m in modules() if m.startswith(f"autograder.{room}")):
        for name in imported(module):
            assert name not in PROCESSES and room_of(name) not in PROCESSES, f"{module}: {name}"
        text = modules()[module].read_text(encoding="utf-8")
        assert "os.fork(" not in text and "os.posix_spawn" not in text, module


def test_the_folders_that_a_sandbox_gets_are_all_of_these_rooms() -> None:
    assert set(forkserver.WORKER) == {"autograder.worker", "kernel_sanitizer"}
    for name, folder in forkserver.WORKER.items():
        assert folder == modules()[name].parent
        assert not [path for path in folder.iterdir() if path.suffix not in (".py", "")]


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {module: imported(module) & modules().keys() for module in modules()}
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, " -> ".join([*above[above.index(module) :], module])
        if module not in done:
            for name in sorted(graph[module]):
                visit(name, (*above, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())


def test_the_drawing_of_the_house_is_that_of_its_imports() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = text.partition(rooms.BEGIN)[2].partition(rooms.END)[0]
    assert drawn == rooms.drawing(), "renew it by `python -m tools.rooms`"
