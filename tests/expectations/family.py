"""What the general tests expect of the assignment `family`."""

# Survivors that a test could not or should not tell from the reference, and why.
_WIDER = "computing wider than asked is right too"
_ORDER = "the order in a membership test, or of axes that are averaged over, does not matter"
_TUPLE = "(torch.float16, torch.bfloat16) -> (torch.bfloat16, torch.float16)"
EXPLAINED = {
    **{(name, _TUPLE): _ORDER for name in ("normalize", "instance_norm", "group_norm")},
    **{(name, "x.float -> x.double"): _WIDER for name in ("normalize", "instance_norm")},
    ("group_norm", "x.float -> x.double"): _WIDER,
    ("SwitchableNorm2d", _TUPLE): _ORDER,
    ("SwitchableNorm2d", "x.float -> x.double"): _WIDER,
    **{
        (
            "SwitchableNorm2d",
            f"self.{name}.to(x.dtype).softmax(0) -> self.{name}.to(x.dtype).softmax(-1)",
        ): "the shares have one axis"
        for name in ("mean_weight", "var_weight")
    },
    ("SwitchableNorm2d", "(2, 3) -> (3, 2)"): _ORDER,
    ("SwitchableNorm2d", "(1, 2, 3) -> (2, 1, 3)"): _ORDER,
    ("SwitchableNorm2d", "(1, 2, 3) -> (1, 3, 2)"): _ORDER,
    ("SwitchableNorm2d", "(0, 2, 3) -> (2, 0, 3)"): _ORDER,
    ("SwitchableNorm2d", "(0, 2, 3) -> (0, 3, 2)"): _ORDER,
}

