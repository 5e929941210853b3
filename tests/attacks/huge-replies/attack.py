# %% layer_norm
import torch

calls = 0


def layer_norm(x, weight, bias, eps):
    global calls
    calls += 1
    return (
        torch.zeros(1).expand(2**28),
        torch.zeros(20 * 2**20),
        [torch.zeros(1)] * 5000,
        "x" * 2**20,
        torch.zeros(2**12, 2**12).as_strided((2**10, 2**10), (2**12, 2)),
        {str(i): i for i in range(100_000)},
        2**5000,
    )[calls % 7]
