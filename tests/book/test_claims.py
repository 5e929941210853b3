"""The ledger of claims is complete, lies on the pages, and its tests and sources exist."""

from __future__ import annotations

import ast
import copy
import re
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "book" / "_ext"))

import ledger  # noqa: E402

BOOK = ledger.load(ROOT / "book" / "claims.yml")
CLAIMS = pytest.mark.parametrize("claim", BOOK.claims.values(), ids=BOOK.claims)


def page_source(claim: ledger.Claim) -> str:
    return (ROOT / f"{BOOK.page(claim)}.md").read_text(encoding="utf-8")


def functions(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_every_id_of_the_ledger_is_on_a_page_or_planned_for_one():
    planned = [ident for ids in BOOK.planned.values() for ident in ids]
    assert len(ledger.ALL_IDS) == 183 + 26
    assert sorted([*BOOK.claims, *planned]) == sorted(ledger.ALL_IDS)


def test_a_chapter_with_a_page_has_nothing_left_to_plan():
    for chapter, entry in BOOK.chapters.items():
        if (ROOT / "book" / f"{entry['page']}.md").is_file():
            assert not BOOK.planned.get(chapter), f"{entry['page']} misses claims of the ledger"


@CLAIMS
def test_the_page_shows_the_claim(claim: ledger.Claim):
    source = page_source(claim)
    card = f"```{{claim}} {claim.id}\n" in source
    marks = " ".join(re.findall(r"\{taught\}`([^`]*)`", source)).split()
    assert card + marks.count(claim.id) == 1, "once, as a card or as a mark"
    if claim.verdict != "right":
        assert card, "a claim that is not simply right needs a card with the correct statement"


@CLAIMS
def test_the_section_that_teaches_the_claim_exists(claim: ledger.Claim):
    assert f"({claim.anchor})=\n" in page_source(claim)


@CLAIMS
def test_the_sources_are_in_the_bibliography(claim: ledger.Claim):
    keys = re.findall(r"@\w+\{([^,]+),", (ROOT / "book" / "references.bib").read_text("utf-8"))
    assert set(claim.sources) <= set(keys)


@CLAIMS
def test_the_evidence_is_a_test_or_a_source_or_mere_reading(claim: ledger.Claim):
    if claim.test:
        file, _, name = claim.test.partition("::")
        assert name in functions(ROOT / file), f"{claim.test} does not exist"
    elif not claim.sources:
        assert claim.id in {"C031", "C091"}, "only slips of wording need no evidence"


def test_every_executed_claim_belongs_to_the_ledger():
    for path in (ROOT / "tests" / "claims").glob("test_*.py"):
        for name in functions(path):
            ids = {part.upper() for part in re.findall(r"(?<=_)[cn]\d{2,3}(?=_)", name)}
            assert not name.startswith("test_") or (ids and ids <= set(BOOK.claims)), name


def broken(tmp_path: Path, change) -> Path:
    """A copy of the ledger after `change` was applied to its data."""
    data = copy.deepcopy(yaml.safe_load((ROOT / "book" / "claims.yml").read_text("utf-8")))
    change(data)
    path = tmp_path / "claims.yml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["claims"].pop(0), "neither on a page nor planned: C001"),
        (lambda d: d["claims"].append(d["claims"][0]), "C001 occurs twice"),
        (lambda d: d["claims"][0].update(verdict="true"), "unknown verdict 'true'"),
        (lambda d: d["claims"][0].update(chapter="x"), "unknown chapter 'x'"),
        (lambda d: d["claims"][0].update(id="C999"), "unknown claim id C999"),
        (lambda d: d["claims"][0].update(correct=""), "needs a correct statement"),
        (lambda d: d["claims"][0].update(sorces=[]), "unknown fields: sorces"),
        (
            lambda d: d.setdefault("planned", {}).setdefault("triton", []).append("C001"),
            "these ids occur twice: C001",
        ),
    ],
)
def test_a_ledger_that_is_not_in_order_is_refused_in_one_line(tmp_path, change, message):
    with pytest.raises(ledger.LedgerError) as caught:
        ledger.load(broken(tmp_path, change))
    assert message in str(caught.value) and "\n" not in str(caught.value)
