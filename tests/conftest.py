"""Before anything imports triton: it decides then whether kernels run in its interpreter."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")