# exercise: {mistake: (text of the solution, text that replaces it, part of the message)}
_BIASED = "var = centered.square().mean(dim=dims, keepdim=True)"
_POSITIONS = "tuple(range(2, x.dim()))"
_GROUPS = "tuple(range(2, grouped.dim()))"
_INPUTS = "tuple(range(1, w.dim()))"
MISTAKES = {
    "normalize": {
        "unbiased variance": (
            _BIASED,
            "var = x.var(dim=dims, keepdim=True)",
            "divided by n, not n - 1",
        ),
        "eps outside the root": ("torch.rsqrt(var + eps)", "1 / (var.sqrt() + eps)", "eps inside"),
        "eps ignored": ("var + eps", "var + 1e-5", "eps inside the square root"),
        "dims ignored": ("dim=dims", "dim=-1", "over these axes together"),
        "one axis after the other": (
            "    dtype = x.dtype\n",
            "    dtype = x.dtype\n"
            "    if not isinstance(dims, int):\n"
            "        for d in dims[1:]:\n"
            "            x = normalize(x, d, eps)\n"
            "        dims = dims[0]\n",
            "over these axes together",
        ),
        "no mean": (
            "centered = x - x.mean(dim=dims, keepdim=True)",
            "centered = x - 0 * x.mean(dim=dims, keepdim=True)",
            "must have mean 0",
        ),
        "input changed": (
            "centered = x - x.mean(dim=dims, keepdim=True)",
            "centered = x.sub_(x.mean(dim=dims, keepdim=True))",
            "changed its input",
        ),
        "result always float32": (".to(dtype)", ".float()", "the result must be too"),
        "no float32 for half types": ("torch.bfloat16):", ") and False:", "in float32?"),
        "nothing returned": ("    return (", "    y = (", "returned None"),
    },
    "instance_norm": {
        "batch too": (_POSITIONS, "(0, *range(2, x.dim()))", "its own mean and variance"),
        "channels too": (_POSITIONS, "tuple(range(1, x.dim()))", "its own mean and variance"),
        "two axes only": (_POSITIONS, "(-2, -1)", "its own mean and variance"),
        "eps ignored": (", eps)", ", 1e-5)", "eps inside the square root"),
        "no bias": (" + bias.view(shape)", "", "normalized * weight + bias"),
        "affine first": (
            f"x_hat = normalize(x, {_POSITIONS}, eps)",
            "x_hat = normalize(x * weight.view(shape) + bias.view(shape), "
            "tuple(range(2, x.dim())), eps); weight, bias = weight * 0 + 1, bias * 0",
            "normalized * weight + bias",
        ),
        "no float32 result": (".to(dtype)", "", "the result must be too"),
    },
    "group_norm": {
        "stride": (
            "x.unflatten(1, (num_groups, -1))",
            "x.unflatten(1, (-1, num_groups)).transpose(1, 2)",
            "0 and 1 are one group",
        ),
        "size for number": (
            "(num_groups, -1)",
            "(x.shape[1] // num_groups, -1)",
            "are the groups neighbours?",
        ),
        "no positions": (_GROUPS, "(2,)", "are the groups neighbours?"),
        "batch too": (_GROUPS, "(0, *range(2, grouped.dim()))", "for each sample"),
        "eps ignored": (", eps)", ", 1e-5)", "eps inside the square root"),
        "not refused": ("if x.shape[1] % num_groups != 0:", "if False:", "raise a ValueError"),
        "no weight": ("x_hat * weight.view(shape)", "x_hat", "normalized * weight + bias"),
        "affine per group": (
            "weight.view(shape)",
            "weight[:: len(weight) // num_groups]"
            ".repeat_interleave(len(weight) // num_groups).view(shape)",
            "not to the groups",
        ),
        "no float32 result": (".to(dtype)", "", "the result must be too"),
    },
    "standardize_weight": {
        "outputs": (_INPUTS, "(0,)", "Is each row on its own?"),
        "everything": (_INPUTS, "tuple(range(w.dim()))", "Is each row on its own?"),
        "kernel only": (
            _INPUTS,
            "tuple(range(min(2, w.dim() - 1), w.dim()))",
            "one and the same number",
        ),
        "inputs only": (_INPUTS, "(1,)", "one and the same number"),
        "eps ignored": (", eps)", ", 1e-5)", "eps inside the root"),
        "length": (
            f"normalize(w, {_INPUTS}, eps)",
            "w / w.flatten(1).norm(dim=1).view([-1] + [1] * (w.dim() - 1))",
            "must become",
        ),
        "changed": ("return ", "return w.mul_(2) if w.dim() > 2 else ", "changed w"),
        "nothing returned": ("return ", "", "returned None"),
    },
    "SwitchableNorm2d": {
        "one set of shares": (
            "self.var_weight.to(x.dtype)",
            "self.mean_weight.to(x.dtype)",
            "each by its own softmax",
        ),
        "no softmax": (
            ".softmax(0), self.var_weight.to(x.dtype).softmax(0)",
            ", self.var_weight.to(x.dtype)",
            "Are the statistics mixed",
        ),
        "another order": (
            "[(2, 3), (1, 2, 3), (0, 2, 3)]",
            "[(1, 2, 3), (2, 3), (0, 2, 3)]",
            "Is the order instance, layer, batch?",
        ),
        "mixed statistics remembered": (
            "mean, var = means[2].flatten()",
            "mean, var = ((means[0] + means[1] + means[2]) / 3).mean(0).flatten()",
            "not the mixed one",
        ),
        "biased running variance": (" * n / (n - 1)", "", "unbiased batch variances"),
        "momentum reversed": (
            "self.running_mean.mul_(1 - self.momentum).add_(self.momentum * mean)",
            "self.running_mean.mul_(self.momentum).add_((1 - self.momentum) * mean)",
            "running_mean must go from",
        ),
        "plain buffers": (
            'self.register_buffer("running_mean", torch.zeros(num_features))',
            "self.running_mean = torch.zeros(num_features)",
            "registered as buffers",
        ),
        "shares start at 0": (
            "nn.Parameter(torch.ones(3))",
            "nn.Parameter(torch.zeros(3))",
            "mean_weight must start as ones",
        ),
        "always the batch": (
            "        else:\n            means",
            "        elif False:\n            means",
            "in evaluation",
        ),
        "eps ignored": ("var + self.eps", "var + 1e-5", "Is eps used?"),
        "shares not trained": (
            "self.mean_weight.to",
            "self.mean_weight.detach().to",
            "got no gradient",
        ),
    },
}  # fmt: skip

LEAST = {
    "normalize": 25,
    "instance_norm": 30,
    "group_norm": 35,
    "standardize_weight": 25,
    "SwitchableNorm2d": 44,
}
