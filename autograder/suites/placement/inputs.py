"""Inputs of the hidden tests, and how what comes back is compared.

Modules are compared in float64. `LOOSE` forgives another eps of a norm, which has its own test, and
nothing larger; `EXACT` leaves room for any order of operations and for no mistake at all.
Every parameter is far from where it starts: norms with weights of both signs, biases that matter.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

import solutions.placement.placement as reference
from autograder.suites.vocabulary import normal, text_list
from autograder.testing.compare import expect
from autograder.testing.later import later

WIDTH, HEADS, FF = 12, 3, 20
LOOSE = 1e-3  # of the largest expected value
EXACT = 1e-8
State = dict[str, Tensor]
Make = type[nn.Module]
Sizes = tuple[int, ...]


def signed(rng: torch.Generator, *shape: int) -> Tensor:
    """Of both signs, with magnitudes from 0.5 to 2."""
    sign = torch.randint(0, 2, shape, generator=rng, dtype=torch.float64) * 2 - 1
    return sign * (0.5 + 1.5 * torch.rand(shape, generator=rng, dtype=torch.float64))


def tokens(rng: torch.Generator, *shape: int) -> Tensor:
    """x (B, L, D); every token has its own mean and its own spread, from 0.5 to 4."""
    own = (*shape[:-1], 1)
    spread = 0.5 + 3.5 * torch.rand(own, generator=rng, dtype=torch.float64)
    return 2 * normal(rng, *own) + spread * normal(rng, *shape)


def random_state(rng: torch.Generator, state: State) -> State:
    """Random values of the shapes in `state`: matrices keep lengths, norms have both signs."""
    made = {}
    for name, tensor in state.items():
        if tensor.dim() == 2:
            made[name] = normal(rng, *tensor.shape) / tensor.shape[1] ** 0.5
        elif "norm" in name and name.endswith("weight"):
            made[name] = signed(rng, *tensor.shape)
        else:
            made[name] = 0.5 * normal(rng, *tensor.shape)
    return made


def zeroed(state: State, *starts: str) -> State:
    """`state` with zeros under every name that begins with one of `starts`."""
    return {n: torch.zeros_like(t) if n.startswith(starts) else t for n, t in state.items()}


def run(make: Make, sizes: Sizes, state: State, x: Tensor) -> Tensor:
    """The reference `make(*sizes)` with `state` on x, in the dtype of x."""
    module = make(*sizes).to(x.dtype)
    return functional_call(module, {n: t.to(x.dtype) for n, t in state.items()}, (x,)).detach()


def gradients(make: Make, sizes: Sizes, state: State, x: Tensor, g: Tensor) -> tuple[Tensor, State]:
    """Gradients of the reference for x and for every parameter, in float64."""
    module = make(*sizes).double()
    leaves = {n: t.clone().requires_grad_() for n, t in state.items()}
    x = x.clone().requires_grad_()
    y = functional_call(module, leaves, (x,))
    dx, *rest = torch.autograd.grad(y, [x, *leaves.values()], g)
    return dx, dict(zip(leaves, rest, strict=True))


def fresh_state(make: Make, *sizes: int) -> State:
    return dict(make(*sizes).state_dict())


def loaded(new: Any, sizes: tuple[int, ...], state: State) -> Any:
    """The learner's module, built by `new` with `sizes`, in float64 with `state` in it."""
    m = new(*sizes)
    m.to(torch.float64)
    m.load(state)
    return m


def close(want: Tensor, part: float = LOOSE) -> dict[str, float]:
    """Tolerance of `expect`: `part` of the largest expected value."""
    return {"rtol": 0.0, "atol": part * float(want.abs().max()) + 1e-12}


@later
def named_shapes(state: Any) -> Any:
    """["norm1.bias (12,)", ...], sorted; anything that is no dict of tensors as it is."""
    if not (isinstance(state, dict) and all(isinstance(t, Tensor) for t in state.values())):
        return state
    return sorted(f"{name} {tuple(t.shape)}" for name, t in state.items())


def expect_parts(m: Any, want: State, x: Tensor) -> None:
    """The names and shapes of the state, all trainable, and all of them reached by a gradient."""
    expect(named_shapes(m.state()), named_shapes(want), what="the list of parts and their shapes")
    expect(text_list(m.parameters()), sorted(want), what="the list of trainable parameters, sorted")
    y, vjp = m.vjp(x.float())
    expect(y, torch.zeros(x.shape), rtol=0, atol=1e9, what="the output of a fresh module")
    _, found = vjp(1 + torch.arange(float(x.numel())).view(x.shape).sin())
    floats = {n: g for n, g in found.items() if isinstance(g, Tensor) and g.is_floating_point()}
    reached = [n for n, g in floats.items() if g.abs().sum() > 0]
    # A key's bias moves all logits of a query alike: the softmax does not see it. What q_norm and
    # k_norm do to queries and keys has tests of its own.
    silent = {"attention.k_proj.bias", "q_norm.weight", "k_norm.weight"}
    what = "the list of parameters that the output depends on"
    expect(sorted(set(reached) - silent), sorted(set(want) - silent), what=what)


def expect_output(
    student: Any,
    make: Make,
    sizes: Sizes,
    state: State,
    x: Tensor,
    what: str = "the output",
    part: float = LOOSE,
) -> None:
    """The learner's module of the name of `make` gives what the reference gives."""
    want = run(make, sizes, state, x)
    m = loaded(getattr(student, make.__name__), sizes, state)
    expect(m(x), want, **close(want, part), what=what)


def expect_gradients(
    student: Any, make: Make, sizes: Sizes, state: State, x: Tensor, g: Tensor
) -> None:
    """Output, and gradients of x and of all parameters."""
    want = run(make, sizes, state, x)
    dx, exact = gradients(make, sizes, state, x, g)
    m = loaded(getattr(student, make.__name__), sizes, state)
    y, vjp = m.vjp(x)
    expect(y, want, **close(want))
    inputs, found = vjp(g)
    for name, value in exact.items():
        expect(found.get(name), value, **close(value), what=f"the gradient for {name}")
    expect(inputs[0] if inputs else None, dx, **close(dx), what="the gradient for x")


def expect_precision(student: Any, make: Make, sizes: Sizes, state: State, x: Tensor) -> None:
    """A strided x, which stays as it is; evaluation; float32."""
    before, want = x.clone(), run(make, sizes, state, x)
    m = loaded(getattr(student, make.__name__), sizes, state)
    expect(m(x), want, **close(want, EXACT), what="the output for a strided x")
    expect(student.inputs(), [before], rtol=0, atol=0, what="the inputs after the call")
    m.eval()
    expect(m(x), want, **close(want), what="the output in evaluation")
    m.to(torch.float32)
    single = x.float()
    expect(m(single), want.float(), **close(want, 1e-4), what="the output in float32")


@later
def numbers(got: Any) -> Any:
    """A list of floats (or a tensor of that form) as a float64 tensor; anything else as it is."""
    if isinstance(got, Tensor) and got.dim() == 1 and got.is_floating_point():
        return got.double()
    items = got if isinstance(got, (list, tuple)) else [got]
    items = [t.item() if isinstance(t, Tensor) and t.dim() == 0 else t for t in items]
    if items and all(type(t) in (float, int) for t in items):
        return torch.tensor(items, dtype=torch.float64)
    return got


def wanted_norms(blocks: list[nn.Module], x: Tensor) -> Tensor:
    return torch.tensor(reference.gradient_norms(blocks, x), dtype=torch.float64)
