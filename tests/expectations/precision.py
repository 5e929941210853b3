"""What the general tests expect of the assignment `precision`."""

# Survivors that a test could not or should not tell from the reference, and why.
_ORDER = "the order in a membership test does not matter"
_TUPLE = "(torch.float16, torch.bfloat16) -> (torch.bfloat16, torch.float16)"
_FIRST = "a mean that starts as any number of the vector is replaced by the first step"

EXPLAINED = {
    (
        "one_pass_var",
        "return mean_of_squares - square_of_mean -> "
        "return (mean_of_squares - square_of_mean).detach()",
    ): "no gradient is asked for",
    ("two_pass_var", _TUPLE): _ORDER,
    ("welford", _TUPLE): _ORDER,
    ("welford", "x.float() -> x.detach().float()"): "no gradient is asked for",
    ("welford", "torch.zeros_like(x[..., 0]) -> x[..., 0]"): _FIRST,
    ("welford", "(..., 0) -> (..., -1)"): "only its shape is used",
    ("welford", "torch.zeros_like(mean) -> mean"): "the mean is zeros there",
    ("layer_norm_low_precision", "x.float -> x.double"): "computing wider than asked is right too",
    ("prescaled_layer_norm", "min=1 -> min=2"): "any divisor near 1 will do for small vectors",
    (
        "prescaled_layer_norm",
        "torch.finfo(x.dtype) -> torch.finfo()",
    ): "what is tiny in float32 is far below any variance in float64, too",
    ("prescaled_layer_norm", "x.dtype -> centered.dtype"): "they are the same",
}

