# %% layer_norm
import torch


def layer_norm(x, weight, bias, eps):
    return torch.full_like(x, float("nan")) + 0 * (weight + bias)


# %% LayerNorm
class LayerNorm(torch.nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((d_model,), float("nan")))
        self.bias = torch.nn.Parameter(torch.full((d_model,), float("nan")))

    def forward(self, x):
        return (x * self.weight + self.bias).to(x.dtype)


# %% layer_norm_backward
def layer_norm_backward(grad_out, x, weight, eps):
    return tuple(torch.full_like(t, float("nan")) for t in (x, weight, weight))
