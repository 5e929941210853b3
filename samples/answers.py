"""Answers to the exercises of `layernorm` as learners write them, right and wrong.

Each is the text of one solution cell. `samples/make.py` puts them into notebooks.
"""

# --- layer_norm: three right styles ------------------------------------------------------------

PLAIN = """
def layer_norm(x, weight, bias, eps):
    out_dtype = x.dtype
    if out_dtype in (torch.float16, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    mean = x.mean(dim=-1, keepdim=True)
    var = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    y = (x - mean) / torch.sqrt(var + eps)
    return (y * weight + bias).to(out_dtype)
"""

EINSUM = """
def layer_norm(x, weight, bias, eps):
    half = x.dtype in (torch.float16, torch.bfloat16)
    wide = torch.float32 if half else x.dtype
    z, w, b = x.to(wide), weight.to(wide), bias.to(wide)
    D = z.shape[-1]
    ones = torch.ones(D, dtype=wide)
    z = z - torch.einsum("...d,d->...", z, ones)[..., None] / D
    var = torch.einsum("...d,...d->...", z, z) / D
    y = torch.einsum("...d,...,d->...d", z, torch.rsqrt(var + eps), w) + b
    return y.to(x.dtype)
"""

VAR_MEAN = """
def layer_norm(x, weight, bias, eps):
    if x.dtype in (torch.float16, torch.bfloat16):
        return layer_norm(x.float(), weight.float(), bias.float(), eps).to(x.dtype)
    var, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
    return (torch.addcmul(bias, (x - mean) * torch.rsqrt(var + eps), weight)).to(x.dtype)
"""

AUTOGRAD_FUNCTION = '''
class _LayerNormFunction(torch.autograd.Function):
    """Saves x and weight only, and computes the rest again on the way back."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        dtype = torch.promote_types(x.dtype, torch.float32)
        z = x.to(dtype)
        z = z - z.mean(-1, keepdim=True)
        z = z * (z.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
        return (z * weight.to(dtype) + bias.to(dtype)).to(x.dtype)

    @staticmethod
    def backward(ctx, grad_out):
        x, weight = ctx.saved_tensors
        return (*layer_norm_backward(grad_out, x, weight, ctx.eps), None)


def layer_norm(x, weight, bias, eps):
    return _LayerNormFunction.apply(x, weight, bias, eps)
'''

# --- layer_norm: mistakes ----------------------------------------------------------------------

UNBIASED = """
def layer_norm(x, weight, bias, eps):
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, keepdim=True)
    return ((x - mean) / torch.sqrt(var + eps) * weight + bias).to(dtype)
"""

EPS_OUTSIDE = """
def layer_norm(x, weight, bias, eps):
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    mean = x.mean(-1, keepdim=True)
    std = ((x - mean) ** 2).mean(-1, keepdim=True).sqrt()
    return ((x - mean) / (std + eps) * weight + bias).to(dtype)
"""

ARTICLE = """
def layer_norm(x, weight, bias, eps):
    mean = x.mean(-1, keepdim=True)
    std = x.std(-1, keepdim=True)
    return weight * (x - mean) / (std + eps) + bias
"""

WRONG_AXIS = """
def layer_norm(x, weight, bias, eps):
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    mean = x.mean(dim=0, keepdim=True)
    var = ((x - mean) ** 2).mean(dim=0, keepdim=True)
    return ((x - mean) / torch.sqrt(var + eps) * weight + bias).to(dtype)
"""

NO_AFFINE = """
def layer_norm(x, weight, bias, eps):
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    mean = x.mean(-1, keepdim=True)
    var = ((x - mean) ** 2).mean(-1, keepdim=True)
    return ((x - mean) / torch.sqrt(var + eps)).to(dtype)
"""

ONE_PASS = """
def layer_norm(x, weight, bias, eps):
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    mean = x.mean(-1, keepdim=True)
    var = (x**2).mean(-1, keepdim=True) - mean**2
    return ((x - mean) / torch.sqrt(var + eps) * weight + bias).to(dtype)
"""

