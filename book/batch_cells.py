"""A box of cells to turn and to step through: which numbers share one mean in BatchNorm.

Pure HTML and CSS: radio buttons choose the shape, the channel and the view, and `:has()` does the
rest. Nothing is loaded and no script runs.
"""

from __future__ import annotations

import figures
from IPython.display import HTML, display

N, C = 4, 5  # samples, channels
SHAPES = {"(N, C)": 1, "(N, C, L)": 6, "(N, C, H, W)": 9}  # positions: 1, L = 6, H·W = 3·3
POSITIONS = {"(N, C)": "", "(N, C, L)": " · 6", "(N, C, H, W)": " · 3 · 3"}
AXIS = {"(N, C)": "", "(N, C, L)": "L", "(N, C, H, W)": "H·W"}
VIEWS = {
    "corner": "rotateX(-24deg) rotateY(-34deg)",
    "front": "rotateX(0deg) rotateY(0deg)",
    "side": "rotateX(0deg) rotateY(-90deg)",
    "top": "rotateX(-90deg) rotateY(0deg)",
}
FACES = ("front", "back", "left", "right", "up", "down")
LABEL = (
    "A box of cells, samples deep, channels wide, positions high. One slice, a single channel of "
    "all samples at all positions, is filled: its cells share one mean and one variance."
)

STYLE = f"""
.bn-cells {{ --s: 1.5rem; --p: 9; --view: {VIEWS["corner"]}; }}
.bn-cells fieldset {{ border: 0; padding: 0; margin: 0 0 .3rem; display: flex;
  flex-wrap: wrap; gap: .2rem .9rem; }}
.bn-cells legend {{ float: left; font-weight: 600; padding: 0; margin: 0; font-size: 1em;
  width: 4.6rem; }}
.bn-cells label {{ display: inline-flex; gap: .3rem; align-items: baseline; }}
.bn-scene {{ height: 23rem; display: grid; place-items: center; perspective: 60rem;
  overflow: hidden; }}
.bn-box {{ position: relative; width: calc({C} * var(--s)); height: calc(var(--p) * var(--s));
  transform-style: preserve-3d; transform: var(--view); transition: transform .7s; }}
@media (prefers-reduced-motion: reduce) {{ .bn-box {{ transition: none; }} }}
.bn-slab {{ position: absolute; top: 0; height: 100%; width: calc(var(--s) - 5px);
  transform-style: preserve-3d; --fill: #a9aeb4; --shade: #8f959c; --dark: #7b8188; }}
.bn-slab i {{ position: absolute; left: 0; top: 0; --line: var(--pst-color-background, #fff);
  background: repeating-linear-gradient(to bottom, var(--line) 0 1px, transparent 1px var(--s)),
    repeating-linear-gradient(to right, var(--line) 0 1px, transparent 1px var(--s)),
    var(--fill); }}
.bn-front {{ width: 100%; height: 100%; transform: translateZ(calc({N} * var(--s) / 2)); }}
.bn-back {{ width: 100%; height: 100%; transform: translateZ(calc({N} * var(--s) / -2)); }}
.bn-slab .bn-left, .bn-slab .bn-right {{ width: calc({N} * var(--s)); height: 100%;
  --fill: var(--shade); left: calc(50% - {N} * var(--s) / 2); }}
.bn-left {{ transform: rotateY(-90deg) translateZ(calc(var(--s) / 2 - 2.5px)); }}
.bn-right {{ transform: rotateY(90deg) translateZ(calc(var(--s) / 2 - 2.5px)); }}
.bn-slab .bn-up, .bn-slab .bn-down {{ width: 100%; height: calc({N} * var(--s));
  --fill: var(--dark); top: calc(50% - {N} * var(--s) / 2); }}
.bn-up {{ transform: rotateX(90deg) translateZ(calc(var(--p) * var(--s) / 2)); }}
.bn-down {{ transform: rotateX(-90deg) translateZ(calc(var(--p) * var(--s) / 2)); }}
.bn-axis {{ position: absolute; font-size: .9rem; white-space: nowrap; }}
.bn-axis-c {{ left: 0; width: 100%; text-align: center; top: 100%;
  transform: translateZ(calc({N} * var(--s) / 2)); }}
.bn-axis-n {{ top: 100%; width: calc({N} * var(--s)); text-align: center;
  left: calc(50% - {N} * var(--s) / 2);
  transform: rotateY(90deg) translateZ(calc({C} * var(--s) / 2)); }}
.bn-axis-top {{ visibility: hidden; left: 100%; top: calc(50% - .7rem); padding-left: .4rem;
  transform: rotateX(90deg) translateZ(calc(var(--p) * var(--s) / 2)); }}
.bn-axis-p {{ right: 100%; top: calc(50% - .7rem); padding-right: .4rem;
  transform: translateZ(calc({N} * var(--s) / 2)); }}
.bn-say {{ display: none; text-align: center; margin: .2rem 0 0; }}
"""


