# %% first: what there is
from packaging import version
import math
import torch.nn.functional as F

HAS_SDPA = hasattr(F, "scaled_dot_product_attention")
if version.parse(torch.__version__.split("+")[0]) < version.parse("2.0"):
    raise RuntimeError("PyTorch 2 is needed")
torch.backends.cuda.enable_flash_sdp(False)
torch.backends.cuda.enable_math_sdp(True)

# %% attention: einsum, masks and prints
def attention(q, k, v, key_padding_mask=None):
    print("attention", q.shape, k.shape, v.shape, key_padding_mask)
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = (t.to(torch.float32) for t in (q, k, v))
    d_k = q.size(-1)
    scores = torch.einsum("...ld,...sd->...ls", q, k) / math.sqrt(d_k)
    if key_padding_mask is not None:
        mask = key_padding_mask.reshape(len(q), *[1] * (q.dim() - 2), -1)
        scores = scores.masked_fill(mask, float("-inf"))
        attn = torch.softmax(scores, dim=-1)
        attn = torch.nan_to_num(attn, nan=0.0)
        attn = attn.masked_fill(mask, 0.0)
    else:
        attn = F.softmax(scores, dim=-1)
    print("sums to one", attn.sum(-1).mean(), attn.max().item())
    return torch.einsum("...ls,...se->...le", attn, v).to(dtype)


q, k, v = (torch.randn(2, 4, 5, 8) for _ in "qkv")
torch.testing.assert_close(attention(q, k, v), F.scaled_dot_product_attention(q, k, v))
with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
    print((F.scaled_dot_product_attention(q, k, v) - attention(q, k, v)).abs().max())

# %% MultiHeadAttention: a class with methods for its steps
class MultiHeadAttention(nn.Module):
    PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")

    def __init__(self, d_model: int, n_heads: int, *, verbose: bool = False):
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"{d_model} is not divisible by {n_heads}")
        self.d_model, self.n_heads, self.d_head = d_model, n_heads, d_model // n_heads
        self.verbose = verbose
        for name in self.PROJECTIONS:
            setattr(self, name, nn.Linear(d_model, d_model))

    def split_heads(self, t):
        B, L, _ = t.size()
        return t.view(B, L, self.n_heads, self.d_head).permute(0, 2, 1, 3)

    def merge_heads(self, t):
        B, H, L, d = t.shape
        return t.transpose(1, 2).contiguous().view(B, L, H * d)

    def log(self, *args):
        if self.verbose:
            print(*args)

    def forward(self, x, key_padding_mask=None):
        q, k, v = (self.split_heads(getattr(self, name)(x)) for name in self.PROJECTIONS[:3])
        self.log(q.shape, vars(self).keys())
        return self.out_proj(self.merge_heads(attention(q, k, v, key_padding_mask)))

    def reference(self, x, mask=None):
        twin = nn.MultiheadAttention(self.d_model, self.n_heads, batch_first=True)
        with torch.no_grad():
            twin.in_proj_weight.copy_(torch.cat([getattr(self, n).weight for n in self.PROJECTIONS[:3]]))
            twin.in_proj_bias.copy_(torch.cat([getattr(self, n).bias for n in self.PROJECTIONS[:3]]))
            twin.out_proj.load_state_dict(self.out_proj.state_dict())
        return twin(x, x, x, key_padding_mask=mask, need_weights=False)[0]

# %% added: compared with the library's module
mha = MultiHeadAttention(16, 4, verbose=True).eval()
x = torch.randn(2, 5, 16)
mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
assert torch.allclose(mha(x, mask), mha.reference(x, mask), atol=1e-5)
assert torch.allclose(mha(x), mha.reference(x), atol=1e-5), "differs"
layer = nn.TransformerEncoderLayer(16, 4, batch_first=True)
print(layer(x).shape, sum(p.numel() for p in mha.parameters() if p.requires_grad))

# %% added: a picture of the weights
import matplotlib.pyplot as plt
import seaborn as sns

weights = (q @ k.transpose(-2, -1) / 8**0.5).softmax(-1)
fig, ax = plt.subplots()
im = ax.imshow(weights[0, 0].detach().cpu().numpy(), cmap="viridis", aspect="auto")
fig.colorbar(im, ax=ax)
ax.set_title("attention"); plt.show(); plt.close("all")
sns.heatmap(weights[0, 0].numpy(), annot=True)
