"""What a person should look at wherever it stands: see also `beneath`."""

from __future__ import annotations

import re

from ..worker.beneath import words

# Calls that run a text.
TEXT = frozenset({"exec", "eval", "compile"})

# Modules that notebooks of this course import. Others may hold anything under any name.
EVERYDAY = words("""
    abc argparse array ast asyncio base64 bisect calendar cmath collections concurrent configparser
    contextlib contextvars copy csv dataclasses datetime decimal difflib doctest enum fractions
    functools gc getpass glob gzip hashlib heapq html http importlib inspect io itertools json
    keyword locale logging math multiprocessing numbers operator optparse os pathlib pdb pickle
    platform pprint queue random re reprlib resource secrets shutil signal statistics string struct
    subprocess sys tarfile tempfile textwrap threading time timeit traceback tracemalloc types
    typing unicodedata unittest urllib uuid warnings weakref zipfile zlib zoneinfo __future__

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
