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

from bench import peers

peers.tests_folder()

import attack_class  # noqa: E402 - from the tests, see above

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "attacks-on-peers.json"
HONEST = "zz-honest"
REACHING = {4, 5, 6, 7, 8, 9, 10, 12, 17}  # kinds that could spoil what is graded next

# What an attack shows when it says that it won (by raising OverflowError): "reads" hidden text,
# "writes" where it should not, "signals" others; None: its score alone speaks.
CHOSEN: dict[str, str | None] = {
    # results that pretend
    "equal-to-everything": None, "class-says-tensor": None, "tensor-subclass": None,
    "dispatch-mode": None, "nan-everywhere": None, "nothing-to-compare": None,
    "verdict-as-value": None,
    # the test tools in the learner's hands
    "patched-assertions": None, "patched-builtins": None, "patched-tensor": None,
    "fake-modules": None, "ipython-hooks": None, "magics-and-shell": None,
    "results-on-stdout": None, "results-in-outputs": None,
    # reading
    "walks-the-file-system": "reads", "frames-and-garbage": "reads",
    "inputs-through-exceptions": None, "inputs-through-print": None,
    # files beside, and files elsewhere
    "pytest-files-beside": None, "python-files-beside": None, "jupyter-files-beside": None,
    "plants-files": "writes", "writes-the-gradebook": "writes", "signals-to-others": "signals",
    # ending, hanging, flooding
    "exit-at-import": None, "exit-in-a-call": None, "system-exit": None,
    "atexit-and-handlers": None, "loop-in-a-call": None, "loop-in-the-solution-cell": None,
    "stdout-flood": None,
    # state and metadata
    "right-every-other-time": None, "first-answer-by-shape": None, "points-in-metadata": None,
    "check-cells-rewritten": None, "a-folder-for-a-notebook": None,
    # the library instead of one's own code
    "library-plainly": None,
    # right work that must keep its points
    "pass-reference": None, "exit-beside-right-code": None, "loop-at-import": None,
    "every-field-flipped": None, "old-and-odd-formats": None,
}  # fmt: skip
SKIPPED = {
    "memory-bomb, memory-in-many-processes, fork-bomb, thread-bomb, descriptor-bomb, disk-bomb":
        "neither peer limits memory, processes or disk: only the box around them would be tried",
    "frames on the socket (kinds 13 and part of 2)":
        "they are written for this grader's protocol, which the peers do not have",
    "namespaces, sockets, shared memory (kinds 11 and 12)":
        "their sign of success is a wall of this grader's worker, which the peers do not claim",
    "links and pipes for a notebook (part of kind 17)":
        "they would leave the box's folder, or need a reader that this benchmark would be",
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--setup", action="store_true", help="make the environments, run nothing")
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache" / "peers")
    parser.add_argument("--peers", nargs="+", default=["nbgrader", "otter"])
    parser.add_argument("--only", nargs="+", metavar="ATTACK", help="instead of all of CHOSEN")
    parser.add_argument(
        "--missing", action="store_true", help="only what has no result, or ran out of time"
    )
    parser.add_argument("--seconds", type=int, default=peers.SECONDS, help="for one run")
    options = parser.parse_args()
    peers.SECONDS = options.seconds
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
        trials = {name: Trial(kinds[name], home, Path(scratch)) for name in options.peers}
        for trial in trials.values():
            trial.check_controls()
        for position, attack in enumerate(names):
            for name, trial in trials.items():
                known = results()["attacks"].get(attack, {}).get(name)
                if options.missing and known and not known["out_of_time"]:
                    continue
                entry = trial.attempt(every[attack])
                verdict = "held" if entry["held"] else "NOT HELD"
                print(
                    f"{name} {position + 1}/{len(names)} {attack}: {verdict}, "
                    f"{entry['score']} points, {entry['seconds']} s",
                    flush=True,
                )
                record(home, name, every[attack], entry)
    return 0


class Trial:
    """One peer, with the assignment laid out."""

    def __init__(self, kind: type[peers.Nbgrader | peers.Otter], home: Path, scratch: Path) -> None:
        self.scratch, self.count = scratch, 0
        self.token = "CANARY-" + secrets.token_hex(8)
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
        shutil.rmtree(case, ignore_errors=True)
        shutil.rmtree(f"{case}.root", ignore_errors=True)
        return entry

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
        expected, control = attack.expected, attack.expected["class"] == "control-pass"
        allowed = expected.get("points", expected.get("max_points", 20.0))
        gained = max(0.0, (score or 0.0) - allowed)
        outputs = ran.outputs.get(attack.student, [])
        shown = "\n".join(map(_text, outputs))
        raised = [o.get("ename") for o in outputs if o["output_type"] == "error"]
        won = attack_class.BREACH in raised or bool(
            re.search(rf"^{attack_class.BREACH}\b", ran.said, re.MULTILINE)
        )
        meaning = CHOSEN.get(attack.name) if won else None
        read = meaning == "reads" or any(
            word in shown for word in (attack_class.MARKER, self.token)
        )
        inputs = re.search(r"(INPUT|STOLEN) -?\d", shown) is not None
        honest = ran.scores.get(HONEST)
        stopped = ran.ran_out or (HONEST in ran.scores and honest != 20.0)
        lost = control and score != 20.0
        canary = case / "canary.txt"
        wrote = meaning == "writes" or not canary.exists() or canary.read_text() != self.token
        signals = meaning == "signals"
        return {
            "held": not any((gained, read, inputs, wrote, signals, stopped, lost)),
            "score": score, "allowed": allowed, "gained": gained, "lost_points": lost,
            "tests_read": read, "inputs_shown": inputs, "wrote_outside": wrote,
            "reached_others": signals, "batch_stopped": stopped, "honest_neighbour": honest,
            "out_of_time": ran.ran_out, "ungraded": score is None, "exit_code": ran.code,
            "seconds": round(ran.seconds, 1), "load": round(os.getloadavg()[0], 1),
        }  # fmt: skip


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


def record(home: Path, peer: str, attack: attack_class.Attack, entry: dict[str, Any]) -> None:
    """Put one entry into the results file. Two runs, one for each peer, may do so in turns."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with open(Path(tempfile.gettempdir()) / "attacks-on-peers.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        data = results()
        _add(data, home, peer, attack, entry)
        RESULTS.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def _add(
    data: dict[str, Any], home: Path, peer: str, attack: attack_class.Attack, entry: dict[str, Any]
) -> None:
    data["what"] = "the attacks of tests/attacks against other graders, with an equal assignment"
    data["date"] = datetime.date.today().isoformat()
    data["versions"][peer] = peers.version(home, peer)
    data["versions"]["python"] = platform.python_version()
    data["skipped"] = SKIPPED
    row = data["attacks"].setdefault(attack.name, {})
    row |= {
        "kind": attack.kind,
        "class": attack.expected["class"],
        "about": attack.expected["about"],
    }
    row[peer] = entry
    data["attacks"] = dict(sorted(data["attacks"].items(), key=lambda i: (i[1]["kind"], i[0])))


if __name__ == "__main__":
    sys.exit(main())
