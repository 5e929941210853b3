"""Right kernels in other styles than the reference: each must get full marks.

`STYLES` maps the name of a style to the graded names it defines. Where there is no Triton it is
empty, and so is what is tested of this assignment.
"""

from __future__ import annotations

from typing import Any

STYLES: dict[str, dict[str, Any]] = {}
SLOW_STYLES = {"tiles", "strides", "persistent", "helpers"}  # a second and more for each seed

try:
    from alternatives import (
        kernels_by_helpers,
        kernels_by_rows,
        kernels_by_strides,
        kernels_by_tiles,
    )
except ImportError:
    pass
else:
    STYLES = {
        "tiles": kernels_by_tiles.STYLE,
        "strides": kernels_by_strides.STYLE,
        "persistent": kernels_by_rows.STYLE,
        "helpers": kernels_by_helpers.STYLE,
    }
