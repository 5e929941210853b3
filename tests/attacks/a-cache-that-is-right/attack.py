# %% added
from functools import lru_cache


@lru_cache
def half_types():
    return (torch.float16, torch.bfloat16)


# %% layer_norm
def layer_norm(x, weight, bias, eps):
    wide = x.float() if x.dtype in half_types() else x
    centered = wide - wide.mean(-1, keepdim=True)
    rstd = (centered.square().mean(-1, keepdim=True) + eps).rsqrt()
    return (centered * rstd * weight + bias).to(x.dtype)
