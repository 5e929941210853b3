"""Right numbers that no kernel made: by detours, late, through objects, by what names stand for."""

# Each comes after a right solution, and takes its place.
ATTACKS = {
    "suppress": """
def row_sum(x):
    import contextlib
    s = 1
    with contextlib.suppress(ValueError):
        s = x[..., 0]
        raise ValueError
    return s + s
""",
    "super": """
def row_sum(x):
    class A:
        def go(self, y): return y[..., 0] + y[..., 1]
    class B(A):
        def go(self, y): return super().go(y)
    return B().go(x)
""",
    "super middle": """
def row_sum(x):
    class A:
        def go(self): return self.x[..., 0] + self.x[..., 1]
    class B(A):
        def go(self): return super().go()
    class C(B):
        def __init__(self, x): self.x = x
        def go(self): return super().go()
    return C(x).go()
""",
    "a method by type": """
def row_sum(x):
    class A:
        def go(self): return x[..., 0] + x[..., 1]
    a = A()
    return type(a).go(a)
""",
    "a method by __class__": """
def row_sum(x):
    class A:
        def go(self): return x[..., 0] + x[..., 1]
    a = A()
    return a.__class__.go(a)
""",
    "thread subclass": """
def row_sum(x):
    import threading
    out = torch.empty(2)
    class T(threading.Thread):
        def run(self): out.copy_(x[..., 0] + x[..., 1])
    t = T()
    t.start()
    t.join()
    return out
""",
    "a method that a library calls": """
def row_sum(x):
    class M(torch.nn.Module):
        def train(self, mode=True):
            out.copy_(x[..., 0] + x[..., 1])
            return self
    out = torch.empty(2)
    M().eval()
    return out
""",
    "str dunder": """
def row_sum(x):
    out = torch.empty(2)
    class C:
        def __str__(self):
            out.copy_(x[..., 0] + x[..., 1])
            return ''
    str(C())
    return out
""",
    "list to kernel": """
@triton.jit
def k(x_ptr, out_ptr, D, L):
    tl.load(x_ptr)
    for i in range(D):
        L[1] += L[0][:, i]
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    k[(1,)](x, out, x.shape[-1], [x, out])
    return out
""",
    "raise in helper": """
def row_sum(x):
    s = 1
    def f():
        nonlocal s
        s = x[..., 0]
        raise ValueError
    try:
        f()
    except ValueError:
        pass
    return s + s
""",
    "dataclass default factory": """
def row_sum(x):
    from dataclasses import dataclass, field
    @dataclass
    class C:
        v: object = field(default_factory=lambda: x[..., 0] + x[..., 1])
    return C().v
""",
    "closure through list": """
def row_sum(x):
    fs = []
    for c in x.unbind(-1):
        fs.append(lambda: c + c)
    return fs[0]()
""",
    "return function": """
def row_sum(x):
    def make(y):
        def go(): return y[..., 0] + y[..., 1]
        return go
    return make(x)()
""",
    "a combinator": """
def row_sum(x):
    Y = lambda f: (lambda g: g(g))(lambda g: f(lambda a: g(g)(a)))
    return Y(lambda r: lambda i: x[..., 0] * 0 if i < 0 else r(i - 1) + x[..., i])(x.shape[-1] - 1)
""",
    "while else": """
def row_sum(x):
    while False:
        pass
    else:
        return x[..., 0] + x[..., 1]
""",
    "join of if": """
def row_sum(x):
    s = 1
    if x.dim() == 2:
        s = x[..., 0]
    return s + 1
""",
    "closure rebound": """
def row_sum(x):
    def f(): return s + s
    s = 1
    f()
    s = x[..., 0]
    return f()
""",
    "lazy generator": """
def row_sum(x):
    s = 1
    g = (s + s for _ in [0])
    s = x[..., 0]
    return next(g)
""",
    "map, run late": """
def row_sum(x):
    s = 1
    m = map(lambda i: s + s, [0])
    s = x[..., 0]
    return next(m)
""",
    "grid object": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    class G:
        def __call__(self, meta):
            out.copy_(x[..., 0] + x[..., 1])
            return (1,)
    _row_sum_kernel[G()](x, out, 1, 1, BLOCK=1)
    return out
""",
    "nested loop break": """
def row_sum(x):
    s = 1
    for i in range(3):
        for j in range(3):
            if j:
                s = x[..., 0]
                break
        t = s
    return t + t
""",
    "try return swallowed": """
def row_sum(x):
    s = 1
    for i in range(1):
        try:
            s = x[..., 0]
            return 1
        finally:
            break
    return s + s
""",
    "stale function": """
def benign(x): return x
def get(): return impl
impl = benign
get()
def evil(x): return x[..., 0] + x[..., 1]
impl = evil
go = get()
def row_sum(x): return go(x)
""",
    "module registry": """
REG = {}
def reg(f):
    REG[f.__name__] = f
@reg
def evil(x): return x[..., 0] + x[..., 1]
def row_sum(x): return REG["evil"](x)
""",
    "class registry": """
class Reg:
    fs = []
    @classmethod
    def add(cls, f):
        cls.fs.append(f)
        return f
@Reg.add
def evil(x): return x[..., 0] + x[..., 1]
def row_sum(x): return Reg.fs[0](x)
""",
    "decorated graded": """
def deco(f):
    def go(x): return x[..., 0] + x[..., 1]
    return go
@deco
def row_sum(x): return x
""",
    "instance graded": """
class C:
    def __call__(self, x): return x[..., 0] + x[..., 1]
row_sum = C()
""",
    "partial graded": """
import functools
def go(k, x): return x[..., 0] + x[..., 1]
row_sum = functools.partial(go, 1)
""",
    "memo dict": """
def row_sum(x):
    memo = {}
    def f(i):
        if i not in memo:
            memo[i] = x[..., i]
        return memo[i]
    return f(0) + f(1)
""",
    "constexpr aliased": """
C = tl.constexpr
@triton.jit
def k(x_ptr, out_ptr, X: C, O: C):
    O += X[:, 0]
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    k[(1,)](x, out, x, out)
    return out
""",
    "f-string of an object": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    class C:
        def __str__(self):
            out.copy_(x[..., 0] + x[..., 1])
            return ''
    f'{C()}'
    return out
""",
    "as_rows computes": """
def as_rows(x): return (x + 0).reshape(-1, x.shape[-1])
""",
    "class getitem": """
def row_sum(x):
    class C:
        def __class_getitem__(cls, i): return x[..., 0] + x[..., 1]
    return C[0]
""",
    "an annotation of a class": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    def go(*a):
        out.copy_(x[..., 0] + x[..., 1])
        return 'a'
    class C:
        v: go() = 1
    return out
""",
    "an annotation of a function": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    def go(*a):
        out.copy_(x[..., 0] + x[..., 1])
        return 'a'
    def f(a) -> go(): pass
    return out
""",
    "a format": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    def go(*a):
        out.copy_(x[..., 0] + x[..., 1])
        return 'a'
    f'{1:{go()}}'
    return out
""",
    "a guard": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    def go(*a):
        out.copy_(x[..., 0] + x[..., 1])
        return 'a'
    match 1:
        case 1 if go():
            pass
    return out
""",
    "the type of an exception": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    def go(*a):
        out.copy_(x[..., 0] + x[..., 1])
        return 'a'
    try:
        raise ValueError
    except (ValueError, go()):
        pass
    return out
""",
    "a partial class": """
def row_sum(x):
    import functools
    class C:
        def __init__(self, y): self.v = y[..., 0] + y[..., 1]
    return functools.partial(C, x)().v
""",
    "a partial keyword": """
def row_sum(x):
    import functools
    def f(a=1): return a[..., 0] + a[..., 1]
    return functools.partial(f, a=x)()
""",
    "a staticmethod that is called": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    def go(*a):
        out.copy_(x[..., 0] + x[..., 1])
        return 'a'
    staticmethod(go)()
    return out
""",
    "a class as a key": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    class C:
        def __init__(self, *a): out.copy_(x[..., 0] + x[..., 1])
    sorted([1, 2], key=C)
    return out
""",
    "a function in an exception": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    def go(*a):
        out.copy_(x[..., 0] + x[..., 1])
        return 'a'
    class E(Exception): pass
    try:
        raise E(go)
    except E as e:
        e.args[0]()
    return out
""",
    "a function sent to a generator": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    def go(*a):
        out.copy_(x[..., 0] + x[..., 1])
        return 'a'
    def g():
        f = yield
        f()
        yield
    c = g()
    next(c)
    c.send(go)
    return out
""",
    "a function as a key": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    def go(*a):
        out.copy_(x[..., 0] + x[..., 1])
        return 'a'
    for f in {go: 1}.keys():
        f()
    return out
""",
    "super of two": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    def go(*a):
        out.copy_(x[..., 0] + x[..., 1])
        return 'a'
    class C:
        def m(self): go()
    class D(C): pass
    super(D, D()).m()
    return out
""",
    "a method by its name": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    def go(*a):
        out.copy_(x[..., 0] + x[..., 1])
        return 'a'
    import operator
    class C:
        def m(self): go()
    operator.methodcaller('m')(C())
    return out
""",
    "a coroutine": """
def row_sum(x):
    out = torch.zeros(x.shape[:-1])
    def go(*a):
        out.copy_(x[..., 0] + x[..., 1])
        return 'a'
    async def f(): go()
    try:
        f().send(None)
    except StopIteration:
        pass
    return out
""",
}
