# %% attention: broadcasting, type aliases and a soft maximum of one's own
from __future__ import annotations
from typing import TypeAlias

MaybeTensor: TypeAlias = "Tensor | None"


def softmax(scores: Tensor) -> Tensor:
    top = scores.amax(dim=-1, keepdim=True)
    top = torch.where(torch.isfinite(top), top, torch.zeros_like(top)).detach()
    e = torch.exp(scores - top)
    return e / e.sum(-1, keepdim=True).clamp_min(torch.finfo(e.dtype).tiny)


def attention(q: Tensor, k: Tensor, v: Tensor, key_padding_mask: MaybeTensor = None) -> Tensor:
    assert q.shape[-1] == k.shape[-1], "q and k do not fit"
    out_dtype = q.dtype
    compute = torch.promote_types(out_dtype, torch.float32)
    q, k, v = q.to(compute), k.to(compute), v.to(compute)
    scores = torch.matmul(q, k.mT) * q.shape[-1] ** -0.5
    if key_padding_mask is not None:
        keep = ~key_padding_mask
        while keep.dim() < scores.dim():
            keep = keep[:, None]
        scores = torch.where(keep, scores, torch.tensor(float("-inf"), dtype=compute))
        v_mask = keep.squeeze(-2).unsqueeze(-1)
        v = torch.where(v_mask, v, torch.zeros((), dtype=compute))
    return torch.matmul(softmax(scores), v).to(out_dtype)

# %% MultiHeadAttention: inherits, hooks, dropout that is off
class AttentionBase(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError("heads")
        self.d_model = d_model
        self.h = n_heads
        self.last: dict[str, torch.Size] = {}

    def remember(self, **shapes):
        self.last.update({name: t.shape for name, t in shapes.items()})


class MultiHeadAttention(AttentionBase):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(d_model, d_model, bias=True) for _ in range(4)
        )

    def forward(self, x, key_padding_mask=None):
        b, l, _ = x.shape
        heads = lambda t: t.reshape(b, l, self.h, -1).swapaxes(1, 2)
        q, k, v = heads(self.q_proj(x)), heads(self.k_proj(x)), heads(self.v_proj(x))
        self.remember(q=q, k=k, v=v)
        y = attention(q, k, v, key_padding_mask=key_padding_mask)
        y = nn.functional.dropout(y, p=0.0, training=self.training)
        return self.out_proj(y.movedim(1, 2).flatten(start_dim=2))


handle = MultiHeadAttention(8, 2).register_forward_hook(lambda m, i, o: print(o.shape))
handle.remove()

# %% added: causal masks and positions for a small model
class Block(nn.Module):
    def __init__(self, d=16, heads=2):
        super().__init__()
        self.attn, self.ff = MultiHeadAttention(d, heads), nn.Sequential(nn.Linear(d, 32), nn.GELU(), nn.Linear(32, d))
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


torch.manual_seed(1)
model = nn.Sequential(*[Block() for _ in range(2)])
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in (pbar := range(5)):
    loss = nn.functional.mse_loss(model(torch.randn(4, 6, 16)), torch.zeros(4, 6, 16))
    opt.zero_grad(); loss.backward(); opt.step()
causal = torch.triu(torch.ones(6, 6, dtype=torch.bool), diagonal=1)
print(loss.item(), causal, nn.Transformer.generate_square_subsequent_mask(3))
assert torch.autograd.gradcheck(attention, tuple(torch.randn(1, 3, 2, dtype=torch.double, requires_grad=True) for _ in range(3)))
