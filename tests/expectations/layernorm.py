"""What the general tests expect of the assignment `layernorm`."""

# Survivors that a test could not or should not tell from the reference, and why.
_PROMOTED = "torch widens it in the next operation anyway"
_WIDER = "computing wider than asked is right too"
_SECOND = "gradients of gradients are not asked for"
_ORDER = "the order in a membership test does not matter"
_TUPLE = "(torch.float16, torch.bfloat16) -> (torch.bfloat16, torch.float16)"
EXPLAINED = {
    ("layer_norm", _TUPLE): _ORDER,
    ("layer_norm", "weight.float() -> weight"): _PROMOTED,
    ("layer_norm", "bias.float() -> bias"): _PROMOTED,
    ("layer_norm", "x.float -> x.double"): _WIDER,
    ("layer_norm", "weight.float -> weight.double"): _WIDER,
    ("layer_norm", "bias.float -> bias.double"): _WIDER,
    ("layer_norm_backward", _TUPLE): _ORDER,
    ("layer_norm_backward", "weight.float() -> weight"): _PROMOTED,
    ("layer_norm_backward", "grad_out.float -> grad_out.double"): _WIDER,
    ("layer_norm_backward", "x.float -> x.double"): _WIDER,
    ("layer_norm_backward", "weight.float -> weight.double"): _WIDER,
    **{
        ("layer_norm_backward", f"{name}.{cast} -> {name}.detach().{cast}"): _SECOND
        for name, cast in (
            ("grad_out", "float()"),
            ("x", "float()"),
            ("weight", "float()"),
            ("grad_x", "to(x_dtype)"),
            ("grad_weight", "to(weight_dtype)"),
            ("grad_bias", "to(weight_dtype)"),
        )
    },
}

# exercise: {mistake: (text of the solution, text that replaces it, part of the message)}
MISTAKES = {
    "layer_norm": {
        "unbiased variance": (
            "centered.square().mean(dim=-1, keepdim=True)",
            "x.var(dim=-1, keepdim=True)",
            "divided by D, not D - 1",
        ),
        "eps outside the root": (
            "torch.rsqrt(var + eps)",
            "1 / (var.sqrt() + eps)",
            "eps inside the square root",
        ),
        "eps ignored": ("var + eps", "var + 1e-5", "eps inside the square root"),
        "batch axis": ("dim=-1", "dim=0", "over the last dimension"),
        "all axes": ("mean(dim=-1, keepdim=True)", "mean()", "over the last dimension"),
        "no affine": ("x_hat * weight + bias", "x_hat", "normalized * weight + bias"),
        "affine first": (
            "centered = x - x.mean",
            "x = x * weight + bias\n    centered = x - x.mean",
            "normalized * weight + bias",
        ),
        "input changed": (
            "centered = x - x.mean(dim=-1, keepdim=True)",
            "centered = x.sub_(x.mean(dim=-1, keepdim=True))",
            "changed its input",
        ),
        "result always float32": (".to(dtype)", ".float()", "the result must be too"),
        "no float32 for half types": ("torch.bfloat16):", ") and False:", "in float32?"),
        "nothing returned": ("return (", "y = (", "returned None"),
    },
    "LayerNorm": {
        "weight starts as zeros": ("torch.ones(d", "torch.zeros(d", "weight must start as ones"),
        "bias starts as ones": ("torch.zeros(d", "torch.ones(d", "bias must start as zeros"),
        "not registered": ("nn.Parameter(torch.ones(d_model))", "torch.ones(d_model)", "register"),
        "scalar weight": ("torch.ones(d_model)", "torch.ones(1)", "of shape (d_model,)"),
        "eps ignored": ("self.eps)", "1e-5)", "Is eps used?"),
        "parameters not used": (
            "self.weight, self.bias, self.eps",
            "torch.ones_like(self.weight), torch.zeros_like(self.bias), self.eps",
            "after loading other parameters",
        ),
        "parameters not trained": (
            "self.weight, self.bias",
            "self.weight.data, self.bias.data",
            "no gradient can reach",
        ),
        "another name": ("self.weight", "self.gamma", "weight and bias"),
        "float32 result": ("return layer_norm(x,", "return layer_norm(x.float(),", "bfloat16"),
    },
    "layer_norm_backward": {
        "no mean term": ("g_hat - mean_g - x_hat", "g_hat - x_hat", "must be"),
        "no x_hat term": (" - x_hat * mean_gx)", ")", "must be"),
        "weight after the means": (
            "g_hat = grad_out * weight",
            "g_hat, rstd = grad_out, rstd * weight",
            "adding a constant",
        ),
        "weight forgotten": (
            "g_hat = grad_out * weight",
            "g_hat = grad_out",
            "weight applied before",
        ),
        "unbiased variance": (
            "centered.square().mean(dim=-1, keepdim=True)",
            "x.var(dim=-1, keepdim=True)",
            "must be",
        ),
        "eps outside the root": (
            "rstd = torch.rsqrt(centered.square().mean(dim=-1, keepdim=True) + eps)",
            "rstd = 1 / (centered.square().mean(dim=-1, keepdim=True).sqrt() + eps)",
            "eps inside the root",
        ),
        "weight gradient without x_hat": ("(grad_out * x_hat)", "grad_out", "grad_weight is wrong"),
        "weight gradient with the weight": (
            "(grad_out * x_hat)",
            "(grad_out * weight * x_hat)",
            "grad_weight is wrong",
        ),
        "bias gradient not reduced": (
            "grad_out.reshape(-1, d).sum(dim=0)",
            "grad_out.sum(dim=0)",
            "grad_bias must have shape",
        ),
        "bias gradient a scalar": ("grad_out.reshape(-1, d).sum(dim=0)", "grad_out.sum()", "shape"),
        "upstream gradient changed": ("grad_out * weight", "grad_out.mul_(weight)", "grad_out"),
        "wrong order": ("return grad_x.to(x_dtype), ", "return ", "three tensors"),
    },
}

LEAST = {"layer_norm": 20, "LayerNorm": 10, "layer_norm_backward": 20}
