# %% first: NumPy and settings
import numpy as np

rng = np.random.default_rng(0)
torch.set_default_dtype(torch.float32)
torch.set_num_threads(1)
torch.set_float32_matmul_precision("high")
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.benchmark = True
torch._dynamo.config.suppress_errors = True
torch.autograd.set_detect_anomaly(False)

# %% layer_norm: NumPy for shapes
def layer_norm(x, weight, bias, eps):
    d = int(np.prod(x.shape[-1:]))
    rows = int(np.prod(x.shape[:-1], dtype=np.int64))
    flat = x.reshape(rows, d)
    if x.dtype in (torch.float16, torch.bfloat16):
        flat = flat.float()
    mean = flat.sum(1, keepdim=True) / d
    diff = flat - mean
    std = torch.sqrt((diff**2).sum(1, keepdim=True) / d + np.float64(eps))
    return (diff / std * weight + bias).reshape(x.shape).to(x.dtype)

# %% LayerNorm: checked against NumPy
### REFERENCE


def layer_norm_numpy(x, gamma, beta, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    return gamma * (x - mean) / np.sqrt(x.var(axis=-1, keepdims=True) + eps) + beta


a = rng.standard_normal((3, 8)).astype(np.float32)
got = LayerNorm(8)(torch.from_numpy(a)).detach().numpy()
np.testing.assert_allclose(got, layer_norm_numpy(a, 1, 0), rtol=1e-4, atol=1e-5)
assert np.allclose(got, layer_norm_numpy(a, 1, 0), atol=1e-5)
print(np.abs(got).max(), np.asarray(torch.ones(2)), torch.as_tensor(a).shape)

# %% layer_norm_backward: finite differences
### REFERENCE


def numerical(f, x, h=1e-6):
    grad = np.zeros(x.shape)
    for index in np.ndindex(*x.shape):
        for sign in (1, -1):
            moved = x.clone()
            moved[index] += sign * h
            grad[index] += sign * f(moved).item() / (2 * h)
    return torch.from_numpy(grad)


x, w, b = (torch.randn(s, dtype=torch.float64) for s in ((2, 4), (4,), (4,)))
g = torch.randn(2, 4, dtype=torch.float64)
print(numerical(lambda t: (g * layer_norm(t, w, b, 1e-5)).sum(), x) - layer_norm_backward(g, x, w, 1e-5)[0])

# %% added: threads and processes
from concurrent.futures import ThreadPoolExecutor
import threading
import multiprocessing as mp

with ThreadPoolExecutor(2) as pool:
    results = list(pool.map(lambda seed: torch.manual_seed(seed).initial_seed(), range(3)))
print(results, mp.cpu_count(), threading.active_count())

# %% added: text that is worked out
print(eval("1 + 1"), eval("layer_norm").__name__)
exec("y = 2 * 3")
shape = eval("(2, 3)")
import ast
print(ast.literal_eval("[1, 2]"), shape, y)

# %% added: modules looked up and reloaded
import importlib
import importlib.util

if importlib.util.find_spec("einops") is None:
    print("no einops")
HAS_TQDM = importlib.util.find_spec("tqdm") is not None
np2 = importlib.import_module("numpy")
import importlib.metadata
print(importlib.metadata.version("torch"), "torch" in sys.modules)
for package in ("numpy", "torch"):
    print(package, importlib.metadata.version(package))
import my_helpers
importlib.reload(my_helpers)