NO_UPCAST = """
def layer_norm(x, weight, bias, eps):
    mean = x.mean(dim=-1, keepdim=True)
    var = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    return ((x - mean) / torch.sqrt(var + eps) * weight + bias).to(x.dtype)
"""

IN_PLACE = """
def layer_norm(x, weight, bias, eps):
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    x -= x.mean(-1, keepdim=True)
    x /= torch.sqrt((x**2).mean(-1, keepdim=True) + eps)
    return (x * weight + bias).to(dtype)
"""

UNFINISHED = """
def layer_norm(x, weight, bias, eps):
    mean = x.mean(-1, keepdim=True)
    var = ((x - mean) ** 2).mean(-1, keepdim=True
    return (x - mean) / torch.sqrt(var + eps) * weight + bias
"""

# --- layer_norm: calls that are not allowed, and attacks that must earn nothing ------------------

LIBRARY = """
import torch.nn.functional as F

def layer_norm(x, weight, bias, eps):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)
"""

ENDLESS = """
def layer_norm(x, weight, bias, eps):
    y = x - x.mean(-1, keepdim=True)
    while (y**2).mean() != 1:
        y = y / (y**2).mean().sqrt()
        if y.isfinite().all():
            continue
    while True:
        pass
"""

MEMORY_BOMB = """
def layer_norm(x, weight, bias, eps):
    blocks = []
    for _ in range(64):
        blocks.append(torch.ones(2**28))  # 1 GiB each, every page written
    return x
"""

EXIT = """
import os

def layer_norm(x, weight, bias, eps):
    os._exit(0)
"""

READ_THE_TESTS = '''
import gc
import inspect
import os
import sys

def _loot():
    """Everything in reach that looks like a test or a reference solution."""
    found = [value for name, value in os.environ.items() if "SUITE" in name or "COURSE" in name]
    for number, (folder, _, files) in enumerate(os.walk("/")):
        if number > 3000:
            break
        for name in files:
            if "layer_norm" in name or name == "suite.toml":
                try:
                    with open(os.path.join(folder, name)) as file:
                        found.append(file.read())
                except (OSError, UnicodeDecodeError):
                    pass
    frame = sys._getframe()
    while frame is not None:
        found += [v for k, v in frame.f_locals.items() if k in ("want", "expected", "reference")]
        frame = frame.f_back
    for thing in gc.get_objects():
        if inspect.isfunction(thing) and thing.__name__ == "layer_norm":
            if thing.__module__ not in ("__main__", "torch.nn.functional"):
                found.append(thing)
    return found

def layer_norm(x, weight, bias, eps):
    for thing in _loot():
        if isinstance(thing, torch.Tensor):
            return thing
        if callable(thing) and thing is not layer_norm and "solutions" in thing.__module__:
            return thing(x, weight, bias, eps)
    return torch.zeros_like(x)
'''

AGREES = '''
class Agrees:
    """Equal to everything, near everything, shaped like everything."""

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kwargs):
        return self

    def __bool__(self):
        return True

    __hash__ = None
    __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __sub__ = __rsub__ = __abs__ = __add__ = __radd__ = __mul__ = __rmul__ = __call__


def layer_norm(x, weight, bias, eps):
    return Agrees()
'''

AGREES_CLASS = """
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        class Same(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                return True

        return x.as_subclass(Same)
"""

AGREES_BACKWARD = """
def layer_norm_backward(grad_out, x, weight, eps):
    return Agrees(), Agrees(), Agrees()
"""

# --- LayerNorm -----------------------------------------------------------------------------------

MODULE = """
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return layer_norm(x, self.weight, self.bias, self.eps)
"""

MODULE_ON_ITS_OWN = """
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        half = x.dtype in (torch.float16, torch.bfloat16)
        z = x.float() if half else x
        z = z - z.mean(-1, keepdim=True)
        z = z / (z.square().mean(-1, keepdim=True) + self.eps).sqrt()
        weight, bias = self.weight.to(z.dtype), self.bias.to(z.dtype)
        return (z * weight + bias).to(x.dtype)
"""

NOT_REGISTERED = """
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = torch.ones(d_model)
        self.bias = torch.zeros(d_model)
        self.eps = eps

    def forward(self, x):
        return layer_norm(x, self.weight, self.bias, self.eps)
"""

