"""Every test of a claim draws the same numbers, in whatever order tests run, on one thread."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_seed_and_one_thread() -> Iterator[None]:
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
