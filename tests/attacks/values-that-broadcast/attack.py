# %% layer_norm
import torch

calls = 0


def layer_norm(x, weight, bias, eps):
    global calls
    calls += 1
    choices = (
        torch.zeros((), dtype=x.dtype),
        torch.full((1,), float("inf"), dtype=x.dtype),
        torch.zeros((), dtype=x.dtype).expand(x.shape),
        torch.full_like(x, float("inf")),
        0.0,
        [],
    )
    return choices[calls % len(choices)]


# %% layer_norm_backward
def layer_norm_backward(grad_out, x, weight, eps):
    return torch.zeros(()), torch.zeros(()), torch.zeros(())
