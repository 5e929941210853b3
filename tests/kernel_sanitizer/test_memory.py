"""Which addresses are elements of a tensor, and which programs may touch them, without Triton."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_sanitizer.memory import Clock, Region, Shadow, give_shadows

AXES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 12)), max_size=3)


@settings(max_examples=300, deadline=None)
@given(AXES)
def test_exactly_the_elements_of_any_view_have_numbers_each_its_own(axes):
    shape, stride = [n for n, _ in axes], [s for _, s in axes]
    view = torch.zeros(256).as_strided(shape, stride)
    places = np.zeros(1, np.int64)
    for size, step in axes:
        places = (places[:, None] + step * np.arange(size)).ravel()
    region = Region("x", 0, view)
    offsets = np.arange(-8, 160)
    numbers, inside = region.numbers(offsets)
    assert set(offsets[inside]) == set(places)
    assert sorted(numbers[inside]) == list(range(region.count))
    assert region.extent == max(places) + 1


def test_a_tensor_without_elements_has_no_numbers():
    region = Region("x", 0, torch.empty(0, 4))
    assert (region.count, region.extent) == (0, 0)
    assert not region.numbers(np.arange(-3, 3))[1].any()


def everything(shadow: Shadow, clock: Clock, *steps: tuple[int, str, slice]) -> list:
    """What is found when programs do these things, one after another."""
    found = []
    for program, action, chosen in steps:
        clock.program = program
        found.append(getattr(shadow, action)(chosen))
    return found


A, B = slice(0, 4), slice(2, 6)


@pytest.mark.parametrize(
    ("steps", "race"),
    [
        ([(0, "load", A), (1, "load", B), (0, "load", B)], None),
        ([(0, "store", A), (0, "load", A), (0, "store", A)], None),
        ([(0, "atomic", A), (1, "atomic", B), (2, "atomic", A)], None),
        ([(0, "store", slice(0, 2)), (1, "store", slice(2, 4))], None),
        ([(0, "store", A), (1, "load", B)], ("load-after-store", 0, 0)),
        ([(0, "store", A), (1, "store", B)], ("store-after-store", 0, 0)),
        ([(0, "load", A), (1, "store", slice(1, 2))], ("store-after-load", 0, 0)),
        ([(0, "load", A), (1, "load", A), (1, "store", A)], ("store-after-load", -1, 0)),
        ([(0, "store", A), (1, "atomic", A)], ("atomic-mixed", 0, 0)),
        ([(0, "load", A), (1, "atomic", A)], ("atomic-mixed", 0, 0)),
        ([(0, "atomic", B), (1, "load", A)], ("atomic-mixed", 0, 2)),
        ([(0, "atomic", B), (1, "store", A)], ("atomic-mixed", 0, 2)),
    ],
)
def test_two_programs_race_unless_both_only_load_or_both_use_atomics(steps, race):
    clock = Clock()
    *before, last = everything(Shadow(clock, 8), clock, *steps)
    assert not any(before) and last == race


def test_an_atomic_on_one_integer_orders_what_came_before_it_and_nothing_after():
    clock = Clock()
    shadow = Shadow(clock, 8)

    def program(number: int, *actions: str) -> list:
        clock.program = number
        done = []
        for action in actions:
            done.append(clock.synchronize(7) if action == "sync" else getattr(shadow, action)(A))
        return [race for race in done if race]

    assert program(0, "sync", "load", "store", "sync") == []
    assert program(1, "sync", "load", "store") == []  # its store comes after its last atomic
    assert program(2, "sync", "load") == [("load-after-store", 1, 0)]


def test_thousands_of_loads_are_remembered_as_well_as_a_few():
    clock = Clock()
    shadow = Shadow(clock, 8)
    found = everything(shadow, clock, *[(0, "load", A)] * 5000, (1, "store", slice(3, 4)))
    assert found[-1] == ("store-after-load", 0, 0) and not any(found[:-1])


def test_tensors_that_lie_in_one_another_share_what_is_known_of_their_elements():
    clock, x = Clock(), torch.zeros(6, 4)
    whole, rows, apart = Region("x", 0, x), Region("y", 0, x[2:]), Region("z", 0, torch.zeros(3))
    give_shadows([whole, rows, apart], clock)
    assert whole.shadow is rows.shadow and apart.shadow is not whole.shadow
    assert (whole.shift, rows.shift, apart.shift) == (0, 8, None)
