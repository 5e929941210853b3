"""Executes pages on all cores before they are read.

myst-nb executes a page when it comes to read it, one page after another. Here the cache runs those
that it does not have yet, each in a kernel of its own, several at a time. A page that fails is not
kept, so myst-nb runs it once more and reports what is wrong.
"""

from __future__ import annotations

import logging
from pathlib import Path

from jupyter_cache import get_cache
from jupyter_cache.executors import load_executor
from myst_nb.core.read import is_myst_markdown_notebook
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

SILENT = logging.Logger(__name__, logging.CRITICAL)  # myst-nb has the last word on a failure


def execute(pages: list[Path], folder: str, timeout: int) -> None:
    """Put the outputs of those pages into the cache in `folder` that it does not have yet.

    `timeout` is in seconds, for one cell.
    """
    cache = get_cache(folder)
    for page in pages:
        cache.add_nb_to_project(str(page), read_data={"type": "plugin", "name": "myst_nb_md"})
    executor = load_executor("local-parallel", cache, SILENT)
    executor.run_and_cache(filter_uris=[str(page.absolute()) for page in pages], timeout=timeout)


def before_reading(app: Sphinx, env: BuildEnvironment, names: list[str]) -> None:
    if app.config.nb_execution_mode == "cache":
        pages = [Path(env.doc2path(name)) for name in names]
        pages = [page for page in pages if is_myst_markdown_notebook(page.read_text("utf-8"))]
        execute(pages, app.config.nb_execution_cache_path, app.config.nb_execution_timeout)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("env-before-read-docs", before_reading)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
