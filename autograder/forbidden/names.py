"""What a person should look at wherever it stands: see also `beneath`."""

from __future__ import annotations

import re

from ..beneath import words

# Calls that run a text.
TEXT = frozenset({"exec", "eval", "compile"})

# Modules that notebooks of this course import. Others may hold anything under any name.
EVERYDAY = words("""
    abc argparse array ast asyncio base64 bisect cmath collections contextlib copy csv dataclasses
    datetime decimal doctest enum fractions functools gc glob hashlib heapq inspect io itertools
    json keyword logging math numbers operator os pathlib pdb pickle platform pprint queue random re
    reprlib resource shutil signal statistics string struct subprocess sys tempfile textwrap time
    timeit traceback types typing unittest uuid warnings weakref zlib __future__ threading importlib

    torch triton numpy scipy sklearn pandas matplotlib seaborn plotly einops jaxtyping beartype
    torchtyping typing_extensions tqdm PIL cv2 torchvision torchaudio torchinfo torchmetrics
    transformers datasets lightning pytorch_lightning pytest hypothesis rich tabulate IPython
    ipywidgets google jax flax tensorflow keras mpl_toolkits nbgrader otter wandb tensorboard psutil
    line_profiler memory_profiler packaging requests yaml sympy
""")

# `from ... import *` of these gives what the course needs; of others, names that lead anywhere.
WHOLE = re.compile(
    r"^(?:torch(?:\.nn(?:\.functional)?)?|math|numpy|typing|triton|matplotlib)(?:\.|$)"
)
