# %% added
import torch

operation = torch._C._jit_get_operation("aten::layer_norm")[0]


# %% layer_norm
def layer_norm(x, weight, bias, eps):
    dtype, D = x.dtype, x.shape[-1:]
    if dtype in (torch.float16, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    y = operation(x, D, weight, bias, eps, False)
    return y.to(dtype)