# exercise: {mistake: (text of the solution, text that replaces it, part of the message)}
MISTAKES = {
    "one_pass_var": {
        "widened": ("x.square()", "x.double().square()", "the result must be too"),
        "clamped": (
            "return mean_of_squares - square_of_mean",
            "return (mean_of_squares - square_of_mean).clamp(min=0)",
            "without a clamp",
        ),
        "reversed": (
            "mean_of_squares - square_of_mean",
            "square_of_mean - mean_of_squares",
            "is 5",
        ),
        "batch axis": ("dim=-1", "dim=0", "over the last axis"),
        "float32 for half types": (
            "mean_of_squares = x",
            "x = x.float()\n    mean_of_squares = x",
            "the result must be too",
        ),
        "widened and cast back": (
            "return mean_of_squares - square_of_mean",
            "h = x.float()\n    return (h.square().mean(-1) - h.mean(-1).square()).to(x.dtype)",
            "was x widened first?",
        ),
        "input changed": ("x.square()", "x.square_()", "5, the square of the mean"),
        "nothing returned": ("return ", "y = ", "returned None"),
    },
    "two_pass_var": {
        "one pass": (
            "centered.square().mean(dim=-1)",
            "x.square().mean(dim=-1) - x.mean(dim=-1).square()",
            "is the mean subtracted before",
        ),
        "unbiased": (
            "centered.square().mean(dim=-1)",
            "centered.square().sum(dim=-1) / (x.shape[-1] - 1)",
            "not D - 1",
        ),
        "batch axis": ("square().mean(dim=-1)", "square().mean(dim=0)", "over the last axis"),
        "axis kept": ("mean(dim=-1)", "mean(dim=-1, keepdim=True)", "one variance, of shape ()"),
        "no float32 for half types": ("torch.bfloat16):", ") and False:", "stays there"),
        "always float32": (
            "if x.dtype in (torch.float16, torch.bfloat16):",
            "if True:",
            "must be computed in float64",
        ),
        "input changed": ("x - x.mean(", "x.sub_(1) - x.mean(", "changed its input"),
        "nothing returned": ("return ", "y = ", "returned None"),
    },
    "welford": {
        "old deviation squared": ("(x[..., k] - mean)", "delta", "the old deviation times the new"),
        "new deviation squared": ("m2 + delta *", "m2 + (x[..., k] - mean) *", "the new one"),
        "count from zero": ("(k + 1)", "max(k, 1)", "delta divided by k + 1"),
        "sum returned": ("m2 / x.shape[-1]", "m2", "at the end divided by D"),
        "one pass": (
            "return mean, m2 / x.shape[-1]",
            "return mean, x.square().mean(dim=-1) - mean.square()",
            "are sums of squares used?",
        ),
        "one tensor": ("return mean, ", "return ", "must return two tensors"),
        "no float32 for half types": ("torch.bfloat16):", ") and False:", "must be float32"),
        "input changed": (
            "mean = torch.zeros_like(x[..., 0])",
            "mean = x[..., 0].zero_()",
            "the mean of [1, 3] is 2",
        ),
        "nothing returned": ("return ", "y = ", "returned None"),
    },
    "combine_moments": {
        "distance forgotten": (
            " + delta.square() * (count_a * count_b / count)",
            "",
            "add up to 26",
        ),
        "counts swapped": ("(count_b / count)", "(count_a / count)", "by B's share"),
        "half and half": ("(count_b / count)", "0.5", "by B's share"),
        "not divided": ("(count_a * count_b / count)", "(count_a * count_b)", "add up to 26"),
        "empty left not seen": ("if count_a == 0:", "if False:", "the mean of nothing is NaN"),
        "empty right not seen": ("if count_b == 0:", "if False:", "the mean of nothing is NaN"),
        "back to sums": (
            "m2_a + m2_b + delta.square() * (count_a * count_b / count)",
            "m2_a + m2_b + delta.square() * (count_a * count_b / count) * (1 + (count == 9))",
            "another M2 than the whole",
        ),
        "count of one": ("return count, ", "return count_a, ", "are three numbers"),
        "two values": ("return count, mean, m2", "return mean, m2", "(count, mean, M2)"),
        "nothing returned": ("return count", "y = count", "returned None"),
    },
    "layer_norm_low_precision": {
        "no float32": ("x = x.float()", "x = 1 * x", "mean and rstd float32?"),
        "eps in the half type": (
            "var + eps",
            "var + torch.tensor(eps).to(dtype)",
            "get lost on the way through float16",
        ),
        "eps outside the root": (
            "torch.rsqrt(var + eps)",
            "1 / (var.sqrt() + eps)",
            "is eps inside the root?",
        ),
        "unbiased": (
            "centered.square().mean(dim=-1, keepdim=True)",
            "x.var(dim=-1, keepdim=True)",
            "biased variance",
        ),
        "one pass": (
            "var = centered.square().mean(dim=-1, keepdim=True)",
            "var = (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2",
            "before anything is squared?",
        ),
        "squared in the half type": (
            "centered.square()",
            "centered.to(dtype).square()",
            "mean and rstd float32?",
        ),
        "cast before weight": (
            "torch.rsqrt(var + eps)",
            "torch.rsqrt(var + eps)\n    y = y.to(dtype)",
            "before scale and shift are done?",
        ),
        "no bias without weight": (
            "if bias is not None",
            "if weight is not None and bias is not None",
            "None means no scale, or no shift",
        ),
        "result always float32": (".to(dtype)", "", "the result must be too"),
        "input changed": ("centered = x", "x += 1; centered = x", "in-place"),
        "nothing returned": ("return ", "y = ", "returned None"),
    },
    "prescaled_layer_norm": {
        "eps not scaled": ("eps / s / s", "s * 0 + eps", "divided by the square of the s"),
        "eps divided by s": ("eps / s / s", "eps / s", "divided by the square of the s"),
        "eps is zero": (".clamp(min=torch.finfo(x.dtype).tiny)", "", "is the scaled eps 0?"),
        "not scaled": ("x = x / s", "s = torch.ones_like(s)", "divided by s before the mean?"),
        "mean before scaling": (
            "x = x / s",
            "x = (x - x.mean(dim=-1, keepdim=True)) / s",
            "divided by s before the mean?",
        ),
        "division by zero": (".clamp(min=1)", "", "zeros stay zeros"),
        "in float64": (
            "s = x.abs()",
            "x = x.double()\n    s = x.abs()",
            "the result must be too",
        ),
        "input changed": ("x = x / s", "x /= s", "changed its input"),
        "nothing returned": ("return ", "y = ", "returned None"),
    },
}

LEAST = {
    "one_pass_var": 13, "two_pass_var": 17, "welford": 22, "combine_moments": 16,
    "layer_norm_low_precision": 21, "prescaled_layer_norm": 17,
}  # fmt: skip
