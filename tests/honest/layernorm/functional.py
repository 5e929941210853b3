# %% first: partial, wraps, caches
import functools
import itertools
import operator
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial, reduce, wraps

calls = Counter()


def counted(function):
    @wraps(function)
    def wrapper(*args, **kwargs):
        calls[function.__name__] += 1
        return function(*args, **kwargs)

    return wrapper


@functools.cache
def is_half(dtype):
    return dtype in (torch.float16, torch.bfloat16)


@lru_cache(maxsize=None)
def factorial(n):
    return n * factorial(n - 1) if n else 1

# %% layer_norm: decorators, a closure and reduce over a shape
@contextmanager
def timed(name):
    start = time.perf_counter()
    yield
    print(name, time.perf_counter() - start)


import time

numel = lambda shape: reduce(lambda a, b: a * b, shape, 1)
numel_too = lambda shape: reduce(operator.mul, shape, 1)


def make_layer_norm(dim=-1):
    mean = partial(torch.mean, dim=dim, keepdim=True)

    def norm(x, eps):
        centered = x - mean(x)
        return centered / torch.sqrt(mean(centered * centered) + eps)

    return norm


_norm = make_layer_norm()


@counted
def layer_norm(x, weight, bias, eps):
    assert numel(x.shape) == numel_too(x.shape) == x.numel()
    with timed("norm") if False else nullcontext():
        h = x.float() if is_half(x.dtype) else x
        steps = [partial(_norm, eps=eps), lambda t: t * weight, lambda t: t + bias]
        return reduce(lambda value, step: step(value), steps, h).to(x.dtype)

# %% LayerNorm: names of attributes made in a loop
class LayerNorm(nn.Module):
    NAMES = ("weight", "bias")

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for i, name in enumerate(self.NAMES):
            self.register_parameter(name, nn.Parameter(torch.full((d_model,), 1.0 - i)))
        for i in range(2):
            setattr(self, f"norm{i}", None)

    def forward(self, x):
        first = getattr(self, f"norm{0}", None)
        assert first is None and not hasattr(self, "norm7")
        return layer_norm(x, *map(partial(getattr, self), self.NAMES), self.eps)

# %% layer_norm_backward: nested functions and zip
def layer_norm_backward(grad_out, x, weight, eps):
    def widen(*tensors):
        return [t.float() if is_half(t.dtype) else t for t in tensors]

    def rows(t):
        return t.reshape(-1, t.shape[-1])

    wanted = (x.dtype, weight.dtype, weight.dtype)
    g, h, w = widen(grad_out, x, weight)
    mean = lambda t: t.mean(-1, keepdim=True)
    centered = h - mean(h)
    rstd = torch.rsqrt(mean(centered.pow(2)) + eps)
    x_hat = centered * rstd
    parts = [rows(t).sum(0) for t in (g * x_hat, g)]
    gh = g * w
    gx = rstd * (gh - mean(gh) - x_hat * mean(gh * x_hat))
    return tuple(t.to(d) for t, d in zip([gx, *parts], wanted, strict=True))

# %% added: itertools over all cases
for dtype, shape in itertools.product((torch.float32, torch.float64), ((3,), (2, 3), (2, 2, 3))):
    x = torch.randn(shape, dtype=dtype)
    w, b = torch.ones(3, dtype=dtype), torch.zeros(3, dtype=dtype)
    y = layer_norm(x, w, b, 1e-5)
    assert y.dtype is dtype and y.shape == shape
pairs = list(itertools.pairwise(itertools.accumulate(range(4))))
print(calls.most_common(1), pairs, operator.itemgetter(0)(pairs))
