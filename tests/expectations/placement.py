"""What the general tests expect of the assignment `placement`."""

# Survivors that a test could not or should not tell from the reference, and why.
_ORDER = "the order of two axes to swap, or of two numbers to compare, does not matter"
_USED = "torch's own modules, which are the blocks of the tests, use all their parameters"
EXPLAINED = {
    (
        "gradient_norms",
        "torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True) -> "
        "torch.autograd.grad(loss, parameters, retain_graph=True)",
    ): _USED,
    ("gradient_norms", "allow_unused=True -> allow_unused=False"): _USED,
    (
        "warmup_lr",
        "min(step ** (-0.5), step * warmup ** (-1.5)) -> min(step * warmup ** (-1.5), "
        "step ** (-0.5))",
    ): _ORDER,
    ("QKNormAttention", "-2 -> 2"): "of four axes the last but one is number 2",
    (
        "QKNormAttention",
        "proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) -> "
        "proj(x).unflatten(-1, (self.n_heads, -1)).transpose(2, 1)",
    ): _ORDER,
    ("QKNormAttention", "k.transpose(-1, -2) -> k.transpose(-2, -1)"): _ORDER,
    ("QKNormAttention", "y.transpose(1, 2) -> y.transpose(2, 1)"): _ORDER,
}

# exercise: {mistake: (text of the solution, text that replaces it, part of the message)}
MISTAKES = {
    "PostLNBlock": {
        "pre-LN": (
            "self.norm1(x + self.attention(x))",
            "x + self.attention(self.norm1(x))",
            "norm2(norm1(x))",
        ),
        "no norm at the end": ("return self.norm2(h + ", "return (h + ", "mean 0 and variance 1"),
        "norm before the addition": (
            "return self.norm2(h + self.linear2(torch.relu(self.linear1(h))))",
            "return h + self.norm2(self.linear2(torch.relu(self.linear1(h))))",
            "after the addition",
        ),
        "no addition": ("self.norm1(x + self.attention(x))", "self.norm1(self.attention(x))",
                        "norm2(norm1(x))"),
        "x instead of h": ("self.linear1(h)", "self.linear1(x)", "feed-forward net read h"),
        "no ReLU": ("torch.relu(self.linear1(h))", "self.linear1(h)", "is there a ReLU"),
        "another name": ("self.attention", "self.self_attn", "the parts must be called"),
        "widths swapped": ("nn.Linear(d_model, d_ff)", "nn.Linear(d_model, d_model)", "linear1"),
        "input changed": ("x + self.attention(x)", "x.add_(self.attention(x))", "its input"),
        "nothing returned": ("return self", "y = self", "returned None"),
    },
    "PreLNBlock": {
        "post-LN": (
            "x + self.attention(self.norm1(x))",
            "self.norm1(x + self.attention(x))",
            "the stream itself",
        ),
        "normalized copy added": (
            "x + self.attention(self.norm1(x))",
            "self.norm1(x) + self.attention(self.norm1(x))",
            "not its normalized copy",
        ),
        "norm at the end": ("return h + self", "return self.norm2(h) + self", "the stream itself"),
        "one norm for both": ("self.norm2(h)", "self.norm1(h)", "its own"),
        "no ReLU": ("torch.relu(self", "(self", "relu"),
        "another name": ("self.norm1", "self.ln1", "the parts must be called"),
        "nothing returned": ("return h", "y = h", "returned None"),
    },
    "gradient_norms": {
        "square": ("math.sqrt(sum(squares))", "sum(squares)", "root"),
        "matrices only": ("if p.requires_grad]", "if p.requires_grad and p.dim() > 1]", "bias"),
        "sum over tokens": ("dtype=torch.long))", 'dtype=torch.long), reduction="sum")',
                            "not their sum"),
        "class 1": ("torch.zeros(len", "torch.ones(len", "class 0"),
        "side by side": ("y = block(y)", "y = block(x)", "read the output of the one before"),
        "a block left out": (
            "        norms.append",
            "        if parameters: norms.append",
            "one number for each block",
        ),
        "frozen counted": (
            "parameters = [p for p in block.parameters() if p.requires_grad]",
            "parameters = [p.requires_grad_() for p in block.parameters()]",
            "frozen",
        ),
        "added up": (
            "    norms = []\n",
            "    loss.backward(retain_graph=True)\n"
            "    return [sum(p.grad.square().sum() for p in b.parameters()) ** 0.5\n"
            "            for b in blocks]\n"
            "    norms = []\n",
            "second call",
        ),
        "nothing returned": ("return norms", "norms", "returned None"),
    },
    "warmup_lr": {
        "max": ("min(", "max(", "half of the largest"),
        "no width": ("d_model**-0.5 * ", "", "0.0125"),
        "root of the width": ("d_model**-0.5", "d_model**0.5", "0.0125"),
        "no decay": ("step**-0.5", "warmup**-0.5", "falls with the root"),
        "no refusal": ("if step < 1:", "if step < 0:", "raise a ValueError"),
        "nothing returned": ("return d", "lr = d", "returned None"),
    },
    "deepnorm_constants": {
        "swapped": (
            "(2 * n_layers) ** 0.25, (8 * n_layers) ** -0.25",
            "(8 * n_layers) ** -0.25, (2 * n_layers) ** 0.25",
            "alpha must be",
        ),
        "no minus": ("** -0.25", "** 0.25", "beta must be"),
        "square roots": ("** 0.25", "** 0.5", "fourth root"),
        "one number": (", (8 * n_layers) ** -0.25", ",", "two numbers"),
        "nothing returned": ("return (", "pair = (", "returned None"),
    },
    "QKNormAttention": {
        "not normalized": ("q, k = self.q_norm(q), self.k_norm(k)", "pass", "head normalized"),
        "keys forgotten": ("self.k_norm(k)\n", "k\n", "head normalized"),
        "values too": ("@ v  #", "@ self.q_norm(v)  #", "head normalized"),
        "no scale": (" / math.sqrt(q.shape[-1])", "", "the root of the head's width"),
        "over queries": ("softmax(dim=-1)", "softmax(dim=-2)", "head normalized"),
        "whole width": ("nn.RMSNorm(d_model // n_heads,", "nn.RMSNorm(d_model,", "parameters must"),
        "layer norm": ("nn.RMSNorm", "nn.LayerNorm", "the parameters must be"),
        "heads not moved back": (
            "y.transpose(1, 2).flatten(2)", "y.reshape(x.shape)", "side by side",
        ),
        "heads that do not fit": ("if d_model % n_heads != 0:", "if False:", "raise a ValueError"),
        "nothing returned": ("return self", "y = self", "returned None"),
    },
}  # fmt: skip

LEAST = {
    "PostLNBlock": 20, "PreLNBlock": 18, "gradient_norms": 24, "warmup_lr": 14,
    "deepnorm_constants": 11, "QKNormAttention": 30,
}  # fmt: skip
