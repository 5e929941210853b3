"""What the general tests expect of the assignment `rmsnorm`."""

# Survivors that a test could not or should not tell from the reference, and why.
_PROMOTED = "torch widens it in the next operation anyway"
_WIDER = "computing wider than asked is right too"
_ORDER = "the order in a membership test, a max or a product does not matter"
_SECOND = "gradients of gradients are not asked for"
_TUPLE = "(torch.float16, torch.bfloat16) -> (torch.bfloat16, torch.float16)"


def _equivalent(exercise: str, *widened: str) -> dict[tuple[str, str], str]:
    """For an exercise that widens x and the parameters `widened` when x is of a half type."""
    same = {(exercise, _TUPLE): _ORDER, (exercise, "x.float -> x.double"): _WIDER}
    for name in widened:
        same[exercise, f"{name}.float() -> {name}"] = _PROMOTED
        same[exercise, f"{name}.float -> {name}.double"] = _WIDER
    return same


EXPLAINED = {
    **_equivalent("rms_norm", "weight"),
    **_equivalent("rms_norm_backward", "grad_out", "weight"),
    **{
        ("rms_norm_backward", f"{name}.{cast} -> {name}.detach().{cast}"): _SECOND
        for name, cast in (
            ("grad_out", "float()"),
            ("x", "float()"),
            ("weight", "float()"),
            ("grad_x", "to(x_dtype)"),
            ("grad_weight", "to(weight_dtype)"),
        )
    },
    **_equivalent("partial_rms_norm", "weight"),
    (
        "partial_rms_norm",
        "max(1, int(fraction * x.shape[-1])) -> max(int(fraction * x.shape[-1]), 1)",
    ): _ORDER,
    **_equivalent("scale_norm", "g"),
    **_equivalent("ada_norm"),
    **_equivalent("AdaLayerNorm", "shift", "scale"),
    **_equivalent("DynamicTanh", "alpha", "weight", "bias"),
    (
        "DynamicTanh",
        "(x.float(), alpha.float(), weight.float(), bias.float()) -> "
        "(alpha.float(), x.float(), weight.float(), bias.float())",
    ): _ORDER,
    ("DynamicTanh", "x.float() -> x"): _PROMOTED,
    ("DynamicTanh", "float(alpha) -> alpha"): "alpha is a float, so the docstring says",
}

_HALF = ("torch.bfloat16):", ") and False:", "in float32?")

