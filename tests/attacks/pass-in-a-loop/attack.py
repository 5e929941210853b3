# %% layer_norm
def layer_norm(x, weight, bias, eps):
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    w, b = weight.to(wide.dtype), bias.to(wide.dtype)
    rows = []
    for row in wide.reshape(-1, x.shape[-1]):
        centered = row - row.sum() / len(row)
        rows.append(centered / (centered.pow(2).sum() / len(row) + eps).sqrt() * w + b)
    return torch.stack(rows).reshape(x.shape).to(x.dtype)