# --- layer_norm_backward -------------------------------------------------------------------------

BACKWARD = """
def layer_norm_backward(grad_out, x, weight, eps):
    x_type, w_type = x.dtype, weight.dtype
    if x_type in (torch.float16, torch.bfloat16):
        grad_out, x, weight = grad_out.float(), x.float(), weight.float()
    mean = x.mean(-1, keepdim=True)
    rstd = 1 / torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + eps)
    x_hat = (x - mean) * rstd
    rows = tuple(range(x.dim() - 1))  # sum over nothing would mean over everything
    grad_weight = (grad_out * x_hat).sum(rows) if rows else grad_out * x_hat
    grad_bias = grad_out.sum(rows) if rows else grad_out.clone()
    g = grad_out * weight
    grad_x = g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True)
    return (grad_x * rstd).to(x_type), grad_weight.to(w_type), grad_bias.to(w_type)
"""

BACKWARD_BY_THE_GRAPH = """
def layer_norm_backward(grad_out, x, weight, eps):
    wide = torch.promote_types(x.dtype, torch.float32)
    g, z, w = grad_out.to(wide), x.to(wide), weight.to(wide)
    D = z.shape[-1]
    c = z - z.mean(-1, keepdim=True)
    r = torch.rsqrt(c.pow(2).mean(-1, keepdim=True) + eps)
    d_hat = g * w
    d_r = (d_hat * c).sum(-1, keepdim=True)
    d_v = -0.5 * r**3 * d_r
    d_c = d_hat * r + 2 / D * d_v * c
    d_x = d_c - d_c.mean(-1, keepdim=True)
    d_w = (g * c * r).reshape(-1, D).sum(0)
    d_b = g.reshape(-1, D).sum(0)
    return d_x.to(x.dtype), d_w.to(weight.dtype), d_b.to(weight.dtype)
"""

BACKWARD_EINSUM = """
def layer_norm_backward(grad_out, x, weight, eps):
    half = x.dtype in (torch.float16, torch.bfloat16)
    wide = torch.float32 if half else x.dtype
    D = x.shape[-1]
    g = grad_out.to(wide).reshape(-1, D)
    z = x.to(wide).reshape(-1, D)
    w = weight.to(wide)
    z = z - z.mean(1, keepdim=True)
    rstd = torch.rsqrt(torch.einsum("nd,nd->n", z, z) / D + eps)
    z = torch.einsum("nd,n->nd", z, rstd)
    along = torch.einsum("nd,nd,d->n", g, z, w) / D
    mean = torch.einsum("nd,d->n", g, w) / D
    grad_x = (g * w - mean[:, None] - z * along[:, None]) * rstd[:, None]
    grad_weight = torch.einsum("nd,nd->d", g, z)
    grad_bias = g.sum(0)
    return (
        grad_x.reshape(x.shape).to(x.dtype),
        grad_weight.to(weight.dtype),
        grad_bias.to(weight.dtype),
    )
"""


def _changed(text: str, old: str, new: str) -> str:
    """`text` with one thing in it changed. Raises ValueError when it is not there."""
    if text.count(old) != 1:
        raise ValueError(f"{old!r} is not there once")
    return text.replace(old, new)


NO_MEAN_TERM = _changed(BACKWARD, "g - g.mean(-1, keepdim=True) - x_hat", "g - x_hat")
NO_X_HAT_TERM = _changed(BACKWARD, " - x_hat * (g * x_hat).mean(-1, keepdim=True)", "")
NOT_REDUCED = _changed(BACKWARD, "(grad_out * x_hat).sum(rows) if rows else ", "")

WRITTEN = {
    "written_memory": """\
It takes mean and variance from the token itself, so there is nothing to remember. BatchNorm needs
the batch, or averages of old batches. With a **batch of one** (a chat, one token at a time) it
would have to trust those averages, and `var(correction=0)` of one sample is 0.""",
    "written_tenfold": """\
The output is the same, because mean and std grow tenfold too. $L(10W) = L(W)$, so the gradient is
ten times smaller, and relative to W the step is 100 times smaller.""",
}
