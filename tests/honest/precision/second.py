# %% one_pass_var: step by step
def one_pass_var(x: Tensor) -> Tensor:
    mean_sq = torch.mean(x**2, dim=-1)
    sq_mean = torch.pow(torch.mean(x, dim=-1), 2)
    # print(mean_sq, sq_mean)
    return torch.sub(mean_sq, sq_mean)

# %% two_pass_var: two helpers
def _mean(t, keepdim=False):
    """Mean over the last dimension."""
    return t.sum(dim=-1, keepdim=keepdim).div(t.size(-1))


def two_pass_var(x: Tensor) -> Tensor:
    is_half = x.element_size() < 4
    x = x.type(torch.float32) if is_half else x
    return _mean((x - _mean(x, keepdim=True)).pow(2))

# %% welford: numbered, with a generator and a dictionary
def numbered(x):
    for i in range(x.size(-1)):
        yield i + 1, x.select(-1, i)


def welford(x: Tensor) -> tuple[Tensor, Tensor]:
    """See https://en.wikipedia.org/wiki/Algorithms_for_calculating_variance"""
    dtype = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    x = x.to(dtype=dtype)
    state = {"mean": x.new_zeros(x.shape[:-1]), "M2": x.new_zeros(x.shape[:-1])}
    count = 0
    for count, v in numbered(x):
        d1 = v - state["mean"]
        state["mean"] = state["mean"] + d1 / count
        d2 = v - state["mean"]
        state["M2"] = state["M2"] + d1 * d2
        if count == 1:
            assert torch.equal(state["mean"], v) or True
    return state["mean"], state["M2"] / count

# %% combine_moments: plain
def combine_moments(a, b):
    (na, ma, sa), (nb, mb, sb) = a, b
    n = na + nb
    if not na:
        return b
    if not nb:
        return a
    delta = mb - ma
    return n, (na * ma + nb * mb) / n if abs(na - nb) < 0 else ma + nb / n * delta, sa + sb + delta * delta * na * nb / n

# %% layer_norm_low_precision: a table of steps
def layer_norm_low_precision(x, weight, bias, eps):
    steps = {
        "centre": lambda t: t - t.mean(-1, keepdim=True),
        "scale": lambda t: t * torch.rsqrt(t.square().mean(-1, keepdim=True) + eps),
        "weight": lambda t: t if weight is None else t * weight,
        "bias": lambda t: t if bias is None else t + bias,
    }
    y = x.float()
    for name, step in steps.items():
        y = step(y)
        print(f"{name:10s} {y.dtype} {y.abs().max():.3e}")
    return y.to(x.dtype)

# %% prescaled_layer_norm: two passes of our own functions
def prescaled_layer_norm(x, eps):
    s = torch.clamp(torch.amax(torch.abs(x), -1, True), min=1.0)
    z = x / s
    var = two_pass_var(z).unsqueeze(-1)
    e = (torch.as_tensor(eps, dtype=x.dtype) / s / s).clamp_min(torch.finfo(x.dtype).tiny)
    return (z - z.mean(-1, keepdim=True)) / (var + e).sqrt()

# %% added: a study of the order of sums
from fractions import Fraction
from decimal import Decimal, getcontext
import math, statistics, random

getcontext().prec = 50
numbers = [random.gauss(0, 1) for _ in range(20)]
print(sum(numbers), math.fsum(numbers), float(sum(map(Fraction, numbers))), Decimal(numbers[0]))
print(statistics.pvariance(numbers), statistics.fmean(numbers), torch.tensor(numbers).var())
print(torch.cumsum(torch.tensor(numbers), 0)[-1], torch.tensor(numbers).sum().item())
