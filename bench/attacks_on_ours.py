"""The attacks of attacks_on_peers.py against this grader, as one class, judged by the same rules.

    python -m bench.attacks_on_ours          # about a minute; changes only its own entries

`tests/grading/test_attacks.py` asks for more of each attack; this is the column beside the other
graders.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import autograder
from bench.attacks_on_peers import CHOSEN, allowed_points, attack_class, record


def main() -> int:
    every = {attack.name: attack for attack in attack_class.attacks()}
    chosen = [every[name] for name in CHOSEN]
    place = attack_class.Place(Path(tempfile.mkdtemp(prefix="attack-class-")))
    try:
        place.prepare()
        for attack in chosen:
            attack_class.hand_in(attack, place.base / "submitted")
        honest = attack_class.honest_students(place.base / "submitted")
        before = place.fingerprints()
        ran = attack_class.run_grader(place, place.base / "submitted", "ours", "strong", 2)
        entries = judge(place, ran, chosen, honest, before)
    finally:
        place.clean()
    for attack in chosen:
        entry = entries[attack.name]
        print(f"{attack.name}: {'held' if entry['held'] else 'NOT HELD'}, {entry['score']} points")
        record("ours", autograder.__version__, attack, entry)
    return 0


def judge(
    place: attack_class.Place,
    ran: attack_class.Graded,
    chosen: list[attack_class.Attack],
    honest: list[str],
    before: dict[str, str],
) -> dict[str, dict[str, Any]]:
    """What happened to each. What cannot be laid to one attack is laid to all of them."""
    found, texts = ran.submissions(), ran.texts()
    numbers = attack_class.hidden_numbers()
    after = place.fingerprints()
    wrote = bool(place.planted()) or any(before[path] != after.get(path) for path in before)
    full = [found[student]["score"] for student in honest if student.endswith("-full")]
    stopped = any(student not in found for student in honest) or set(full) != {20.0}
    entries = {}
    for attack in chosen:
        one = found[attack.student]
        shown = "\n".join(text for name, text in texts.items() if attack.student in name)
        said = "\n".join(attack_class.messages(one))
        meaning = CHOSEN[attack.name] if attack_class.BREACH in said else None
        allowed = allowed_points(attack)
        gained = max(0.0, (one["score"] or 0.0) - allowed)
        lost = attack.expected.get("points") == 20.0 and one["score"] != 20.0
        inputs = any(re.search(rf"(?<![\d.]){re.escape(n)}", shown) for n in numbers)
        bad = {
            "tests_read": meaning == "tests" or attack_class.MARKER in shown,
            "files_read": place.token in shown,
            "memory_read": meaning == "memory", "inputs_shown": inputs,
            "wrote_outside": wrote or meaning == "writes",
            "reached_others": meaning == "signals", "batch_stopped": stopped,
        }  # fmt: skip
        bad["files_read"] |= meaning == "reads"
        entries[attack.name] = {
            "held": not (gained or lost or any(bad.values())),
            "score": one["score"], "allowed": allowed, "gained": gained, "lost_points": lost,
            **bad, "honest_neighbour": min(full), "out_of_time": False,
            "ungraded": one["score"] is None, "exit_code": ran.code,
            "seconds": one.get("seconds"), "load": round(os.getloadavg()[0], 1),
        }  # fmt: skip
    return entries


if __name__ == "__main__":
    sys.exit(main())
