# %% added
import torch
from torch import nn

shared = {}


# %% LayerNorm
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        if not shared:
            shared.update(w=nn.Parameter(torch.ones(d_model)), b=nn.Parameter(torch.zeros(d_model)))
        self.weight, self.bias, self.eps = shared["w"], shared["b"], eps

    def forward(self, x):
        return layer_norm(x, self.weight, self.bias, self.eps)
