"""Right numbers that perhaps no kernel made: each way to get them is shown to a person."""

from __future__ import annotations

import pytest
from host_findings import NAME, findings, has_triton

from autograder import release

if not has_triton():
    pytest.skip("Triton has packages for Linux only", allow_module_level=True)

# Each stands behind a right solution, and takes its place.
ATTACKS = {
    "operator class": """
def row_sum(x):
    class C:
        def __init__(self, x): self.x = x
        def __add__(self, o): return C(self.x + o.x)
    return (C(x[..., 0]) + C(x[..., 1])).x
""",
    "fstring": """
def row_sum(x):
    return torch.tensor([float(t) for t in f'{x}'.split()])
""",
    "storage": """
def row_sum(x):
    b = bytes(x.untyped_storage())
    import struct
    return torch.tensor([struct.unpack('f', b[:4])])
""",
    "getattr": """
def row_sum(x):
    return getattr(x[..., 0], 'a' + 'dd')(x[..., 1])
""",
    "exec": """
def row_sum(x):
    exec('y = x[..., 0] + x[..., 1]')
    return locals()['y']
""",
    "exception": """
def row_sum(x):
    try:
        raise ValueError(x)
    except ValueError as e:
        return e.args[0][..., 0] + e.args[0][..., 1]
""",
    "descriptor": """
def row_sum(x):
    class D:
        def __get__(self, o, t): return o.x[..., 0] + o.x[..., 1]
    class C:
        v = D()
        def __init__(self, x): self.x = x
    return C(x).v
""",
    "class getitem": """
def row_sum(x):
    class C:
        def __class_getitem__(cls, i): return x[..., 0] + x[..., 1]
    return C[0]
""",
    "singledispatch": """
def row_sum(x):
    import functools
    @functools.singledispatch
    def go(y): return y
    @go.register(torch.Tensor)
    def _(y): return y[..., 0] + y[..., 1]
    return go(x)
""",
    "list index": """
def row_sum(x):
    v = x[0, 0].to(torch.int32)
    return torch.full((2,), [1.0, 2.0, 3.0][v])
""",
    "enumerate start": """
def row_sum(x):
    v = x[0, 0].to(torch.int32)
    for n, _ in enumerate([1], v):
        pass
    return torch.full((2,), n + 1.0)
""",
    "metaclass": """
def row_sum(x):
    class M(type):
        def __call__(cls, y): return y[..., 0] + y[..., 1]
    class C(metaclass=M): pass
    return C(x)
""",
    "subclass op": """
def row_sum(x):
    class T(torch.Tensor):
        @classmethod
        def __torch_function__(cls, f, t, a=(), k=None):
            return super().__torch_function__(torch.add, t, a, k)
    return T(x).view(x)
""",
    "print": """
def row_sum(x):
    import io, contextlib
    f = io.StringIO()
    with contextlib.redirect_stdout(f):
        print(x[0, 0])
    return torch.tensor([float(f.getvalue())])
""",
    "pickle": """
def row_sum(x):
    import pickle
    y = pickle.loads(pickle.dumps(x))
    return y[..., 0] + y[..., 1]
""",
    "queue": """
def row_sum(x):
    import queue
    q = queue.Queue()
    q.put(x[..., 0])
    return q.get() + q.get()
""",
    "contextvar": """
def row_sum(x):
    import contextvars
    c = contextvars.ContextVar('c')
    c.set(x[..., 0])
    return c.get() + c.get()
""",
    "weakref": """
def row_sum(x):
    import weakref
    r = weakref.ref(x)
    return r()[..., 0] + r()[..., 1]
""",
    "global in kernel": """
STASH = {}
@triton.jit
def k(x_ptr, out_ptr, D):
    tl.load(x_ptr)
    s = 0
    for i in range(D):
        s = s + STASH["x"][:, i]
    STASH["out"].copy_(s)
def row_sum(x):
    out = torch.empty(x.shape[:-1])
    STASH.update(x=x, out=out)
    k[(1,)](x, out, x.shape[-1])
    return out
""",
    "another function behind a kernel": """
def f(x, out, s, D, BLOCK): out.copy_(x[..., 0])
_row_sum_kernel.fn = f
""",
    "a hook before a kernel": """
_row_sum_kernel.add_pre_run_hook(lambda *a, **k: a[1].copy_(a[0][..., 0] + a[0][..., 1]))
""",
    "a dispatch mode": """
from torch.utils._python_dispatch import TorchDispatchMode
class M(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))
M().__enter__()
""",
    "a class that looks like a kernel": """
class Launch:
    def __getitem__(self, grid): return self.go
    def go(self, x, out): out.copy_(x[..., 0] + x[..., 1])
k = Launch()
def row_sum(x):
    out = torch.empty(x.shape[:-1])
    k[(1,)](x, out)
    if x.shape[0] < 0: _row_sum_kernel[(1,)](x, out, 1, 1, 1)
    return out
""",
    "bits by truth": """
def row_sum(x):
    bits = [1 if b else 0 for b in x[0, 0].view(torch.uint8).unbind(0)]
    return torch.tensor(bits)
""",
    "tensor attribute": """
def row_sum(x):
    x.y = x[..., 0]
    return x.y + x.y
""",
    "super": """
def row_sum(x):
    class A:
        def go(self, y): return y[..., 0] + y[..., 1]
    class B(A):
        def go(self, y): return super().go(y)
    return B().go(x)
""",
    "vars": """
def row_sum(x):
    return vars(torch)['add'](x, x)
""",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_numbers_that_may_come_from_host_code_are_shown_to_a_person(attack):
    right = release.solution_cells(NAME)["row_sum"]
    found = {f.kind for f in findings(row_sum=right + ATTACKS[attack]) if f.exercise == "row_sum"}
    assert found == {"suspicious"}
