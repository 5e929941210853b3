# %% first: a table of axes
import functools
import torch.nn.functional as F

AXES = {"instance": (2, 3), "layer": (1, 2, 3), "batch": (0, 2, 3)}
assert {k: len(v) for k, v in AXES.items()} == dict(instance=2, layer=3, batch=3)

# %% normalize: axes from a number, a list or a tuple
def normalize(x, dims, eps):
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    n = functools.reduce(lambda a, d: a * wide.shape[d], dims, 1)
    mean = wide.sum(dims, keepdim=True) / n
    var = (wide - mean).square().sum(dims, keepdim=True) / n
    return ((wide - mean) / (var + eps).sqrt()).to(x.dtype)


x = torch.randn(2, 6, 4, 4)
for name, dims in AXES.items():
    y = normalize(x, dims, 1e-5)
    print(f"{name:>8}: {y.mean(dims).abs().max():.1e} {y.var(dims, unbiased=False).mean():.4f}")
assert torch.allclose(normalize(x, (2, 3), 1e-5), F.instance_norm(x), atol=1e-5)

# %% instance_norm: a helper that lines channels up
def per_channel(t, x):
    return t.to(x.dtype)[(None, slice(None)) + (None,) * (x.dim() - 2)]


def instance_norm(x, weight, bias, eps):
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    y = normalize(wide, list(range(2, x.dim())), eps)
    return (y * per_channel(weight, wide) + per_channel(bias, wide)).to(x.dtype)

# %% group_norm: compared under a test's name
def group_norm(x, num_groups, weight, bias, eps):
    N, C, *rest = x.shape
    if C % num_groups:
        raise ValueError(f"{C} channels, {num_groups} groups")
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    y = normalize(wide.reshape(N, num_groups, -1), -1, eps).reshape(x.shape)
    return (y * per_channel(weight, wide) + per_channel(bias, wide)).to(x.dtype)


def test_group_norm():
    w, b = torch.randn(6), torch.randn(6)
    torch.testing.assert_close(group_norm(x, 3, w, b, 1e-5), F.group_norm(x, 3, w, b, 1e-5))
    one = nn.GroupNorm(1, 6)(x)
    torch.testing.assert_close(one, F.layer_norm(x, x.shape[1:]))


test_group_norm()

# %% standardize_weight: a partial function
standardize_weight = lambda w, eps: functools.partial(normalize, eps=eps)(w, [*range(1, w.ndim)])

# %% SwitchableNorm2d: statistics in a list of named tuples
from collections import namedtuple

Moments = namedtuple("Moments", "mean var")


class SwitchableNorm2d(nn.Module):
    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        for name, value in [("weight", 1.0), ("bias", 0.0)]:
            self.register_parameter(name, nn.Parameter(torch.full((num_features,), value)))
        for name in ("mean_weight", "var_weight"):
            setattr(self, name, nn.Parameter(torch.ones(len(AXES))))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def moments(self, x, dims):
        m = x.mean(dims, keepdim=True)
        return Moments(m, (x - m).pow(2).mean(dims, keepdim=True))

    def forward(self, x):
        out_type = x.dtype
        x = x.float() if out_type in (torch.float16, torch.bfloat16) else x
        found = {name: self.moments(x, dims) for name, dims in AXES.items()}
        if self.training:
            count = x.numel() / x.shape[1]
            if count < 2:
                raise ValueError("too few")
            with torch.no_grad():
                batch = found["batch"]
                self.running_mean += self.momentum * (batch.mean.flatten() - self.running_mean)
                unbiased = batch.var.flatten() * count / (count - 1)
                self.running_var += self.momentum * (unbiased - self.running_var)
        else:
            shape = (1, -1, 1, 1)
            found["batch"] = Moments(self.running_mean.view(shape), self.running_var.view(shape))
        p, q = (torch.softmax(w.to(x.dtype), 0) for w in (self.mean_weight, self.var_weight))
        mean = sum(w * s.mean for w, s in zip(p, found.values()))
        var = sum(w * s.var for w, s in zip(q, found.values()))
        y = (x - mean) * (var + self.eps).rsqrt()
        return (y * self.weight[:, None, None] + self.bias[:, None, None]).to(out_type)

# %% added: isinstance with layers of the library's
def is_norm(module):
    kinds = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.InstanceNorm2d)
    return isinstance(module, kinds) or module.__class__ is SwitchableNorm2d


net = nn.Sequential(nn.Conv2d(6, 6, 3), SwitchableNorm2d(6), nn.ReLU(), nn.BatchNorm2d(6))
print([is_norm(m) for m in net.modules()], [type(m).__name__ for m in net], net(x).std())
nn.init.orthogonal_(net[0].weight)
net = torch.nn.utils.parametrizations.weight_norm(net[0])
