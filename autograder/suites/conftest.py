"""Run a suite by plain pytest against the reference: `pytest autograder/suites/layernorm`."""

import importlib

import pytest
import torch

from ..testing.student import Student


@pytest.fixture
def student(request):
    assignment = request.path.parent.name
    return Student.local(vars(importlib.import_module(f"solutions.{assignment}.{assignment}")))


@pytest.fixture
def rng(request):
    return torch.Generator().manual_seed(len(request.node.nodeid))
