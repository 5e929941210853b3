# %% PostLNBlock: a residual wrapper of one's own
from functools import partial


class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, **kwargs):
        return x + self.fn(x, **kwargs)


class Block(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def ff(self, h):
        return self.linear2(nn.functional.relu(self.linear1(h)))


class PostLNBlock(Block):
    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x))
        print(f"after attention: {x.std():.3f}", x.grad_fn)
        return self.norm2(x + self.ff(x))

# %% PreLNBlock: inherits from the same base
class PreLNBlock(Block):
    def forward(self, x: Tensor) -> Tensor:
        for part, norm in ((self.attention, self.norm1), (self.ff, self.norm2)):
            x = x + part(norm(x))
        return x


layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, norm_first=True)
print(sorted(n for n, _ in layer.named_parameters())[:3], layer(torch.randn(2, 3, 16)).std())

# %% gradient_norms: backward and hooks
def gradient_norms(blocks, x):
    held = [p.grad for b in blocks for p in b.parameters()]
    y = x
    for b in blocks:
        y = b(y)
    logits = y.reshape(-1, y.shape[-1])
    loss = nn.CrossEntropyLoss()(logits, torch.zeros(logits.shape[0], dtype=torch.int64))
    norms = []
    for b in blocks:
        params = [p for p in b.parameters() if p.requires_grad]
        grads = torch.autograd.grad(loss, params, retain_graph=True, allow_unused=True) if params else []
        norms.append(torch.tensor([g.norm() for g in grads if g is not None] or [0.0]).double().norm().item())
    return norms

# %% warmup_lr: a scheduler made of it
def warmup_lr(step, d_model, warmup):
    if not step >= 1:
        raise ValueError("step")
    return d_model ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.5))


model = nn.Linear(2, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: warmup_lr(i + 1, 512, 100))
lrs = []
for _ in range(20):
    optimizer.step(); scheduler.step(); lrs.append(scheduler.get_last_lr()[0])
import matplotlib.pyplot as plt
plt.plot(lrs); plt.show()

# %% deepnorm_constants: a lambda
deepnorm_constants = lambda n_layers: (pow(2 * n_layers, 1 / 4), pow(8 * n_layers, -1 / 4))

# %% QKNormAttention: inherits from the given class
class QKNormAttention(MultiHeadAttention):
    def __init__(self, d_model, n_heads):
        if d_model % n_heads:
            raise ValueError("heads")
        super().__init__(d_model, n_heads)
        make = partial(nn.RMSNorm, d_model // n_heads, eps=1e-6)
        self.q_norm, self.k_norm = make(), make()

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = (f(x).view(B, L, self.n_heads, -1).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        return self.out_proj(y.transpose(1, 2).reshape(B, L, D))

# %% added: a study with deep copies and inference
import copy

twin = copy.deepcopy(PreLNBlock(16, 2, 32)).eval()
with torch.inference_mode():
    print(twin(torch.randn(1, 2, 16)).isfinite().all(), gradient_norms.__name__)
for i, block in enumerate(blocks := [PostLNBlock(16, 2, 32) for _ in range(3)]):
    for name, p in block.named_parameters():
        if "weight" in name and p.dim() > 1:
            nn.init.xavier_normal_(p, gain=deepnorm_constants(3)[1])
print(gradient_norms(blocks, torch.randn(2, 4, 16)))
