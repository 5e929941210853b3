"""What is kept of a submitted notebook for people to read: the learner's text.

The engine lives as long as a class is graded, so it parses nothing that a learner wrote: a process
of its own does (`Reader`), which may be ended and replaced. Trusted code; nothing is executed.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from ..course import ROOT
from ..reading import notebook as raw
from ..reading import submission

CPU_SECONDS = 20  # for one notebook; one of ours takes 0.01
MEMORY = 2 << 30  # bytes of addresses
MAX_TEXT = 4 << 20  # characters that are kept of one notebook
READY = b"ready\n"


@dataclass(frozen=True)
class Learner:
    """What is kept of a submitted notebook: source text, and nothing else.

    sources: grade_id of a solution cell -> the learner's source for it.
    added: source of each code cell the learner added, in order.
    texts: text cells the learner added or changed, where the assignment has written questions: an
        answer may stand in one.
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    added: Sequence[str] = field(default_factory=list)
    texts: Sequence[str] = field(default_factory=list)


class Reader:
    """Reads notebooks against one released notebook, in a process that is started when needed."""

    def __init__(self, released: Path) -> None:
        self._released = released
        self._process: subprocess.Popen[bytes] | None = None
        self._ends: tuple[IO[bytes], IO[bytes]] | None = None  # to it, and from it

    def read(self, path: Path | None) -> Learner:
        """The learner's text; empty when the file cannot be read (the result says why).

        Raises OSError when the process cannot be started.
        """
        if path is None:
            return Learner()
        questions, answers = self._ends or self._start()
        line = b""
        with contextlib.suppress(BrokenPipeError):
            questions.write(json.dumps(str(path.absolute())).encode() + b"\n")
            questions.flush()
            line = answers.readline()
        if not line.endswith(b"\n"):
            self.close()  # it has ended, by this notebook
            return Learner()
        return Learner(**json.loads(line))

    def _start(self) -> tuple[IO[bytes], IO[bytes]]:
        command = [
            sys.executable,
            "-m",
            "autograder.gradebook.learner",
            str(self._released.resolve()),
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)}, start_new_session=True,
        )  # fmt: skip
        questions, answers = self._process.stdin, self._process.stdout
        assert questions is not None and answers is not None
        if answers.readline() != READY:
            self.close()
            raise OSError("the process that reads notebooks did not start")
        self._ends = questions, answers
        return self._ends

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process, self._ends = self._process, None, None
        if process is not None:
            process.kill()
            with contextlib.suppress(BrokenPipeError):
                process.communicate()


def read(path: Path, released: submission.Released) -> Learner:
    """As `Reader.read`, in this process."""
    try:
        loaded = raw.load(path)
        handed_in = submission.sort_out(loaded, released)
        sources, texts = _written(loaded.cells, released)
    except Exception:  # also a defect of ours, of which the result tells: the class goes on
        return Learner()
    code: dict[str, str] = {}
    for cell in handed_in.cells:
        if cell.origin == "solution" and cell.grade_id:
            # All cells that define the name ran, so all are shown.
            before = code.get(cell.grade_id)
            code[cell.grade_id] = f"{before}\n\n\n{cell.source}" if before else cell.source
    for name in handed_in.missing:
        code[name] = f"# No cell of the submission defines {name}."
    added = [cell.source for cell in handed_in.cells if cell.origin == "added"]
    return _shortened(Learner(sources | code, added, texts))


def _written(
    cells: Sequence[raw.RawCell], released: submission.Released
) -> tuple[dict[str, str], list[str]]:
    """The answers to written questions by grade_id, and all other text that was not handed out."""
    answers: dict[str, list[str]] = {}
    others: list[str] = []
    for cell in cells if released.written else ():
        text = cell.source.strip()
        if not text or text in released.texts:
            continue
        name = submission.written_answer(cell, released)
        if name is not None:  # a cell that was split or copied: all parts are shown
            parts = answers.setdefault(name, [])
            if not any(text in part for part in parts):
                parts.append(text)
        elif cell.kind != "code":
            others.append(text)
    return {name: "\n\n".join(parts) for name, parts in answers.items()}, others


def _shortened(learner: Learner) -> Learner:
    """With at most MAX_TEXT characters, the exercises' first."""
    left = MAX_TEXT

    def cut(text: str) -> str:
        nonlocal left
        kept = text if len(text) <= left else text[:left] + "\n... (cut)"
        left = max(0, left - len(text))
        return kept

    sources = {name: cut(text) for name, text in learner.sources.items()}
    added = [cut(text) for text in learner.added]
    return Learner(sources, added, [cut(text) for text in learner.texts])


def _serve(released: Path, questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answer each path with one line. The system ends a process that takes too long."""
    import resource

    handed_out = submission.released(released)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    answers.write(READY)
    answers.flush()
    for line in questions:
        used = resource.getrusage(resource.RUSAGE_SELF)
        end = int(used.ru_utime + used.ru_stime) + CPU_SECONDS
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CPU, (end, hard))
        learner = read(Path(json.loads(line)), handed_out)
        answers.write(json.dumps(asdict(learner)).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # whoever asked is gone
        _serve(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
        sys.exit()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left to flush has no reader
