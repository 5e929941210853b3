"""Mistakes made by machine: change one thing in a reference solution, see if its suite notices.

    python -m tests.mutants family                  one assignment; without a name, all of them
    python -m tests.mutants family --each           also each mutant with the tests that kill it
    python -m tests.mutants family --only group_norm

prints for each exercise how many mutants there are, how many its hidden tests kill and which
survive, with line and reason. A survivor is either a property that no test looks at (a gap: add a
test), or a change that makes no difference worth a point: then `tests/expectations/` says why.
The exit code is 1 if there is a gap, or a reason for a mutant that is killed or does not exist.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from in_process import gradable, load, outcomes  # noqa: E402
from mutation_operators import bound_before, changes, code  # noqa: E402

from autograder import release  # noqa: E402


@dataclass(frozen=True)
class Mutant:
    exercise: str
    line: int  # in the file of the solution
    change: str  # "before -> after", and " [2]" when the same text was changed so before
    tree: ast.Module

    @property
    def key(self) -> tuple[str, str]:
        """What `EXPLAINED` knows it by: it outlives a line added further up."""
        return self.exercise, self.change


def explained(assignment: str) -> dict[tuple[str, str], str]:
    """Survivors that a test could not or should not tell from the reference, and why."""
    return importlib.import_module(f"expectations.{assignment}").EXPLAINED


def mutants(assignment: str) -> Iterator[Mutant]:
    """Every mutant of every definition in the solution cells of `assignment`."""
    path = ROOT / "solutions" / assignment / f"{assignment}.py"
    module = ast.parse(path.read_text(encoding="utf-8"))
    cells = release.solution_cells(assignment)
    for exercise in load(assignment).exercises:
        names = {getattr(node, "name", "") for node in ast.parse(cells[exercise]).body}
        seen: Counter[str] = Counter()
        for index, node in enumerate(module.body):
            if getattr(node, "name", None) in names:
                yield from _mutants(module, index, exercise, seen)


def _mutants(module: ast.Module, index: int, exercise: str, seen: Counter[str]) -> Iterator[Mutant]:
    definition = module.body[index]
    again = bound_before(definition)
    for number, node in enumerate(code(definition)):
        before = ast.unparse(_shown(definition, node))
        for variant in range(len(list(changes(node, number in again)))):
            tree = ast.Module([*module.body], module.type_ignores)
            tree.body[index] = copy.deepcopy(definition)
            target = list(code(tree.body[index]))[number]
            shown = _shown(tree.body[index], target)
            list(changes(target, number in again))[variant]()
            ast.fix_missing_locations(tree)
            after = ast.unparse(shown)
            if after == before:
                continue  # two equal arguments changed places
            change = f"{_short(before)} -> {_short(after)}"
            seen[change] += 1
            if seen[change] > 1:
                change += f" [{seen[change]}]"
            yield Mutant(exercise, getattr(node, "lineno", definition.lineno), change, tree)


def _shown(definition: ast.AST, node: ast.AST) -> ast.AST:
    """What is printed of a change of `node`: of a single name or number also what is around it."""
    if not isinstance(node, (ast.Name, ast.Constant)):
        return node
    around = next(p for p in ast.walk(definition) if node in ast.iter_child_nodes(p))
    return around if isinstance(around, (ast.expr, ast.keyword)) else node


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 80 else text[:77] + "..."


def killers(assignment: str, mutant: Mutant) -> Iterator[str]:
    """The tests that do not pass the mutant; one entry "definition" if it cannot be defined."""
    reference = importlib.import_module(f"solutions.{assignment}.{assignment}")
    namespace = {"__name__": reference.__name__}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a mutant may do what torch warns of
        try:
            exec(compile(mutant.tree, "<mutant>", "exec"), namespace)
        except Exception:
            yield "definition"
            return
        graded = {mutant.exercise: namespace[mutant.exercise]}
        for result in outcomes(assignment, graded, recognise=False):
            if result.verdict != "pass":
                yield result.test


def survives(assignment: str, mutant: Mutant) -> bool:
    return next(killers(assignment, mutant), None) is None


@dataclass(frozen=True)
class Tally:
    """The mutants of one assignment, or of one exercise of it."""

    found: list[Mutant]
    survivors: list[Mutant]
    reasons: dict[tuple[str, str], str]

    @property
    def gaps(self) -> list[Mutant]:
        return [m for m in self.survivors if m.key not in self.reasons]

    @property
    def outdated(self) -> list[tuple[str, str]]:
        """Reasons for mutants that are killed or do not exist."""
        return sorted(set(self.reasons) - {m.key for m in self.survivors})

    def of(self, exercise: str) -> Tally:
        return Tally(*(
            [m for m in some if m.exercise == exercise] for some in (self.found, self.survivors)
        ), self.reasons)  # fmt: skip

    def row(self, name: str) -> str:
        total, left, gaps = len(self.found), len(self.survivors), len(self.gaps)
        real = total - (left - gaps)  # the equivalent ones left out
        return (
            f"{name:24}{total:8}{total - left:8}{100 * (total - left) / total:8.1f} %"
            f"{left - gaps:12}{gaps:6}{100 * (real - gaps) / real:8.1f} %"
        )


HEAD = (
    f"{'':24}{'mutants':>8}{'killed':>8}{'of all':>10}{'equivalent':>12}{'gaps':>6}{'of rest':>10}"
)


def tally(assignment: str, only: str | None = None, each: bool = False) -> Tally:
    """Run the hidden suite of `assignment` on its mutants (those of the exercise `only`)."""
    found = [m for m in mutants(assignment) if only in (None, m.exercise)]
    survivors = []
    for mutant in found:
        if each:
            killed_by = list(killers(assignment, mutant))
            names = ", ".join(k.removeprefix("test_") for k in killed_by[:3])
            place = f"{mutant.exercise}:{mutant.line}"
            print(f"  {place}: {mutant.change}: {names or 'SURVIVES'}", flush=True)
        if not killed_by if each else survives(assignment, mutant):
            survivors.append(mutant)
    reasons = {k: v for k, v in explained(assignment).items() if only in (None, k[0])}
    return Tally(found, survivors, reasons)


def report(assignment: str, counted: Tally) -> None:
    print(f"\n{HEAD}")
    for exercise in load(assignment).exercises:
        if counted.of(exercise).found:
            print(counted.of(exercise).row(exercise))
    print(counted.row(f"= {assignment}"))
    for mutant in counted.survivors:
        reason = counted.reasons.get(mutant.key, "GAP: no test looks here")
        print(f"  survives: {mutant.exercise}:{mutant.line}: {mutant.change}: {reason}")
    for exercise, change in counted.outdated:
        print(f"  outdated reason: {exercise}: {change}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("assignment", nargs="*", choices=[*gradable(), []])
    parser.add_argument("--only", metavar="EXERCISE", help="only mutants of this exercise")
    parser.add_argument("--each", action="store_true", help="print each mutant and who kills it")
    options = parser.parse_args(argv)
    right = True
    for assignment in options.assignment or gradable():
        counted = tally(assignment, options.only, options.each)
        report(assignment, counted)
        right &= not counted.gaps and not counted.outdated
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
