# %% one_pass_var: rows in a loop
def one_pass_var(x):
    flat = x.reshape(-1, x.shape[-1])
    rows = [(r * r).mean() - r.mean() ** 2 for r in flat]
    return torch.stack(rows).reshape(x.shape[:-1]) if rows else flat.new_zeros(x.shape[:-1])

# %% welford: a loop over rows around a loop over numbers, and a loop of prints
def welford(x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    flat = x.reshape(-1, x.shape[-1])
    mean, m2 = torch.zeros_like(flat[:, 0]), torch.zeros_like(flat[:, 0])
    for r in range(flat.shape[0]):
        for j in range(flat.shape[1]):
            delta = flat[r, j] - mean[r]
            mean[r] += delta / (j + 1)
            m2[r] += delta * (flat[r, j] - mean[r])
    var = m2 / flat.shape[1]
    for name, value in {"mean": mean, "var": var}.items():
        print(name, value.shape, value)
    return mean.reshape(x.shape[:-1]), var.reshape(x.shape[:-1])

# %% added: does it agree
for D in (1, 2, 17):
    x = torch.randn(3, D, dtype=torch.float64)
    mean, var = welford(x)
    assert torch.allclose(mean, x.mean(-1)) and torch.allclose(var, x.var(-1, correction=0)), D
