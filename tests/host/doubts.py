"""Right numbers that no kernel made: host code that hides what it does."""

# Each comes after a right solution, and takes its place.
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
    q.put(x[..., 1])
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
    "chain of boxes": """
def row_sum(x):
    A, B, C, D, E, F = [], [], [], [], [], []
    for i in range(9):
        A += B[:1]; B += C[:1]; C += D[:1]; D += E[:1]; E += F[:1]; F.append(x[..., 0])
    return A[0] + A[0]
""",
    "vars": """
def row_sum(x):
    return vars(torch)['add'](x, x)
""",
    "exception args": """
def row_sum(x):
    e = ValueError(x[..., 0])
    return e.args[0] + e.args[0]
""",
    "own exception args": """
def row_sum(x):
    class E(Exception): pass
    e = E(x[..., 0])
    return e.args[0] + e.args[0]
""",
    "thread self": """
def row_sum(x):
    import threading
    class T(threading.Thread):
        def __init__(self, x):
            super().__init__()
            self.x = x
        def run(self): self.y = self.x[..., 0] + self.x[..., 1]
    t = T(x)
    t.start()
    t.join()
    return t.y
""",
    "a list turned round": """
def row_sum(x):
    L = [1.0, x[..., 0]]
    L.reverse()
    return L[0] + L[0]
""",
    "a list that loses its first": """
def row_sum(x):
    L = [1.0, x[..., 0]]
    del L[0]
    return L[0] + L[0]
""",
    "match class": """
def row_sum(x):
    class C:
        def __init__(self): self.v = x[..., 0]
    match C():
        case C(v=w):
            return w + w
""",
    "annotations copied": """
import functools
def ann(x_ptr, out_ptr, X: tl.constexpr, O: tl.constexpr): pass
@triton.jit
@functools.wraps(ann)
def k(x_ptr, out_ptr, X, O):
    O += X[:, 0]
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    k[(1,)](x, out, x, out)
    return out
""",
    "annotations by decorator": """
def ann(f):
    f.__annotations__.update(X=tl.constexpr, O=tl.constexpr)
    return f
@triton.jit
@ann
def k(x_ptr, out_ptr, X, O):
    O += X[:, 0]
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    k[(1,)](x, out, x, out)
    return out
""",
    "constexpr mixed star": """
@triton.jit
def k(x_ptr, out_ptr, n, X: tl.constexpr, O: tl.constexpr):
    O += X[:, 0]
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    a = list((x, out, 3, x, out))
    k[(1,)](*a)
    return out
""",
    "a text run by a profiler": """
import cProfile
cProfile.run("import triton.language as tl; tl.store = None")
""",
    "a text run by timeit": """
import timeit
timeit.timeit("import triton.language as tl; tl.store = None", number=1)
""",
    "an object handed to Triton": """
class D: pass
triton.runtime.driver.set_active(D())
""",
    "function to kernel": """
def f(): return 1
@triton.jit
def k(x_ptr, out_ptr, D, F: tl.constexpr):
    tl.load(x_ptr)
    F()
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    k[(1,)](x, out, x.shape[-1], F=lambda: out.copy_(x[..., 0] + x[..., 1]))
    return out
""",
    "inner kernel": """
@triton.jit
def inner(X: tl.constexpr, OUT: tl.constexpr):
    OUT += X[:, 0]
@triton.jit
def k(x_ptr, out_ptr, D, F: tl.constexpr):
    F(STASH, STASH)
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    k[(1,)](x, out, x.shape[-1], F=inner)
    return out
STASH = []
""",
    "default of kernel": """
L = []
@triton.jit
def k(x_ptr, out_ptr, D, S=L):
    S[1].copy_(S[0][..., 0])
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    L[:] = [x, out]
    k[(1,)](x, out, x.shape[-1])
    return out
""",
    "autotune hook": """
def pre(args, **k):
    args["out_ptr"].copy_(args["x_ptr"][..., 0] + args["x_ptr"][..., 1])
@triton.autotune(configs=[triton.Config({}, pre_hook=pre)], key=["D"])
@triton.jit
def k(x_ptr, out_ptr, D): pass
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    k[(1,)](x, out, x.shape[-1])
    return out
""",
    "tl patched": """
def fake(p, v, mask=None): OUT[0].copy_(X[0][..., 0] + X[0][..., 1])
tl.store = fake
""",
    "tuple lt": """
def row_sum(x):
    n = 0.0
    while (n,) < (x[0, 0],):
        n += 1
    return torch.tensor([n])
""",
    "deep call chain": """
def row_sum(x):
    def f0(v): return f1(v)
    def f1(v): return f2(v)
    def f2(v): return f3(v)
    def f3(v): return f4(v)
    def f4(v): return f5(v)
    def f5(v): return f6(v)
    def f6(v): return f7(v)
    def f7(v): return f8(v)
    def f8(v): return f9(v)
    def f9(v): return f10(v)
    def f10(v): return f11(v)
    def f11(v): return f12(v)
    def f12(v): return f13(v)
    def f13(v): return f14(v)
    def f14(v): return f15(v)
    def f15(v): return f16(v)
    def f16(v): return f17(v)
    def f17(v): return f18(v)
    def f18(v): return f19(v)
    def f19(v): return f20(v)
    def f20(v): return f21(v)
    def f21(v): return f22(v)
    def f22(v): return f23(v)
    def f23(v): return f24(v)
    def f24(v): return f25(v)
    def f25(v): return f26(v)
    def f26(v): return f27(v)
    def f27(v): return f28(v)
    def f28(v): return f29(v)
    def f29(v): return f30(v)
    def f30(v): return f31(v)
    def f31(v): return f32(v)
    def f32(v): return f33(v)
    def f33(v): return f34(v)
    def f34(v): return f35(v)
    def f35(v): return f36(v)
    def f36(v): return f37(v)
    def f37(v): return f38(v)
    def f38(v): return f39(v)
    def f39(v): return f40(v)
    def f40(v): return f41(v)
    def f41(v): return f42(v)
    def f42(v): return f43(v)
    def f43(v): return f44(v)
    def f44(v): return f45(v)
    def f45(v): return f46(v)
    def f46(v): return f47(v)
    def f47(v): return f48(v)
    def f48(v): return f49(v)
    def f49(v): return f50(v)
    def f50(v): return f51(v)
    def f51(v): return f52(v)
    def f52(v): return f53(v)
    def f53(v): return f54(v)
    def f54(v): return f55(v)
    def f55(v): return f56(v)
    def f56(v): return f57(v)
    def f57(v): return f58(v)
    def f58(v): return f59(v)
    def f59(v): return f60(v)
    def f60(v): return v[..., 0] + v[..., 1]
    return f0(x)
""",
    "module level thread": """
import threading, time
BOX = []
def serve():
    while True:
        for x, out in BOX:
            out.copy_(x[..., 0] + x[..., 1])
threading.Thread(target=serve, daemon=True).start()
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    BOX.append((x, out))
    time.sleep(0.1)
    return out
""",
}