# exercise: {mistake: (text of the solution, text that replaces it, part of the message)}
MISTAKES = {
    "rms_norm": {
        "sum of squares": ("x.square().mean(", "x.square().sum(", "not their sum"),
        "eps outside the root": (
            "torch.rsqrt(mean_square + eps)",
            "1 / (mean_square.sqrt() + eps)",
            "eps inside the square root",
        ),
        "eps ignored": ("mean_square + eps", "mean_square + 1e-6", "eps inside the square root"),
        "centered": (
            "mean_square = x.square()",
            "x = x - x.mean(dim=-1, keepdim=True)\n    mean_square = x.square()",
            "nothing subtracted",
        ),
        "batch axis": ("dim=-1", "dim=0", "over the last dimension"),
        "no weight": ("x * rstd * weight", "x * rstd", "normalized * weight"),
        "unit offset": ("rstd * weight", "rstd * (1 + weight)", "must be [0.5, 0.5]"),
        "input changed": ("x * rstd * weight", "x.mul_(rstd) * weight", "changed its input"),
        "result always float32": (".to(dtype)", ".float()", "the result must be too"),
        "no float32 for half types": _HALF,
        "nothing returned": ("return (", "y = (", "returned None"),
    },
    "rms_norm_backward": {
        "no x_hat term": ("g_hat - x_hat * mean_gx", "g_hat", "must be"),
        "mean term of layer norm": (
            "g_hat - x_hat",
            "g_hat - g_hat.mean(dim=-1, keepdim=True) - x_hat",
            "must be",
        ),
        "weight forgotten": ("g_hat = grad_out * weight", "g_hat = grad_out", "Is weight applied"),
        "weight after the mean": (
            "g_hat = grad_out * weight",
            "g_hat, rstd = grad_out, rstd * weight",
            "Is weight applied before",
        ),
        "eps outside the root": (
            "torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)",
            "1 / (x.square().mean(dim=-1, keepdim=True).sqrt() + eps)",
            "eps inside the root",
        ),
        "weight gradient without x_hat": ("(grad_out * x_hat)", "grad_out", "grad_weight is wrong"),
        "weight gradient not reduced": (
            ".reshape(-1, x.shape[-1]).sum(dim=0)",
            ".sum(dim=0)",
            "grad_weight must have shape",
        ),
        "upstream gradient changed": ("grad_out * weight", "grad_out.mul_(weight)", "grad_out"),
        "one value": ("return grad_x.to(x_dtype), ", "return ", "two tensors"),
    },
    "RMSNorm": {
        "weight starts as zeros": ("torch.ones(d", "torch.zeros(d", "weight must start as ones"),
        "not registered": ("nn.Parameter(torch.ones(d_model))", "torch.ones(d_model)", "register"),
        "scalar weight": ("torch.ones(d_model)", "torch.ones(1)", "of shape (d_model,)"),
        "eps ignored": ("self.eps)", "1e-6)", "Is eps used?"),
        "torch's default of layer norm": ("eps: float = 1e-6", "eps: float = 1e-5", "default eps"),
        "weight not used": ("self.weight,", "torch.ones_like(self.weight),", "another weight"),
        "weight not trained": ("(x, self.weight", "(x, self.weight.data", "no gradient can reach"),
        "another name": ("self.weight", "self.gamma", "one parameter, weight"),
        "float32 result": ("return rms_norm(x,", "return rms_norm(x.float(),", "bfloat16"),
    },
    "partial_rms_norm": {
        "all features": ("x[..., :k]", "x", "the first two features"),
        "last features": ("x[..., :k]", "x[..., -k:]", "the first two features"),
        "divided by D": (
            ".mean(dim=-1, keepdim=True)",
            ".sum(dim=-1, keepdim=True) / x.shape[-1]",
            "divided by 2",
        ),
        "rounded up": ("int(fraction * x.shape[-1])", "-int(-fraction * x.shape[-1] // 1)", "down"),
        "none left": ("max(1, int(fraction * x.shape[-1]))", "int(fraction * x.shape[-1])", "one"),
        "only k returned": (
            "(x * rstd * weight)",
            "(x * rstd * weight)[..., :k]",
            "must have shape",
        ),
        "no float32 for half types": _HALF,
    },
    "scale_norm": {
        "mean instead of sum": (
            "length = x.norm(dim=-1, keepdim=True)",
            "length = x.square().mean(dim=-1, keepdim=True).sqrt()",
            "not of the mean",
        ),
        "eps added": ("length.clamp(min=eps)", "(length + eps)", "only a lower limit"),
        "eps ignored": ("length.clamp(min=eps)", "length", "shorter than eps"),
        "over the batch": ("dim=-1", "dim=0", "must become [6, 8]"),
        "g forgotten": ("(g * x", "(x", "must become [6, 8]"),
        "g without gradient": ("(g * x", "(g.item() * x", "no gradient can reach g"),
        "result always float32": (".to(dtype)", ".float()", "the result must be too"),
    },
    "ada_norm": {
        "not detached": (".detach()", "", "detached"),
        "all detached": ("(factor * y)", "(factor * y).detach()", "the whole result"),
        "y detached": ("(factor * y)", "(factor * y.detach())", "the whole result"),
        "plus": ("1 - k * y", "1 + k * y", "c * (1 - k * y)"),
        "c forgotten": ("c * (1 - k * y)", "1 - k * y", "c * (1 - k * y)"),
        "not centered": ("x - x.mean(dim=-1, keepdim=True)", "x", "plain layer norm"),
        "unbiased variance": (
            "centered.square().mean(dim=-1, keepdim=True)",
            "x.var(dim=-1, keepdim=True)",
            "the biased one",
        ),
        "eps outside the root": (
            "torch.rsqrt(var + eps)",
            "1 / (var.sqrt() + eps)",
            "eps inside the square root",
        ),
        "no float32 for half types": _HALF,
    },
    "AdaLayerNorm": {
        "random start": ("        nn.init.zeros_(self.modulation.weight)\n", "", "start as zeros"),
        "scale without one": ("(1 + scale)", "scale", "the factor is 1 + scale"),
        "halves swapped": ("shift, scale = self", "scale, shift = self", "the first half"),
        "silu forgotten": ("F.silu(cond)", "cond", "silu"),
        "lined up with tokens": (".unsqueeze(1)", "", "not with the tokens"),
        "another name": ("self.modulation", "self.linear", "those of modulation"),
        "rms": ("x - x.mean(dim=-1, keepdim=True)", "x", "plain layer norm"),
        "eps ignored": ("var + self.eps", "var + 1e-6", "eps=3.0"),
        "float32 result": (".to(dtype)", ".float()", "bfloat16"),
    },
    "DynamicTanh": {
        "alpha outside": ("torch.tanh(alpha * x)", "alpha * torch.tanh(x)", "tanh(alpha * x)"),
        "alpha fixed": ("float(alpha))", "0.5)", "as the argument"),
        "alpha not trained": (
            "nn.Parameter(torch.full((1,), float(alpha)))",
            "torch.full((1,), float(alpha))",
            "must register alpha",
        ),
        "another default": ("alpha: float = 0.5", "alpha: float = 1.0", "must start as 0.5"),
        "weight starts as zeros": ("torch.ones(d", "torch.zeros(d", "weight must start as ones"),
        "bias before weight": ("* weight + bias", "+ bias * weight", "other parameters"),
        "parameters not trained": (
            "self.alpha, self.weight, self.bias\n",
            "self.alpha, self.weight.data, self.bias.data\n",
            "got no gradient",
        ),
        "float32 result": (".to(dtype)", ".float()", "bfloat16"),
    },
}

LEAST = {
    "rms_norm": 20, "rms_norm_backward": 20, "RMSNorm": 15, "partial_rms_norm": 15,
    "scale_norm": 18, "ada_norm": 18, "AdaLayerNorm": 20, "DynamicTanh": 14,
}  # fmt: skip
