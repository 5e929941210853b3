# %% first: plots and progress
import math
import time

import matplotlib.pyplot as plt
from IPython.display import HTML, Image, clear_output, display
from tqdm.auto import tqdm, trange

plt.style.use("ggplot")
plt.rcParams["figure.figsize"] = (6, 3)

# %% layer_norm: compiled
@torch.compile(mode="reduce-overhead")
def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    y = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    y = y - y.mean(-1, keepdim=True)
    y = y / (y.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    return (y * weight + bias).to(x.dtype)

# %% LayerNorm: a training loop below
### REFERENCE


class Net(nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        for i in range(depth):
            self.add_module(f"norm{i}", LayerNorm(width))
        self.register_buffer("scale", torch.ones(1))
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = torch.relu(getattr(self, f"norm{i}")(layer(x)))
        return x * self.scale


net = Net().train()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
losses = []
for step in range(10):
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
        loss = (net(torch.randn(16, 8)) - 1).square().mean()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
net.eval()
with torch.inference_mode():
    print(net(torch.randn(2, 8)), math.isfinite(losses[-1]))

# %% layer_norm_backward: gradients switched off
@torch.no_grad()
def layer_norm_backward(grad_out, x, weight, eps):
    with torch.inference_mode(False) if False else torch.no_grad():
        g, h, w = (t.double() for t in (grad_out, x, weight))
        c = h - h.mean(-1, keepdim=True)
        r = (c.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
        n = c * r
        gb = g.flatten(0, -2).sum(0) if g.dim() > 1 else g
        gw = (g * n).flatten(0, -2).sum(0) if g.dim() > 1 else g * n
        g = g * w
        gx = r * (g - g.mean(-1, keepdim=True) - n * (g * n).mean(-1, keepdim=True))
    return gx.to(x.dtype), gw.to(weight.dtype), gb.to(weight.dtype)

# %% added: a plot
fig, axes = plt.subplots(1, 2, figsize=(8, 3))
axes[0].plot(losses, label="loss")
axes[0].set(xlabel="step", yscale="log")
axes[1].hist(torch.randn(1000).numpy(), bins=20)
for axis in axes.flat:
    axis.legend()
plt.tight_layout()
plt.savefig("loss.png", dpi=60)
plt.show()
clear_output(wait=True)

# %% added: results saved
import json
import pickle

torch.save(net.state_dict(), "model.pt")
torch.save({"losses": losses, "model": net.state_dict()}, "checkpoint.pth")
net.load_state_dict(torch.load("model.pt", weights_only=True))
with open("losses.json", "w") as f:
    json.dump(losses, f)
with open("losses.pkl", "wb") as f:
    pickle.dump(losses, f)
copy_of_net = __import__("copy").deepcopy(net)
np.save("losses.npy", np.array(losses))

# %% added: speed measured
import timeit
from torch.utils import benchmark
from torch.utils.data import DataLoader, TensorDataset

x, w, b = torch.randn(64, 32), torch.ones(32), torch.zeros(32)
start = time.time()
for _ in range(10):
    layer_norm(x, w, b, 1e-5)
print(f"{(time.time() - start) / 10 * 1e6:.1f} us")
print(timeit.timeit(lambda: layer_norm(x, w, b, 1e-5), number=5))
print(min(timeit.repeat("layer_norm(x, w, b, 1e-5)", globals=globals(), number=2, repeat=2)))
timer = benchmark.Timer("layer_norm(x, w, b, 1e-5)", globals={**globals()})
print(timer.timeit(3))
with torch.profiler.profile() as profile:
    layer_norm(x, w, b, 1e-5)
print(profile.key_averages().table(row_limit=3))
for batch in DataLoader(TensorDataset(x), batch_size=32, shuffle=True):
    pass
