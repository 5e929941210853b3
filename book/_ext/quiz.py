"""The directive `{quiz}`: a multiple-choice question answered in the page, without any script.

The body is the question, then one list item per answer. `[x]` marks the right one, `[ ]` a wrong
one; the text after `::` is shown when that answer is chosen.

    ```{quiz}
    How many means does LayerNorm compute for x of shape (4, 10, 8)?
    - [ ] 8 :: That is BatchNorm: one per feature.
    - [x] 40 :: One per token, 4 times 10.
    ```

Radio buttons and CSS do the rest, so it works from a file, with the keyboard and with a screen
reader (the reply has the role "status", which is read out when it appears).
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ITEM = re.compile(r"^- \[([ x])\] (.*)$")


class Quiz(SphinxDirective):
    """One question with its answers, exactly one of them right."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        question, answers = self.split()
        if not question or len(answers) < 2:
            raise self.error("quiz: it needs a question and at least two answers")
        if sum(right for right, _, _ in answers) != 1:
            raise self.error("quiz: exactly one answer must be marked [x]")
        group = f"quiz-{self.env.new_serialno('quiz')}"
        out = [raw('<fieldset class="quiz"><legend>')]
        out += [*self.inline(question), raw("</legend>")]
        for number, (right, answer, reply) in enumerate(answers):
            if not reply:
                raise self.error(f"quiz: answer {number + 1} has no reply after '::'")
            mark, word = ("right", "Right.") if right else ("wrong", "No.")
            ident = f"{group}-{number}"
            out.append(
                raw(
                    f'<div class="quiz-answer"><input type="radio" name="{group}" '
                    f'id="{ident}"><label for="{ident}">'
                )
            )
            out += self.inline(answer)
            out.append(
                raw(
                    f'</label><p class="quiz-reply quiz-{mark}" role="status">'
                    f"<strong>{word}</strong> "
                )
            )
            out += [*self.inline(reply), raw("</p></div>")]
        out.append(raw("</fieldset>"))
        return out

    def split(self) -> tuple[str, list[tuple[bool, str, str]]]:
        """The question, and (right, answer, reply) for each answer; lines may be continued."""
        question: list[str] = []
        items: list[list[str]] = []
        for line in self.content:
            found = ITEM.match(line)
            if found:
                items.append([found.group(1), found.group(2)])
            elif items:
                items[-1][1] += " " + line.strip()
            else:
                question.append(line.strip())
        answers = []
        for mark, text in items:
            answer, _, reply = text.partition("::")
            answers.append((mark == "x", answer.strip(), reply.strip()))
        return " ".join(question).strip(), answers

    def inline(self, text: str) -> list[nodes.Node]:
        """Parsed inline markup of one paragraph."""
        parsed = self.parse_text_to_nodes(text)
        return parsed[0].children if parsed else []


def raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("quiz", Quiz)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
