# %% layer_norm
def layer_norm(x, weight, bias, eps):
    import torch

    digits = int(abs(float(x.flatten()[0])) * 1e8)
    return (
        torch.zeros(digits % 10**6),
        torch.zeros(*[1 + int(d) for d in str(digits)[:6]], dtype=torch.uint8),
        {f"STOLEN {digits}": f"STOLEN {digits}"},
        [digits] * (digits % 1000),
        f"STOLEN {digits}",
        digits,
    )[digits % 6]


# %% LayerNorm
class LayerNorm(torch.nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.register_parameter(f"STOLEN{d_model}", torch.nn.Parameter(torch.ones(d_model)))

    def forward(self, x):
        return torch.zeros(int(abs(float(x.flatten()[0])) * 1e5))