def _rules() -> list[str]:
    """What each radio button changes."""
    rules = []
    for s, (shape, positions) in enumerate(SHAPES.items()):
        chosen = f".bn-cells:has(#bn-shape-{s}:checked)"
        size = {1: "2.6rem", 6: "2.1rem", 9: "1.75rem"}[positions]
        rules += [f"{chosen} {{ --p: {positions}; --s: {size}; }}"]
        rules += [f"{chosen} .bn-axis-p::before {{ content: '{AXIS[shape]}'; }}"]
        for c in range(C):
            both = f"{chosen}:has(#bn-channel-{c}:checked)"
            rules += [f"{both} .bn-say-{s}-{c} {{ display: block; }}"]
    for c in range(C):
        slab = f".bn-cells:has(#bn-channel-{c}:checked) .bn-slab-{c}"
        colour = figures.COLOURS["BatchNorm"]
        rules += [f"{slab} {{ --fill: {colour}; --shade: #b85f08; --dark: #9a5007; }}"]
    for v, (name, view) in enumerate(VIEWS.items()):
        chosen = f".bn-cells:has(#bn-view-{v}:checked)"
        rules += [f"{chosen} {{ --view: {view}; }}"]
        if name == "top":
            rules += [f"{chosen} .bn-axis-top {{ visibility: visible; }}"]
        if name == "side":  # the other channels would hide the chosen one
            rules += [f"{chosen} .bn-slab {{ visibility: hidden; }}"]
            rules += [
                f"{chosen}:has(#bn-channel-{c}:checked) .bn-slab-{c} {{ visibility: visible; }}"
                for c in range(C)
            ]
    return rules


def _radios(name: str, legend: str, labels: list[str], chosen: int) -> str:
    buttons = "".join(
        f'<label for="bn-{name}-{i}"><input type="radio" name="bn-{name}" id="bn-{name}-{i}"'
        f"{' checked' if i == chosen else ''}>{label}</label>"
        for i, label in enumerate(labels)
    )
    return f"<fieldset><legend>{legend}</legend>{buttons}</fieldset>"


def show() -> None:
    """Writes the picture and its controls into the page."""
    faces = "".join(f'<i class="bn-{f}"></i>' for f in FACES)
    slabs = "".join(
        f'<div class="bn-slab bn-slab-{c}" style="left: calc({c} * var(--s))">{faces}</div>'
        for c in range(C)
    )
    texts = "".join(
        f'<p class="bn-say bn-say-{s}-{c}">Channel {c + 1} of {C}: {N}{POSITIONS[shape]} = '
        f"{N * positions} cells share one mean and one variance.</p>"
        for s, (shape, positions) in enumerate(SHAPES.items())
        for c in range(C)
    )
    axes = "".join(
        f'<span class="bn-axis bn-axis-{kind}" aria-hidden="true">{text}</span>'
        for kind, text in (("c", "C"), ("n", "N"), ("top", "N"), ("p", ""))
    )
    controls = (
        _radios("shape", "Shape", list(SHAPES), 2)
        + _radios("channel", "Channel", [str(c + 1) for c in range(C)], 1)
        + _radios("view", "View", list(VIEWS), 0)
    )
    display(
        HTML(
            f'<figure class="course-figure bn-cells"><style>{STYLE}{"".join(_rules())}</style>'
            f'{controls}<div class="bn-scene" role="img" aria-label="{LABEL}">'
            f'<div class="bn-box">{slabs}{axes}</div></div>{texts}'
            "<figcaption>Choose a shape, step through the channels, turn the box. N: samples, "
            "C: channels, L or H·W: positions.</figcaption></figure>"
        )
    )
