# %% first: where data comes from
import numpy as np

try:
    from sklearn.datasets import load_iris
    from sklearn.preprocessing import StandardScaler
    DATA = load_iris().data
except ImportError:
    DATA = np.random.RandomState(0).rand(150, 4) * [5, 1, 4, 2]
print(DATA.mean(0), DATA.std(axis=0), np.cov(DATA.T).shape)

# %% standardize: the difference to the library's scaler
def standardize(x, dim, eps):
    """(x - mean) / std"""
    h = x.to(torch.float32) if x.dtype in (torch.half, torch.bfloat16) else x
    mean, std2 = h.mean(dim, keepdim=True), h.var(dim, keepdim=True, unbiased=False)
    z = (h - mean) / torch.sqrt(std2 + eps)
    return z.to(x.dtype)


data = torch.tensor(DATA, dtype=torch.float64)
z = (DATA - DATA.mean(0)) / DATA.std(0)
np.testing.assert_allclose(standardize(data, 0, 0.0).numpy(), z, rtol=1e-6)
assert torch.allclose(standardize(data, 1, 1e-5), torch.nn.functional.layer_norm(data, (4,)))

# %% min_max_scale: aminmax and an assertion
def min_max_scale(x, dim):
    h = x.float() if x.dtype in (torch.half, torch.bfloat16) else x
    low, high = torch.aminmax(h, dim=dim, keepdim=True)
    width = high - low
    scaled = (h - low) / torch.where(width == 0, torch.ones_like(width), width)
    assert torch.isnan(scaled).sum() == 0 or torch.isnan(x).any(), "NaN"
    print(scaled.min().item(), scaled.max().item())
    return scaled.to(x.dtype)

# %% whiten: by singular values
def whiten(x, eps):
    h = x.float() if x.dtype in (torch.half, torch.bfloat16) else x
    h = h - h.mean(0, keepdim=True)
    cov = torch.einsum("ni,nj->ij", h, h) / h.shape[0]
    values, vectors = torch.linalg.eigh(cov)
    inverse_root = vectors @ torch.diag((values + eps).rsqrt()) @ vectors.mT
    return (h @ inverse_root).to(x.dtype)


print(torch.cov(whiten(data, 1e-9).T, correction=0).round(decimals=3))

# %% saturated_fraction: a NumPy result made a float
def saturated_fraction(z, threshold):
    s = torch.sigmoid(z.double())
    slope = s * torch.sigmoid(-z.double())
    return float(np.mean((slope < threshold).numpy()))

# %% activation_stds: a class that records
class Recorder(list):
    def __call__(self, h):
        self.append(h.std(unbiased=False))
        return h

    def stacked(self):
        return torch.stack(list(self))


def activation_stds(depth, width, gain, seed):
    rng = torch.Generator(device="cpu")
    rng.manual_seed(seed)
    opts = {"generator": rng, "dtype": torch.float64}
    record, h = Recorder(), torch.randn(128, width, **opts)
    for layer in range(depth):
        W = torch.randn(width, width, **opts) * (gain / width**0.5)
        h = record(torch.relu(h @ W.t()))
    return record.stacked()


import matplotlib.pyplot as plt
plt.plot(activation_stds(5, 16, 2**0.5, 0)); plt.xlabel("layer"); plt.show()
