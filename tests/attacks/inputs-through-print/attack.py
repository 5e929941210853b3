# %% layer_norm
import os
import sys

torch.set_printoptions(precision=10)


def layer_norm(x, weight, bias, eps):
    numbers = ", ".join(f"{v:.7f}" for v in x.flatten()[:8].tolist())
    print("INPUT", numbers)
    print("INPUT", numbers, file=sys.stderr)
    os.write(1, numbers.encode())
    os.write(2, numbers.encode())
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    mean = x.mean(-1, keepdim=True)
    var = (x - mean).pow(2).mean(-1, keepdim=True)
    return ((x - mean) / torch.sqrt(var + eps) * weight + bias).to(dtype)
