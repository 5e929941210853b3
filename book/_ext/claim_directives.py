"""Shows claims of the ledger: `{claim}` a card, `{taught}` marks, `{claims-table}` all of them.

    ```{claim} C144
    ```
    A definition that is right needs no card; the sentence that teaches it ends with {taught}`C003`.

Every place gets the anchor `claim-c144`, to which the table of all claims links.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ledger
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

TABLE_PAGE = "book/claims-and-myths"


def find(env, ident: str) -> ledger.Claim:
    """The claim `ident`.

    Raises:
        ledger.LedgerError: this page may not show it: unknown, planned, or of another chapter.
    """
    env.note_dependency(str(ledger_path(env)))
    book = _ledger_of(env)
    if ident in book.claims:
        claim = book.claims[ident]
        if book.page(claim) != env.docname:
            raise ledger.LedgerError(f"{ident} belongs to the chapter {claim.chapter}")
        return claim
    for chapter, ids in book.planned.items():
        if ident in ids:
            raise ledger.LedgerError(f"{ident} is only planned, for the chapter {chapter}")
    raise ledger.LedgerError(f"there is no claim {ident}")


def badge(verdict: str) -> nodes.inline:
    return nodes.inline(verdict, verdict, classes=["verdict", "verdict-" + verdict.split()[-1]])


def evidence(claim: ledger.Claim) -> str:
    """MyST text that names the sources, the section and the test."""
    parts = []
    if claim.test:
        parts.append(f"[experiment](#{claim.anchor})")
        parts.append("checked by `" + claim.test.rsplit("::", 1)[-1] + "`")
    else:
        parts.append(f"[explained here](#{claim.anchor})")
    parts.extend(f"{{cite:t}}`{key}`" for key in claim.sources)
    return "; ".join(parts)


class ClaimCard(SphinxDirective):
    """One claim with its verdict, the correct statement and the evidence."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        try:
            claim = find(self.env, self.arguments[0])
        except ledger.LedgerError as error:
            raise self.error(f"claim: {error}") from error
        card = nodes.container(classes=["claim-card"], ids=[claim.target])
        head = nodes.paragraph(classes=["claim-head"])
        head += badge(claim.verdict)
        head += nodes.inline(claim.id, claim.id, classes=["claim-id"])
        card += head
        card += self.styled(claim.claim, "claim-text")
        if claim.correct:
            card += self.styled(claim.correct, "claim-correct")
        card += self.styled("Evidence: " + evidence(claim) + ".", "claim-evidence")
        return [card]

    def styled(self, text: str, style: str) -> list[nodes.Node]:
        parsed = self.parse_text_to_nodes(text)
        for node in parsed:
            node["classes"].append(style)
        return parsed


class Taught(SphinxRole):
    """Marks the ids of claims that the text before it teaches."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        out: list[nodes.Node] = []
        for ident in self.text.split():
            try:
                claim = find(self.env, ident)
            except ledger.LedgerError as error:
                return [], [self.inliner.reporter.error(f"taught: {error}", line=self.lineno)]
            uri = self.env.app.builder.get_relative_uri(self.env.docname, TABLE_PAGE)
            mark = nodes.inline(classes=["taught"], ids=[claim.target])
            mark += nodes.reference(
                ident, ident, refuri=f"{uri}#ledger-{ident.lower()}", internal=True
            )
            out += [nodes.Text(" "), mark]
        return out, []


class ClaimsTable(SphinxDirective):
    """Every claim that the book carries so far, by chapter, with a count of what is planned."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(ledger_path(self.env)))
        book = _ledger_of(self.env)
        done, total = len(book.claims), len(ledger.ALL_IDS)
        count = (
            f"{done} of {total} claims are on a page so far; the others belong to later chapters."
        )
        out: list[nodes.Node] = [nodes.paragraph(count, count)]
        for key, chapter in book.chapters.items():
            claims = [claim for claim in book.claims.values() if claim.chapter == key]
            if claims:
                out += self.chapter(chapter["title"], claims)
        return out

    def chapter(self, title: str, claims: list[ledger.Claim]) -> list[nodes.Node]:
        wrapper = nodes.container(classes=["claims-table"])
        table = nodes.table()
        group = nodes.tgroup(cols=3)
        table += group
        for width in (38, 14, 48):
            group += nodes.colspec(colwidth=width)
        head = nodes.thead()
        head += self.row(
            [[nodes.paragraph(text, text)] for text in ("Claim", "Verdict", "Correct")]
        )
        body = nodes.tbody()
        for claim in sorted(claims, key=lambda claim: claim.id):
            body += self.claim_row(claim)
        group += [head, body]
        wrapper += table
        return [nodes.rubric(title, title), wrapper]

    def claim_row(self, claim: ledger.Claim) -> nodes.row:
        book = _ledger_of(self.env)
        uri = self.env.app.builder.get_relative_uri(self.env.docname, book.page(claim))
        first = self.parse_text_to_nodes(claim.claim)
        link = nodes.reference(claim.id, claim.id, refuri=f"{uri}#{claim.target}", internal=True)
        first[0].insert(0, [nodes.strong("", "", link), nodes.Text(" ")])
        verdict = nodes.paragraph()
        verdict += badge(claim.verdict)
        last = self.parse_text_to_nodes(claim.correct or "As claimed.")
        return self.row([first, [verdict], last], ids=[f"ledger-{claim.id.lower()}"])

    def row(self, cells: list[list[nodes.Node]], ids: list[str] | None = None) -> nodes.row:
        row = nodes.row()
        for number, content in enumerate(cells):
            entry = nodes.entry()
            if ids and number == 0:
                content[0]["ids"] += ids
            entry += content
            row += entry
        return row


def ledger_path(env) -> Path:
    return Path(env.srcdir) / "book" / "claims.yml"


def _ledger_of(env: Any) -> Any:
    """What `load_ledger` has put there."""
    return env.course_ledger


def load_ledger(app: Sphinx, env, docnames: list[str]) -> None:
    """Loads the ledger once per build; pages that show claims depend on the file."""
    env.course_ledger = ledger.load(ledger_path(env))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("env-before-read-docs", load_ledger)
    app.add_directive("claim", ClaimCard)
    app.add_directive("claims-table", ClaimsTable)
    app.add_role("taught", Taught())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
