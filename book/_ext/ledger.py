"""Reads `book/claims.yml`, the ledger of claims, and checks it. Knows nothing of Sphinx.

The file has three parts: `chapters` (key to page and title), `claims` (the rows that pages carry
so far) and `planned` (chapter key to the ids that a later chapter will carry). Together they hold
every id exactly once: C001 to C183, and N01 to N26.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

VERDICTS = ("right", "right with a condition", "imprecise", "wrong", "unsourced")
ALL_IDS = tuple(f"C{n:03}" for n in range(1, 184)) + tuple(f"N{n:02}" for n in range(1, 27))


class LedgerError(Exception):
    """The ledger is not in order; the message is one line for its author."""


@dataclass(frozen=True)
class Claim:
    """One row.

    Attributes:
        id: C001 to C183, or N01 to N26.
        chapter: a key of `chapters`.
        claim: what is claimed, in our words.
        verdict: one of VERDICTS.
        correct: the correct statement; may be left out where the verdict is "right".
        sources: keys of references.bib.
        anchor: the section of the page that teaches it; the experiment, if any, is there.
        test: the pytest node that fails when the effect is not there, or None.
    """

    id: str
    chapter: str
    claim: str
    verdict: str
    correct: str
    sources: tuple[str, ...]
    anchor: str
    test: str | None

    @property
    def target(self) -> str:
        """The anchor of this claim's own place on its page."""
        return f"claim-{self.id.lower()}"


@dataclass(frozen=True)
class Ledger:
    """All claims, by id, and what is still planned."""

    chapters: dict[str, dict[str, str]]
    claims: dict[str, Claim]
    planned: dict[str, tuple[str, ...]]

    def page(self, claim: Claim) -> str:
        """The Sphinx document name of the claim's chapter."""
        return f"book/{self.chapters[claim.chapter]['page']}"


def load(path: Path) -> Ledger:
    """Reads and checks the ledger.

    Raises:
        LedgerError: an unknown or missing id, verdict, chapter or field, or an id found twice.
    """
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    chapters = data["chapters"]
    claims: dict[str, Claim] = {}
    for row in data["claims"]:
        claim = _claim(row, chapters)
        if claim.id in claims:
            raise LedgerError(f"claim {claim.id} occurs twice")
        claims[claim.id] = claim
    planned = {chapter: tuple(ids) for chapter, ids in (data["planned"] or {}).items()}
    _check_complete(claims, planned, chapters)
    return Ledger(chapters, claims, planned)


def _claim(row: dict, chapters: dict) -> Claim:
    ident = row.get("id", "?")
    if ident not in ALL_IDS:
        raise LedgerError(f"unknown claim id {ident}")
    unknown = set(row) - {
        "id",
        "chapter",
        "claim",
        "verdict",
        "correct",
        "sources",
        "anchor",
        "test",
    }
    if unknown:
        raise LedgerError(f"claim {ident} has unknown fields: {', '.join(sorted(unknown))}")
    for field in ("chapter", "claim", "verdict", "anchor"):
        if not row.get(field):
            raise LedgerError(f"claim {ident} has no {field}")
    if row["verdict"] not in VERDICTS:
        raise LedgerError(f"claim {ident} has the unknown verdict {row['verdict']!r}")
    if row["chapter"] not in chapters:
        raise LedgerError(f"claim {ident} names the unknown chapter {row['chapter']!r}")
    if row["verdict"] != "right" and not row.get("correct"):
        raise LedgerError(f"claim {ident} is {row['verdict']}, so it needs a correct statement")
    if not re.fullmatch(r"[a-z0-9-]+", row["anchor"]):
        raise LedgerError(f"claim {ident} has the malformed anchor {row['anchor']!r}")
    return Claim(
        id=ident,
        chapter=row["chapter"],
        claim=row["claim"].strip(),
        verdict=row["verdict"],
        correct=(row.get("correct") or "").strip(),
        sources=tuple(row.get("sources") or ()),
        anchor=row["anchor"],
        test=row.get("test"),
    )


def _check_complete(claims: dict, planned: dict, chapters: dict) -> None:
    seen = list(claims)
    for chapter, ids in planned.items():
        if chapter not in chapters:
            raise LedgerError(f"planned names the unknown chapter {chapter!r}")
        seen.extend(ids)
    if twice := sorted({i for i in seen if seen.count(i) > 1}):
        raise LedgerError(f"these ids occur twice: {', '.join(twice)}")
    if missing := [i for i in ALL_IDS if i not in seen]:
        raise LedgerError(f"these ids are neither on a page nor planned: {', '.join(missing)}")
    if unknown := sorted(set(seen) - set(ALL_IDS)):
        raise LedgerError(f"planned has unknown ids: {', '.join(unknown)}")
