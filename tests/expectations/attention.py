"""What the general tests expect of the assignment `attention`."""

# Survivors that a test could not or should not tell from the reference, and why.
_SWAP = "to swap two axes is to swap them the other way round"
_CUT = "proj(x).unflatten(-1, (self.n_heads, -1))"
EXPLAINED = {
    ("attention", "(torch.float16, torch.bfloat16) -> (torch.bfloat16, torch.float16)"): (
        "the order in a membership test does not matter"
    ),
    ("attention", "k.transpose(-2, -1) -> k.transpose(-1, -2)"): _SWAP,
    (
        "attention",
        "padding.unsqueeze(1) -> padding.unsqueeze(2)",
    ): "the mask (B, 1, S) gets its second axis of length 1 on either side",
    ("MultiHeadAttention", f"{_CUT}.transpose(1, 2) -> {_CUT}.transpose(2, 1)"): _SWAP,
    ("MultiHeadAttention", "heads.transpose(1, 2) -> heads.transpose(2, 1)"): _SWAP,
}

# exercise: {mistake: (text of the solution, text that replaces it, part of the message)}
_SCALE = " / q.shape[-1] ** 0.5"
_HIDDEN = "scores.masked_fill(padding, -torch.inf)"
_AFTER = "weights = weights.masked_fill(padding, 0)"
_CUT_AND_SWAP = "unflatten(-1, (self.n_heads, -1)).transpose(1, 2)"
_SAME_WEIGHTS = "that of nn.MultiheadAttention with the same weights"
MISTAKES = {
    "attention": {
        "not scaled": (_SCALE, "", "divided by sqrt(4)"),
        "scaled by D": (_SCALE, " / q.shape[-1]", "divided by sqrt(4)"),
        "root of the length": (_SCALE, " / 2.0", "Is D the last axis of q?"),
        "softmax over queries": ("softmax(dim=-1)", "softmax(dim=-2)", "softmax is [0.7311"),
        "softmax over axis 1": (
            "weights = scores.softmax(dim=-1)",
            "weights = scores.softmax(dim=1 if scores.shape[1] > 1 else -1)",
            "over the keys, the last axis",
        ),
        "inverted": (
            "key_padding_mask.unsqueeze(1)",
            "~key_padding_mask.unsqueeze(1)",
            "Does True mean padding?",
        ),
        "after the softmax": (_HIDDEN, "scores", "Does the mask act before the softmax?"),
        "set to zero": (_HIDDEN, "scores.masked_fill(padding, 0)", "before the softmax?"),
        "not lined up": (
            "key_padding_mask.unsqueeze(1)",
            "key_padding_mask.unsqueeze(2) if q.dim() == 3 else key_padding_mask.unsqueeze(1)",
            "line up with the keys",
        ),
        "NaN": (_AFTER, "pass", "its results must be zeros"),
        "average": (
            f"{_HIDDEN}.softmax(dim=-1)\n        {_AFTER}",
            "scores.masked_fill(padding, -1e9).softmax(dim=-1)",
            "its results must be zeros",
        ),
        "lowered only": (
            _HIDDEN,
            "(scores - 1e3 * padding)",
            "large numbers in the padding",
        ),
        "NaN in the gradient": (
            f"{_AFTER}  # without any real key they were NaN\n    return (weights @ v)",
            "pass\n    return (weights @ v).nan_to_num(0)",
            "the gradient of v has NaN",
        ),
        "largest not subtracted": (
            "weights = scores.softmax(dim=-1)",
            "weights = scores.exp() / scores.exp().sum(-1, keepdim=True)",
            "subtract the largest score",
        ),
        "changed": ("scores = q @", "q *= 1.0001; scores = q @", "changed one of its inputs"),
        "no float32 for half types": (
            "(torch.float16, torch.bfloat16):",
            "(torch.bfloat16,):",
            "computed in float32?",
        ),
        "result left wide": (".to(dtype)", "", "the result must be too"),
        "nothing returned": ("return (", "y = (", "returned None"),
    },
    "MultiHeadAttention": {
        "view": (
            f"proj(x).{_CUT_AND_SWAP}",
            "proj(x).reshape(len(x), self.n_heads, x.shape[1], -1)",
            "with a transpose and back?",
        ),
        "not back": (
            "heads.transpose(1, 2).flatten(2)",
            "heads.reshape(x.shape)",
            "with a transpose and back?",
        ),
        "stride": ("(self.n_heads, -1)", "(-1, self.n_heads)", _SAME_WEIGHTS),
        "one head": (_CUT_AND_SWAP, "unsqueeze(1)", "each head cut from neighbouring"),
        "scaled by d_model": (
            "self.q_proj = nn.Linear(d_model, d_model)",
            "self.q_proj = nn.Linear(d_model, d_model)\n"
            "        self.q_proj.register_forward_hook(lambda m, a, y: y / n_heads**0.5)",
            "the head's length",
        ),
        "keys and values swapped": (
            "self.k_proj, self.v_proj)",
            "self.v_proj, self.k_proj)",
            "the projection of their name?",
        ),
        "no out_proj": ("self.out_proj(heads", "(heads", "Does out_proj come last?"),
        "no mask": ("attention(q, k, v, key_padding_mask)", "attention(q, k, v)", "passed on?"),
        "no biases": (
            "self.v_proj = nn.Linear(d_model, d_model)",
            "self.v_proj = nn.Linear(d_model, d_model, bias=False)",
            "must register the parameters",
        ),
        "other names": ("out_proj", "o_proj", "must register the parameters"),
        "not refused": ("d_model % n_heads != 0", "False", "raise a ValueError in __init__"),
        "changed": ("q, k, v = [", "x += 1e-3; q, k, v = [", "changed x"),
        "zeros at the end": (
            "return self.out_proj(heads.transpose(1, 2).flatten(2))",
            "y = self.out_proj(heads.transpose(1, 2).flatten(2))\n"
            "        return y if key_padding_mask is None else "
            "y * (~key_padding_mask).any(1)[:, None, None]",
            "the bias of out_proj",
        ),
        "detached": ("proj(x).unflatten", "proj(x).detach().unflatten", "got no gradient"),
        "nothing returned": ("return self.out_proj(", "y = self.out_proj(", "returned None"),
    },
}  # fmt: skip

LEAST = {"attention": 40, "MultiHeadAttention": 51}
