# %% layer_norm
def layer_norm(x, weight, bias, eps):
    dtype, D = x.dtype, x.shape[-1:]
    if dtype in (torch.float16, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    rows = x.reshape(-1, D[0])
    y = nn.functional.group_norm(rows, 1, weight, bias, eps).reshape(x.shape)
    return y.to(dtype)


# %% LayerNorm
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        rows = x.reshape(1, -1, x.shape[-1])
        y = nn.functional.instance_norm(rows, eps=self.eps).reshape(x.shape)
        return y * self.weight + self.bias
