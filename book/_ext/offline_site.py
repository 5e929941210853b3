"""Keeps the built site free of other servers: MathJax is copied into it from an installed package.

Sphinx would load MathJax from a content delivery network. The package `sphinx-mathjax-offline`
holds the same files (MathJax 3.2.2, Apache License 2.0); of its 24 MB the book needs one script and
its fonts, about 1.5 MB.
"""

from __future__ import annotations

import shutil
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

PACKAGE = "sphinx-mathjax-offline"
SCRIPT = "tex-chtml.js"
FONTS = "output/chtml/fonts/woff-v2"


def mathjax_folder() -> Path:
    """The installed package's folder of MathJax files.

    Raises:
        ExtensionError: the package is missing, or lies differently than expected.
    """
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError as error:
        raise ExtensionError(
            f"the package {PACKAGE} is not installed; run 'make setup', or pip install "
            f"-r requirements.txt"
        ) from error
    for file in files:
        if file.name == SCRIPT:
            return Path(str(file.locate())).parent
    raise ExtensionError(f"the package {PACKAGE} has no file {SCRIPT}; is it version 0.0.2?")


def use_local_mathjax(app: Sphinx, config: Config) -> None:
    """Points Sphinx at the copy inside the site."""
    config.mathjax_path = f"mathjax/{SCRIPT}"


def copy_mathjax(app: Sphinx, error: Exception | None) -> None:
    """Copies the script and its fonts into the site's _static folder."""
    if error is not None or app.builder.format != "html":
        return
    source, target = mathjax_folder(), Path(app.outdir) / "_static" / "mathjax"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source / SCRIPT, target / SCRIPT)
    shutil.copytree(source / FONTS, target / FONTS, dirs_exist_ok=True)


def setup(app: Sphinx) -> dict[str, bool]:
    # Jupyter Book always sets this value; the extension that reads it (comments from other servers)
    # is left out, and Sphinx would warn about an unknown value.
    app.add_config_value("comments_config", {}, "")
    app.connect("config-inited", use_local_mathjax)
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
