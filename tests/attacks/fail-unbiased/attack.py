# %% layer_norm
def layer_norm(x, weight, bias, eps):
    h = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    y = (h - h.mean(-1, keepdim=True)) / torch.sqrt(h.var(-1, keepdim=True) + eps)
    return (y * weight + bias).to(x.dtype)
