# %% first: what types can hold
import numpy as np

for bits in (16, 32, 64):
    dtype = getattr(torch, f"float{bits}")
    info = torch.finfo(dtype)
    print(f"{dtype}: eps={info.eps:.3g} max={info.max:.3g} tiny={info.tiny:.3g} {np.finfo(f'float{bits}').eps}")
dtypes = {name: getattr(torch, name) for name in ("float32", "float16", "bfloat16")}
print({k: torch.tensor(1 / 3, dtype=v).item() for k, v in dtypes.items()})
print(torch.tensor(0.1).numpy().tobytes().hex(), (0.1).hex(), np.nextafter(np.float32(1), np.float32(2)))

# %% one_pass_var: comparing with the library below
def one_pass_var(x):
    n = x.shape[-1]
    return (x * x).sum(-1) / n - (x.sum(-1) / n) ** 2


x = torch.randn(4, 100, dtype=torch.float64) + 1e4
print(one_pass_var(x) - x.var(-1, unbiased=False), torch.var_mean(x, -1), np.var(x.numpy(), axis=-1))
print(one_pass_var(x.float()), x.float().std(-1, correction=0).square())

# %% two_pass_var: by matrix products
def two_pass_var(x):
    h = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    c = h - h.mean(-1, keepdim=True)
    return (c.unsqueeze(-2) @ c.unsqueeze(-1)).squeeze(-1).squeeze(-1) / h.shape[-1]

# %% welford: the running state in a dataclass
from dataclasses import dataclass


@dataclass
class State:
    count: int
    mean: Tensor
    M2: Tensor

    def update(self, value):
        self.count += 1
        delta = value - self.mean
        self.mean = self.mean + delta / self.count
        self.M2 = self.M2 + delta * (value - self.mean)
        return self

    @property
    def var(self):
        return self.M2 / self.count


def welford(x: Tensor) -> tuple[Tensor, Tensor]:
    assert x.dim() >= 1, "no numbers"
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    s = State(0, torch.zeros(x.shape[:-1], dtype=x.dtype), torch.zeros(x.shape[:-1], dtype=x.dtype))
    print("welford", x.shape, x.dtype, s)
    for value in torch.unbind(x, dim=-1):
        s.update(value)
    if not s.count:
        print("empty")
    print(f"mean {s.mean} var {s.var}", s.mean.shape)
    return s.mean, s.var


data = torch.randn(3, 50, dtype=torch.float64)
torch.testing.assert_close(welford(data)[1], data.var(-1, correction=0))
print(welford(data)[0] - data.mean(-1), np.allclose(welford(data)[0], data.numpy().mean(-1)))

# %% combine_moments: a NamedTuple unpacked
from typing import NamedTuple


class Moments(NamedTuple):
    n: int
    mean: Tensor
    m2: Tensor

    def __add__(self, other):
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        n = self.n + other.n
        d = other.mean - self.mean
        return Moments(
            n, self.mean + d * other.n / n, self.m2 + other.m2 + d**2 * self.n * other.n / n
        )


def combine_moments(a, b):
    return tuple(Moments(*a) + Moments(*b))


parts = [(len(c), c.mean(0), c.var(0, correction=0) * len(c)) for c in torch.randn(90, 4).split(30)]
from functools import reduce
n, mean, m2 = reduce(combine_moments, parts)
print(n, mean, m2 / n)

# %% layer_norm_low_precision: optional arguments and autocast
def layer_norm_low_precision(x, weight=None, bias=None, eps=1e-5):
    with torch.autocast(device_type="cpu", enabled=False):
        h = x.to(torch.float32)
        mu = h.mean(dim=-1, keepdim=True)
        h = h - mu
        h = h / (h.pow(2).mean(dim=-1, keepdim=True) + eps).sqrt()
        if weight is not None:
            h = h * weight.float()
        if bias is not None:
            h = h + bias.float()
    return h.to(x.dtype)


half = torch.randn(2, 64).half()
print((layer_norm_low_precision(half) - torch.nn.functional.layer_norm(half, (64,))).abs().max())

# %% prescaled_layer_norm: guards with where
def prescaled_layer_norm(x, eps):
    peak = x.abs().max(dim=-1, keepdim=True).values
    s = torch.where(peak < 1, torch.ones_like(peak), peak)
    y = x / s
    y = y - y.mean(-1, keepdim=True)
    scaled = torch.clamp(eps / s / s, min=torch.finfo(x.dtype).smallest_normal)
    return y / torch.sqrt(y.pow(2).mean(-1, keepdim=True) + scaled)

# %% added: errors measured and plotted
import matplotlib.pyplot as plt

errors = {}
for offset in (0.0, 1e2, 1e4):
    sample = torch.randn(8, 64) + offset
    want = sample.double().var(-1, correction=0)
    for f in (one_pass_var, two_pass_var, lambda t: welford(t)[1]):
        errors.setdefault(f.__name__, []).append(((f(sample) - want) / want).abs().max().item())
for label, values in errors.items():
    plt.semilogy(values, "o-", label=label)
plt.legend(); plt.grid(True); plt.show()
%timeit -n 3 -r 1 welford(sample)
sum_of_squares = sum(v * v for v in errors["one_pass_var"])
assert sum_of_squares >= 0 and max(errors["two_pass_var"]) < 1e-3
