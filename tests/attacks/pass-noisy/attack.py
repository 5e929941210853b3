# %% first
import logging
import sys
import warnings

import matplotlib.pyplot as plt

plt.plot([1, 2, 3])
plt.show()
logging.warning("a warning")
warnings.warn("another")

# %% layer_norm
def layer_norm(x, weight, bias, eps):
    print("shape", x.shape)
    print("error: FAILED", file=sys.stderr)
    warnings.warn("in a call")
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    centered = x - x.mean(-1, keepdim=True)
    return (centered * (centered.square().mean(-1, keepdim=True) + eps).rsqrt() * weight + bias).to(dtype)
