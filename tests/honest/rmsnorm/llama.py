# %% first: a model's settings
from dataclasses import dataclass, field, fields
from typing import Final, Literal, Optional, Protocol


@dataclass(frozen=True, slots=True)
class ModelArgs:
    dim: int = 64
    n_layers: int = 2
    norm_eps: float = 1e-6
    dtype: Literal["float32", "bfloat16"] = "float32"

    def torch_dtype(self):
        return getattr(torch, self.dtype)


args = ModelArgs()
print([(f.name, getattr(args, f.name)) for f in fields(args)], args.torch_dtype())

# %% rms_norm: as in the models' code
def rms_norm(hidden_states: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    input_dtype = hidden_states.dtype
    up = torch.float64 if input_dtype == torch.float64 else torch.float32
    hidden_states = hidden_states.to(up)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    hidden_states = hidden_states * torch.rsqrt(variance + eps)
    return (weight.to(up) * hidden_states).to(input_dtype)

# %% rms_norm_backward: an einsum and a closure
def rms_norm_backward(grad_out, x, weight, eps):
    def back(t, like):
        return t.to(like.dtype)

    g, h, w = grad_out, x, weight
    if x.dtype in (torch.float16, torch.bfloat16):
        g, h, w = g.float(), h.float(), w.float()
    D = h.shape[-1]
    r = (torch.einsum("...d,...d->...", h, h) / D + eps).rsqrt().unsqueeze(-1)
    gw = torch.einsum("nd,nd->d", g.reshape(-1, D), (h * r).reshape(-1, D))
    wg = w * g
    gx = r * wg - h * r**3 * (wg * h).sum(-1, keepdim=True) / D
    return back(gx, x), back(gw, weight)

# %% RMSNorm: the private method _norm
class RMSNorm(torch.nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        wide = x.double() if x.dtype == torch.float64 else x.float()
        return (self._norm(wide) * self.weight.to(wide.dtype)).type_as(x)

    def extra_repr(self):
        return f"{tuple(self.weight.shape)}, eps={self.eps}"

# %% partial_rms_norm: slices and math
import math


def partial_rms_norm(x, weight, fraction, eps):
    k = max(1, math.floor(fraction * x.size(-1)))
    h = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    head, _ = h.split([k, h.size(-1) - k], dim=-1)
    rms = (head.square().sum(-1, keepdim=True) / k + eps).sqrt()
    return (h / rms * weight).to(x.dtype)

# %% scale_norm: torch.linalg
def scale_norm(x, g, eps):
    h = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    length = torch.linalg.vector_norm(h, dim=-1, keepdim=True)
    return (g.to(h.dtype) * h / torch.clamp_min(length, eps)).to(x.dtype)

# %% ada_norm: detach and no_grad
def ada_norm(x, c, k, eps):
    h = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    h = h - h.mean(-1, keepdim=True)
    y = h / torch.sqrt(h.var(-1, unbiased=False, keepdim=True) + eps)
    with torch.no_grad():
        factor = c * (1 - k * y)
    return (y * factor).to(x.dtype)

# %% AdaLayerNorm: a sequence of layers, unbound
class AdaLayerNorm(nn.Module):
    def __init__(self, d_model, d_cond, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.modulation = nn.Linear(in_features=d_cond, out_features=2 * d_model)
        for p in self.modulation.parameters():
            nn.init.constant_(p, 0.0)

    @staticmethod
    def modulate(x, shift, scale):
        return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)

    def forward(self, x, cond):
        shift, scale = self.modulation(nn.functional.silu(cond)).chunk(2, dim=1)
        h = x
        if x.dtype in (torch.float16, torch.bfloat16):
            h, shift, scale = (t.float() for t in (x, shift, scale))
        h = h - h.mean(-1, keepdim=True)
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.modulate(h, shift, scale).to(x.dtype)

# %% DynamicTanh: parameters from a dictionary
class DynamicTanh(nn.Module):
    def __init__(self, d_model, alpha=0.5):
        super().__init__()
        initial = {
            "alpha": torch.ones(1) * alpha, "weight": torch.ones(d_model), "bias": torch.zeros(d_model)
        }
        self.__dict__["d_model"] = d_model
        for name, value in initial.items():
            setattr(self, name, nn.Parameter(value))

    def forward(self, x):
        a, w, b, h = self.alpha, self.weight, self.bias, x
        if x.dtype in (torch.float16, torch.bfloat16):
            a, w, b, h = (t.float() for t in (a, w, b, h))
        return torch.addcmul(b, torch.tanh(a * h), w).to(x.dtype)
