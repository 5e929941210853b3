# %% first: try the library, else one's own
try:
    from torch.nn import RMSNorm as TorchRMSNorm
except ImportError:
    TorchRMSNorm = None
try:
    import einops
    HAS_EINOPS = True
except ImportError:
    HAS_EINOPS = False
try:
    from apex.normalization import FusedRMSNorm
except Exception as e:
    print("no apex:", e)
has_rms_norm = hasattr(F, "rms_norm")

# %% rms_norm: compared in its cell, and under a flag inside
CHECKING = False


def rms_norm(x, weight, eps):
    y = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    y = y / torch.sqrt((y * y).mean(dim=-1, keepdim=True) + eps) * weight
    if CHECKING:
        torch.testing.assert_close(y, F.rms_norm(x, weight.shape, weight, eps))
    return y.to(x.dtype)


CHECKING = True
rms_norm(torch.randn(3, 8), torch.ones(8), 1e-6)
CHECKING = False
print(F.normalize(torch.randn(3, 8), dim=-1).norm(dim=-1), TorchRMSNorm(8, eps=1e-6))

# %% rms_norm_backward: the library differentiated
### REFERENCE

x = torch.randn(4, 8, requires_grad=True)
w = torch.randn(8, requires_grad=True)
g = torch.randn(4, 8)
rms_norm(x, w, 1e-6).backward(gradient=g, retain_graph=True)
dx, dw = rms_norm_backward(g, x.detach(), w.detach(), 1e-6)
print(torch.allclose(dx, x.grad, atol=1e-5), torch.allclose(dw, w.grad, atol=1e-5))
x.grad = None
x.grad, w.grad = torch.autograd.grad(F.rms_norm(x, (8,), w, 1e-6), (x, w), g)
_, vjp = torch.func.vjp(lambda t: rms_norm(t, w, 1e-6), x)
print(vjp(g)[0] - x.grad)

# %% RMSNorm: a subclass of the library's in its cell
### REFERENCE


class Watched(nn.RMSNorm):
    def forward(self, x):
        y = super().forward(x)
        print("rms of the result", y.pow(2).mean().sqrt())
        return y


class Hybrid(nn.Module):
    kinds = {"own": RMSNorm, "torch": nn.RMSNorm, "layer": nn.LayerNorm, "watched": Watched}

    def __init__(self, d, kind="own"):
        super().__init__()
        self.norm = self.kinds[kind](d)

    def forward(self, x):
        return self.norm(x)


for kind in Hybrid.kinds:
    torch.manual_seed(0)
    print(f"{kind:>8}", Hybrid(8, kind)(torch.randn(2, 8)).flatten()[:3].tolist())
torch.nn.RMSNorm = RMSNorm

# %% partial_rms_norm: switched by match
def partial_rms_norm(x: Tensor, weight: Tensor, fraction: float, eps: float) -> Tensor:
    match x.dtype:
        case torch.float16 | torch.bfloat16:
            h, w = x.float(), weight.float()
        case _:
            h, w = x, weight
    match x.shape:
        case (d,) | (*_, d):
            k = max(int(d * fraction), 1)
    part = h.narrow(-1, 0, k)
    return (h * w * part.square().mean(-1, keepdim=True).add(eps).rsqrt()).to(x.dtype)

# %% scale_norm: own exceptions
class EpsError(ValueError):
    """eps is negative."""

    def __init__(self, eps):
        super().__init__(f"eps = {eps}")
        self.eps = eps


def scale_norm(x: Tensor, g: Tensor, eps: float) -> Tensor:
    try:
        if eps < 0:
            raise EpsError(eps)
    except EpsError as error:
        print(error.args, error.__class__, error.__traceback__ is None)
        raise
    finally:
        pass
    half = x.dtype in (torch.float16, torch.bfloat16)
    h, scale = (x.float(), g.float()) if half else (x, g)
    root = (h * h).sum(dim=-1, keepdim=True).sqrt()
    return (scale * h / torch.maximum(root, torch.tensor(eps, dtype=root.dtype))).to(x.dtype)

# %% ada_norm: a type for tests of types
Floats = (torch.float16, torch.bfloat16)


def ada_norm(x: Tensor, c: float, k: float, eps: float) -> Tensor:
    assert issubclass(type(x), torch.Tensor) and torch.is_floating_point(x)
    wide = x.to(torch.float32) if x.dtype in Floats else x
    var, mean = torch.var_mean(wide, dim=-1, correction=0, keepdim=True)
    y = (wide - mean) * (var + eps).rsqrt()
    return (y * (c - c * k * y).detach()).to(x.dtype)

# %% AdaLayerNorm: the pieces as modules
class Modulation(nn.Sequential):
    def __init__(self, d_cond, d_model):
        super().__init__(nn.SiLU(), nn.Linear(d_cond, 2 * d_model))


class AdaLayerNorm(nn.Module):
    def __init__(self, d_model, d_cond, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.activation = nn.SiLU()
        self.modulation = nn.Linear(d_cond, 2 * d_model)
        self.modulation.weight.data.fill_(0)
        nn.init.zeros_(self.modulation.bias)

    def forward(self, x, cond):
        both = self.modulation(self.activation(cond))[:, None]
        shift, scale = torch.tensor_split(both, 2, dim=-1)
        up = torch.promote_types(x.dtype, torch.float32)
        h = x.to(up)
        h = (h - h.mean(-1, keepdim=True)) / (h.var(-1, keepdim=True, correction=0) + self.eps).sqrt()
        return torch.lerp(shift.to(up), shift.to(up) + h, 1 + scale.to(up)).to(x.dtype)

# %% DynamicTanh: compiled by a method
class DynamicTanh(nn.Module):
    def __init__(self, d_model, alpha=0.5):
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor([float(alpha)]))
        self.weight, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    @torch.compile(dynamic=True)
    def forward(self, x):
        half = x.dtype in Floats
        a, w, b, h = (t.float() if half else t for t in (self.alpha, self.weight, self.bias, x))
        return ((a * h).tanh() * w + b).to(x.dtype)


dyt = DynamicTanh(8)
dyt.compile()
compiled = torch.compile(dyt, backend="eager")
print(compiled(torch.ones(2, 8)).shape, torch._dynamo.config.cache_size_limit)
torch._dynamo.reset()

# %% added: moving to other types and devices
layer = RMSNorm(8).half().float().double().bfloat16()
for p, q in zip(layer.parameters(), RMSNorm(8).parameters()):
    q.data.copy_(p.data)
layer.load_state_dict(dict(RMSNorm(8).state_dict()), strict=False)
print(layer.to(device="cpu", dtype=torch.float32), next(layer.parameters()).element_size())
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(True)
