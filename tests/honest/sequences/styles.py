# %% padding_mask: broadcasting with None
from torch.nn.utils.rnn import pad_sequence, pack_padded_sequence


def padding_mask(lengths, max_len):
    if lengths.numel() and (lengths.min() < 0 or lengths.max() > max_len):
        raise ValueError(f"lengths must lie between 0 and {max_len}")
    mask = torch.arange(max_len, device=lengths.device)[None, :] < lengths[:, None]
    print(mask.int(), mask.sum(1).tolist() == lengths.tolist())
    return mask


batch = pad_sequence([torch.randn(n, 4) for n in (3, 1, 2)], batch_first=True)
print(batch.shape, padding_mask(torch.tensor([3, 1, 2]), 3))

# %% masked_mean_var: weights in place of a selection
def masked_mean_var(x, mask):
    count = mask.sum()
    if not count:
        raise ValueError("no tokens")
    h = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    h = torch.where(mask[..., None], h, torch.zeros((), dtype=h.dtype)).reshape(-1, h.shape[-1])
    keep = mask.reshape(-1, 1).to(h.dtype)
    mean = h.sum(0) / count
    var = (((h - mean) * keep) ** 2).sum(0) / count
    return mean, var

# %% masked_batch_norm: boolean indexing and assignment
def masked_batch_norm(x, mask, weight, bias, eps):
    if int(mask.sum()) < 2:
        raise ValueError("at least two tokens")
    tokens = x[mask]
    h = tokens.float() if x.dtype in (torch.float16, torch.bfloat16) else tokens
    centred = h - h.mean(0)
    y = centred * (centred.pow(2).mean(0) + eps).rsqrt() * weight + bias
    out = torch.zeros_like(x)
    out[mask] = y.to(x.dtype)
    return out


x, mask = torch.randn(2, 5, 4), torch.rand(2, 5) > 0.2
bn = nn.BatchNorm1d(4) if "nn" in globals() else torch.nn.BatchNorm1d(4)
print((masked_batch_norm(x, mask, torch.ones(4), torch.zeros(4), 1e-5)[mask] - bn(x[mask])).abs().max())

# %% running_stat_distance: a small class for the running state
class Running:
    def __init__(self, momentum=0.1):
        self.momentum = momentum
        self.mean = self.var = None

    def distance(self, mean, var):
        d = mean.numel()
        return [torch.linalg.vector_norm(a - b) / d for a, b in ((mean, self.mean), (var, self.var))]

    def update(self, mean, var):
        if self.mean is None:
            self.mean, self.var = mean, var
        else:
            self.mean = torch.lerp(self.mean, mean, self.momentum)
            self.var = torch.lerp(self.var, var, self.momentum)


def running_stat_distance(batches):
    if len(batches) < 2:
        raise ValueError("two batches are needed")
    running, found = Running(), []
    for i, b in enumerate(batches):
        t = b.flatten(0, -2)
        t = t.float() if t.dtype in (torch.float16, torch.bfloat16) else t
        mean, var = t.mean(0), t.var(0, unbiased=False)
        if i > 0:
            found.append(running.distance(mean, var))
        running.update(mean, var)
    means, variances = zip(*found)
    return torch.stack(means), torch.stack(variances)

# %% added: which modules are loaded
import sys

print([name for name in sys.modules if name.startswith("torch.nn.mod")])
for name in sorted(n for n in sys.modules.keys() if "numpy" in n)[:3]:
    print(name)
if "ipykernel" in sys.modules and "pytest" not in sys.modules:
    print("in a notebook")
