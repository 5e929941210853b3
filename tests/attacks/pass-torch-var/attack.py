# %% added
import torch as t


def moments(x):
    var, mean = t.var_mean(x, dim=-1, correction=0, keepdim=True)
    return mean, var


# %% layer_norm
def layer_norm(x, weight, bias, eps):
    h = x.float() if x.dtype.itemsize == 2 else x
    mean, var = moments(h)
    return ((h - mean) / (var + eps).sqrt() * weight.to(h.dtype) + bias.to(h.dtype)).to(x.dtype)


# %% LayerNorm
class LayerNorm(t.nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = t.nn.Parameter(t.ones(d_model))
        self.bias = t.nn.Parameter(t.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        return layer_norm(x, self.weight, self.bias, self.eps)
