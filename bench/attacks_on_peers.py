"""The attacks of tests/attacks/ against nbgrader and otter-grader, in a box, one at a time.

    python -m bench.attacks_on_peers --setup            # virtual environments in ~/.cache/peers
    python -m bench.attacks_on_peers                    # all of CHOSEN, about half an hour
    python -m bench.attacks_on_peers --only equal-to-everything --peers otter

Results go to bench/results/attacks-on-peers.json, which the book shows; a run of some attacks or of
one peer changes only its own entries. Linux, with user namespaces.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import json
import os
import platform
import re
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from bench import peers

peers.tests_folder()

import attack_class  # noqa: E402 - from the tests, see above

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "attacks-on-peers.json"
HONEST = "zz-honest"
REACHING = {2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 17, 20}  # kinds that could spoil what is graded next

# What an attack shows when it says that it won (by raising OverflowError): it "reads" files, or
# "tests" in files, finds tests in "memory", "writes" where it should not, "signals" others. None:
# its score alone speaks.
CHOSEN: dict[str, str | None] = {
    # results that pretend
    "equal-to-everything": None, "class-says-tensor": None, "tensor-subclass": None,
    "dispatch-mode": None, "nan-everywhere": None, "nothing-to-compare": None,
    "verdict-as-value": None, "odd-tensors": None, "subclassed-containers": None,
    "values-that-broadcast": None,
    # the test tools in the learner's hands
    "patched-assertions": None, "patched-builtins": None, "patched-tensor": None,
    "fake-modules": None, "ipython-hooks": None, "magics-and-shell": None,
    "results-on-stdout": None, "results-in-outputs": None, "display-and-trace": None,
    "cell-magics": None,
    # reading
    "walks-the-file-system": "reads", "tests-beside-the-notebook": "tests",
    "frames-and-garbage": "memory",
    "inputs-through-exceptions": None, "inputs-through-print": None,
    "inputs-through-outputs": None, "inputs-in-exceptions": None, "inputs-printed": None,
    # files beside, and files elsewhere
    "pytest-files-beside": None, "python-files-beside": None, "jupyter-files-beside": None,
    "plants-files": "writes", "writes-the-gradebook": "writes", "signals-to-others": "signals",
    "configuration-beside-it": None, "a-zip-for-a-notebook": None,
    # ending, hanging, flooding
    "exit-at-import": None, "exit-in-a-call": None, "system-exit": None,
    "atexit-and-handlers": None, "loop-in-a-call": None, "loop-in-the-solution-cell": None,
    "stdout-flood": None, "signals-to-itself": None, "stack-overflow": None,
    "lock-never-released": None, "loop-in-del": None, "clocks-that-stand-still": None,
    "deaf-to-signals": None, "alarms-between-calls": None,
    # state and metadata
    "right-every-other-time": None, "first-answer-by-shape": None, "points-in-metadata": None,
    "check-cells-rewritten": None, "a-folder-for-a-notebook": None,
    "answers-by-address": None, "last-answer-again": None, "cells-told-to-be-skipped": None,
    # the library instead of one's own code
    "library-plainly": None,
    # right work that must keep its points
    "pass-reference": None, "exit-beside-right-code": None, "loop-at-import": None,
    "every-field-flipped": None, "old-and-odd-formats": None, "flood-at-import": None,
    "ids-twice-and-missing": None, "magic-beside-right-code": None, "pass-noisy": None,
    "pass-with-own-names": None, "compared-with-the-library": None, "time-that-was-forged": None,
    "a-cache-that-is-right": None,
}  # fmt: skip
SKIPPED = {
    "Bombs of memory, processes, threads, descriptors and disk (part of kind 9)":
        "neither of the others limits these, so only the box around them would be tried",
    "Forged frames and replies, patched workers (kind 13, part of kinds 1, 2, 6 and 10)":
        "they are written for this grader's protocol, which the others do not have",
    "Walls of the worker: namespaces, sockets, /proc, programs (kinds 11 and 12, part of 5, 6, 10)":
        "they win by getting over a wall that the others do not claim to have",
    "Links, pipes and thousands of files (part of kind 17)":
        "they would leave the box, or are gone when one notebook is handed in",
    "Line numbers, and markup in reports (part of kind 14, kind 18)":
        "they try the wording of this grader's reports",
    "Other spellings of library calls (kind 19)":
        "the others do not look for library calls, and one row says so",
    "Points for a part of an exercise (part of kind 15), and wrong answers without malice":
        "they try the hidden tests, which here are not the same",
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--setup", action="store_true", help="make the environments, run nothing")
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache" / "peers")
    parser.add_argument("--peers", nargs="+", default=["nbgrader", "otter"])
    parser.add_argument("--only", nargs="+", metavar="ATTACK", help="instead of all of CHOSEN")
    parser.add_argument("--missing", action="store_true", help="only what has no result yet")
    parser.add_argument("--seconds", type=int, help="for one run, instead of peers.SECONDS")
    parser.add_argument("--keep", type=Path, help="keep what each run left behind in this folder")
    options = parser.parse_args()
    if options.seconds:
        peers.SECONDS = dict.fromkeys(peers.SECONDS, options.seconds)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # end the box and tidy up
    home = options.home.resolve()
    if options.setup:
        peers.set_up(home, options.peers)
        return 0
    missing = [name for name in options.peers if peers.version(home, name) is None]
    if missing:
        parser.error(f"not installed in {home}: {', '.join(missing)}; see --setup")
    names = options.only or list(CHOSEN)
    every = {attack.name: attack for attack in attack_class.attacks()}
    unknown = [name for name in names if name not in every or name not in CHOSEN]
    if unknown:
        parser.error(f"not among CHOSEN: {', '.join(unknown)}")
    with tempfile.TemporaryDirectory(prefix="attacks-on-peers-") as scratch:
        kinds = {"nbgrader": peers.Nbgrader, "otter": peers.Otter}
        trials = {
            name: Trial(kinds[name], home, Path(scratch), options.keep) for name in options.peers
        }
        for trial in trials.values():
            trial.check_controls()
        for position, attack in enumerate(names):
            for name, trial in trials.items():
                if options.missing and name in results()["attacks"].get(attack, {}):
                    continue
                entry = trial.attempt(every[attack])
                verdict = "held" if entry["held"] else "NOT HELD"
                print(
                    f"{name} {position + 1}/{len(names)} {attack}: {verdict}, "
                    f"{entry['score']} points, {entry['seconds']} s",
                    flush=True,
                )
                record(name, peers.version(home, name), every[attack], entry)
    return 0


class Trial:
    """One peer, with the assignment laid out."""

    def __init__(
        self,
        kind: type[peers.Nbgrader | peers.Otter],
        home: Path,
        scratch: Path,
        keep: Path | None = None,
    ) -> None:
        self.scratch, self.count, self.keep = scratch, 0, keep
        self.token = "CANARY-" + secrets.token_hex(8)
        self.hidden_inputs = hidden_inputs()
        self.peer = kind(home, scratch, attack_class.MARKER)

    def check_controls(self) -> None:
        """The reference must get everything and the empty notebook nothing, or no run counts."""
        known = {attack.name: attack for attack in attack_class.attacks()}
        for name, want in (("pass-reference", 20.0), ("fail-untouched", 0.0)):
            entry = self.attempt(known[name])
            if entry["score"] != want:
                raise SystemExit(
                    f"{self.peer.name} gives {name} {entry['score']}, not {want}:\n"
                    f"{self.last.said[-3000:]}"
                )

    def attempt(self, attack: attack_class.Attack) -> dict[str, Any]:
        self.count += 1
        case = self.scratch / f"{self.peer.name}-{self.count:03d}"
        student = attack.student
        attack_class.hand_in(attack, case / "submitted")
        students = [student]
        # Somebody's honest work in the same run, after an attack that may reach it.
        if self.peer.batch and attack.kind in REACHING:
            students.append(HONEST)
            self.hand_in_honest(case / "submitted" / HONEST / peers.ASSIGNMENT)
        (case / "canary.txt").write_text(self.token)
        ran = self.last = self.peer.grade(case, students)
        entry = self.judge(attack, ran, case)
        if self.keep:
            self.keep_run(attack.name, case, ran, entry)
        shutil.rmtree(case, ignore_errors=True)
        shutil.rmtree(f"{case}.root", ignore_errors=True)
        return entry

    def keep_run(self, name: str, case: Path, ran: peers.Ran, entry: dict[str, Any]) -> None:
        """What the peer said and left behind, to be read by a person who doubts the entry."""
        folder = self.keep / self.peer.name / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(case, folder, symlinks=True, ignore=shutil.ignore_patterns("source"))
        (folder / "said.txt").write_text(ran.said)
        (folder / "entry.json").write_text(json.dumps(entry, indent=1))

    def hand_in_honest(self, folder: Path) -> None:
        notebook = attack_class.released()
        for name, source in attack_class.reference_sources().items():
            for cell in notebook["cells"]:
                if cell["metadata"].get("nbgrader", {}).get("grade_id") == name:
                    cell["source"] = source
        folder.mkdir(parents=True)
        (folder / f"{peers.ASSIGNMENT}.ipynb").write_text(json.dumps(notebook))

    def judge(self, attack: attack_class.Attack, ran: peers.Ran, case: Path) -> dict[str, Any]:
        """What happened, and whether the grader held."""
        score = ran.scores[attack.student]
        allowed = allowed_points(attack)
        gained = max(0.0, (score or 0.0) - allowed)
        outputs = ran.outputs.get(attack.student, [])
        shown = "\n".join(map(_text, outputs))
        raised = [o.get("ename") for o in outputs if o["output_type"] == "error"]
        won = attack_class.BREACH in raised or bool(
            re.search(rf"^\s*{attack_class.BREACH}\b", ran.said, re.MULTILINE)
        )
        meaning = CHOSEN.get(attack.name) if won else None
        tests = meaning == "tests" or attack_class.MARKER in shown
        files = meaning == "reads" or self.token in shown
        inputs = any(number in shown for number in self.hidden_inputs)
        honest = ran.scores.get(HONEST)
        stopped = ran.ran_out or (HONEST in ran.scores and honest != 20.0)
        lost = attack.expected.get("points") == 20.0 and score != 20.0
        canary = case / "canary.txt"
        wrote = meaning == "writes" or not canary.exists() or canary.read_text() != self.token
        memory, signals = meaning == "memory", meaning == "signals"
        won = any((gained, tests, files, memory, inputs, wrote, signals, stopped))
        return {
            "held": not (won or lost),
            "score": score, "allowed": allowed, "gained": gained, "lost_points": lost,
            "tests_read": tests, "files_read": files, "memory_read": memory,
            "inputs_shown": inputs, "wrote_outside": wrote,
            "reached_others": signals, "batch_stopped": stopped, "honest_neighbour": honest,
            "out_of_time": ran.ran_out, "ungraded": score is None, "exit_code": ran.code,
            "seconds": round(ran.seconds, 1), "load": round(os.getloadavg()[0], 1),
        }  # fmt: skip


def allowed_points(attack: attack_class.Attack) -> float:
    """What the code in it deserves at most."""
    return attack.expected.get("points", attack.expected.get("max_points", 20.0))


def hidden_inputs() -> set[str]:
    """How the first input of each hidden check begins, as an attack would print it.

    The hidden checks set their seed, so this is known; inputs of the visible checks are no secret.
    """
    found = set()
    for shape, dtype in (((6,), torch.float32), ((4, 64), torch.float32), ((6,), torch.float64)):
        torch.manual_seed(0)
        found.add(f"{float((10 + 4 * torch.randn(shape, dtype=dtype)).flatten()[0]):.4f}"[:-1])
    return found


def _text(output: dict[str, Any]) -> str:
    """What a cell printed, or the message of its error (not the traceback, which quotes source)."""
    text = output.get("text", output.get("evalue", ""))
    return text if isinstance(text, str) else "".join(text)


def results() -> dict[str, Any]:
    """What is recorded so far."""
    try:
        return json.loads(RESULTS.read_text())
    except (OSError, ValueError):
        return {"attacks": {}, "versions": {}}


def record(
    grader: str, version: str | None, attack: attack_class.Attack, entry: dict[str, Any]
) -> None:
    """Put one entry into the results file. Two runs, one for each peer, may do so in turns."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with open(Path(tempfile.gettempdir()) / "attacks-on-peers.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        data = results()
        _add(data, grader, version, attack, entry)
        RESULTS.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def _add(
    data: dict[str, Any],
    grader: str,
    version: str | None,
    attack: attack_class.Attack,
    entry: dict[str, Any],
) -> None:
    data["what"] = "the attacks of tests/attacks against other graders, with an equal assignment"
    data["date"] = datetime.date.today().isoformat()
    data["versions"][grader] = version
    data["versions"]["python"] = platform.python_version()
    data["skipped"] = SKIPPED
    row = data["attacks"].setdefault(attack.name, {})
    row |= {
        "kind": attack.kind,
        "class": attack.expected["class"],
        "about": attack.expected["about"],
    }
    row[grader] = entry
    data["attacks"] = dict(sorted(data["attacks"].items(), key=lambda i: (i[1]["kind"], i[0])))


if __name__ == "__main__":
    sys.exit(main())
