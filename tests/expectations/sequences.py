"""What the general tests expect of the assignment `sequences`."""

# Survivors that a test could not or should not tell from the reference, and why.
_ORDER = "the order in a membership test does not matter"
_TUPLE = "(torch.float16, torch.bfloat16) -> (torch.bfloat16, torch.float16)"
_RETURN = "return position < lengths[:, None]"
_REPLACED = "any number may replace the padding before it is masked again"
EXPLAINED = {
    ("padding_mask", "torch.arange(max_len, device=lengths.device) -> torch.arange(max_len)"): (
        "the tests have one device"
    ),
    ("masked_mean_var", _TUPLE): _ORDER,
    ("padding_mask", f"{_RETURN} -> return (position < lengths[:, None]).detach()"): (
        "a mask has no gradient"
    ),
    (
        "padding_mask",
        f"{_RETURN} -> return (position < lengths[:, None]).bfloat16()"
        ".to((position < lengths[:, Non...",
    ): "bfloat16 holds True and False exactly",
    ("masked_batch_norm", "x.masked_fill(padding, 0) -> x.masked_fill(padding, 1)"): _REPLACED,
    ("masked_batch_norm", "x.masked_fill(padding, 0) -> x.masked_fill(padding, -1)"): _REPLACED,
    ("running_stat_distance", _TUPLE): _ORDER,
    ("running_stat_distance", "tokens.float() -> tokens.detach().float()"): (
        "no gradient of the distances is asked for"
    ),
    ("running_stat_distance", "running_mean is None -> running_var is None"): (
        "both are None at the same time"
    ),
}

# exercise: {mistake: (text of the solution, text that replaces it, part of the message)}
_TOKENS = "tokens = x[mask]  # (n, D): the real tokens only"
_VAR = "(tokens - mean).square().mean(dim=0)"
_STATISTICS = "masked_mean_var(tokens, mask)"
MISTAKES = {
    "padding_mask": {
        "inverted": ("position < lengths[:, None]", "position >= lengths[:, None]", "Is True the"),
        "one too many": ("position < lengths", "position <= lengths", "real at its first two"),
        "one too few": ("position < lengths", "position + 1 < lengths", "fills all five"),
        "transposed": (
            "position < lengths[:, None]",
            "position[:, None] < lengths",
            "need the shape (3, 5)",
        ),
        "floats": (
            "return position < lengths[:, None]",
            "return (position < lengths[:, None]).float()",
            "must have dtype bool",
        ),
        "as long as the longest": (
            "torch.arange(max_len,",
            "torch.arange(int(lengths.max()),",
            "six positions",
        ),
        "not refused": ("if ((lengths < 0)", "if False and ((lengths < 0)", "raise a ValueError"),
        "long ones accepted": (" | (lengths > max_len)", "", "raise a ValueError"),
        "nothing returned": ("return position", "position = position", "returned None"),
    },
    "masked_mean_var": {
        "padding counted": (_TOKENS, "tokens = x.flatten(0, -2)", "number of real tokens"),
        "divided by all places": (
            "tokens.mean(dim=0)  # (D,)\n    var",
            "tokens.sum(dim=0) / mask.numel()  # (D,)\n    var",
            "divided by the number of real tokens",
        ),
        "inverted": ("x[mask]", "x[~mask]", "number of real tokens"),
        "padding back": (
            _VAR,
            "(x.masked_fill(~mask[..., None], 0) - mean).square().flatten(0, -2).mean(dim=0)",
            "after the mean was subtracted",
        ),
        "unbiased": (_VAR, "tokens.var(dim=0)", "divided by n, not n - 1"),
        "per sentence": (
            _TOKENS,
            "tokens = torch.stack([s[m].mean(0) for s, m in zip(x, mask)])",
            "over all of them together",
        ),
        "NaN times zero": (
            "mean = tokens.mean(dim=0)",
            "mean = (x * mask[..., None]).flatten(0, -2).sum(0) / mask.sum()",
            "NaN times 0 is NaN",
        ),
        "half": ("x = x.float()", "pass", "must be float32"),
        "empty accepted": ("if len(tokens) == 0:", "if False:", "raise a ValueError"),
        "input changed": (
            _TOKENS,
            "x[~mask] = 7.0; tokens = x[mask]",
            "changed its input",
        ),
        "nothing returned": ("return mean, var", "pass", "returned None"),
    },
    "masked_batch_norm": {
        "padding counted": (
            _STATISTICS,
            "masked_mean_var(tokens, mask | True)",
            "left out of mean and variance",
        ),
        "eps ignored": ("var + eps", "var + 1e-5", "Is eps inside the square root?"),
        "eps outside the root": (
            "torch.rsqrt(var + eps)",
            "1 / (var.sqrt() + eps)",
            "Is eps inside the square root?",
        ),
        "per position": (
            "tokens - mean)",
            "tokens - mean * torch.ones(tokens.shape[:-1])[..., None].cumsum(0))",
            "one mean and one (biased) variance",
        ),
        "no bias": (" + bias", "", "normalized * weight + bias"),
        "no weight": (" * weight", "", "normalized * weight + bias"),
        "bias in the padding": (
            "(x_hat * weight + bias).masked_fill(padding, 0)",
            "(x_hat * weight + bias)",
            "padding must come out as 0",
        ),
        "replaced too late": (
            "tokens = x.masked_fill(padding, 0)",
            "tokens = x",
            "reached the gradient of weight",
        ),
        "detached": ("x.masked_fill(padding, 0)", "x.detach().masked_fill(padding, 0)", "detach"),
        "one token accepted": ("mask.sum() < 2", "mask.sum() < 1", "single real token"),
        "input changed": ("x.masked_fill(padding, 0)", "x.masked_fill_(padding, 1)", "changed its"),
        "no float32 result": (".to(x.dtype)", "", "the result must be too"),
    },
    "running_stat_distance": {
        "not divided": (" / d)\n        var_distance", ")\n        var_distance", "divided by D"),
        "no root": (
            "(mean - running_mean).square().sum().sqrt()",
            "(mean - running_mean).square().sum()",
            "the root of the sum of squares",
        ),
        "unbiased": (_VAR, "tokens.var(dim=0)", "divided by n, not n - 1"),
        "momentum reversed": (
            "0.9 * running_mean + 0.1 * mean",
            "0.1 * running_mean + 0.9 * mean",
            "weighted with 0.1",
        ),
        "not updated": ("running_mean = 0.9", "unused = 0.9", "weighted with 0.1"),
        "first batch counted": ("            continue\n", "", "the first has nothing"),
        "per sentence": (
            "batch.reshape(-1, d)",
            "(batch.mean(1) if batch.dim() > 2 else batch)",
            "over all tokens of all sentences",
        ),
        "half": ("tokens = tokens.float()", "pass", "must be float32"),
        "float64 lost": ("batch.reshape(-1, d)", "batch.reshape(-1, d).float()", "be float64"),
        "nothing returned": ("return torch.stack", "found = torch.stack", "returned None"),
    },
}  # fmt: skip

LEAST = {
    "padding_mask": 12,
    "masked_mean_var": 27,
    "masked_batch_norm": 43,
    "running_stat_distance": 28,
}
