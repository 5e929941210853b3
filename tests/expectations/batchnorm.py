"""What the general tests expect of the assignment `batchnorm`."""

# Survivors that a test could not or should not tell from the reference, and why.
_PROMOTED = "torch widens it in the next operation anyway"
_WIDER = "computing wider than asked is right too"
_SECOND = "gradients of gradients are not asked for"
_NO_GRADIENT = "no gradient of running statistics, or of what is folded, is asked for"
_ORDER = "the order in a membership test does not matter"
_TUPLE = "(torch.float16, torch.bfloat16) -> (torch.bfloat16, torch.float16)"
_DIMS = "[0, *range(2, x.dim())] -> [*range(2, x.dim()), 0]"
_AXES = "the order of axes that are averaged over does not matter"
_LEADING = "broadcasting adds the first axis by itself"
EXPLAINED = {
    ("batch_norm", _TUPLE): _ORDER,
    ("batch_norm", "x.float -> x.double"): _WIDER,
    ("batch_norm", "weight.float() -> weight"): _PROMOTED,
    ("batch_norm", "weight.float -> weight.double"): _WIDER,
    ("batch_norm", "bias.float() -> bias"): _PROMOTED,
    ("batch_norm", "bias.float -> bias.double"): _WIDER,
    ("batch_norm", "running_mean.to(x.dtype) -> running_mean"): _PROMOTED,
    ("batch_norm", "running_mean.to(x.dtype) -> running_mean.to()"): _PROMOTED,
    ("batch_norm", _DIMS): _AXES,
    ("batch_norm", "[1, -1] -> [-1]"): _LEADING,
    ("batch_norm_backward", _TUPLE): _ORDER,
    ("batch_norm_backward", _DIMS): _AXES,
    ("batch_norm_backward", "[1, -1] -> [-1]"): _LEADING,
    ("batch_norm_backward", "grad_out.float -> grad_out.double"): _WIDER,
    ("batch_norm_backward", "x.float -> x.double"): _WIDER,
    ("batch_norm_backward", "weight.float() -> weight"): _PROMOTED,
    ("batch_norm_backward", "weight.float -> weight.double"): _WIDER,
    ("fold_batch_norm", _TUPLE): _ORDER,
    ("fold_batch_norm", "weight.float -> weight.double"): _WIDER,
    (
        "fold_batch_norm",
        "torch.zeros_like(running_mean) -> torch.zeros_like(running_var)",
    ): "both have the same shape and dtype",
    **{
        (exercise, f"{name}.{cast} -> {name}.detach().{cast}"): reason
        for exercise, name, cast, reason in (
            ("batch_norm", "running_mean", "to(x.dtype)", _NO_GRADIENT),
            ("batch_norm", "running_var", "to(x.dtype)", _NO_GRADIENT),
            ("batch_norm_backward", "grad_out", "float()", _SECOND),
            ("batch_norm_backward", "x", "float()", _SECOND),
            ("batch_norm_backward", "weight", "float()", _SECOND),
            ("batch_norm_backward", "grad_x", "to(x_dtype)", _SECOND),
            ("batch_norm_backward", "grad_weight", "to(weight_dtype)", _SECOND),
            ("batch_norm_backward", "grad_bias", "to(weight_dtype)", _SECOND),
            ("fold_batch_norm", "weight", "float()", _NO_GRADIENT),
            ("fold_batch_norm", "running_mean", "to(weight.dtype)", _NO_GRADIENT),
            ("fold_batch_norm", "running_var", "to(weight.dtype)", _NO_GRADIENT),
            ("fold_batch_norm", "folded_weight", "to(dtype)", _NO_GRADIENT),
            ("fold_batch_norm", "folded_bias", "to(dtype)", _NO_GRADIENT),
        )
    },
}

# (mistake, what some test calls it instead, though it looks at too little to tell them apart)
_SWAPPED = "running-statistics-in-training+batch-statistics-in-evaluation"
ALIKE = {
    (_SWAPPED, "running-var-not-updated"),  # training changes nothing then
}

# exercise: {mistake: (text of the solution, text that replaces it, part of the message)}
_VAR = "var = (x - mean.view(shape)).square().mean(dim=dims)"
_ROOT = "torch.rsqrt(var + eps).view(shape)"
MISTAKES = {
    "batch_norm": {
        "unbiased variance": (_VAR, "var = x.var(dim=dims)", "divided by n, not n - 1"),
        "eps outside the root": (
            _ROOT,
            "(1 / (var.sqrt() + eps)).view(shape)",
            "eps inside the square root",
        ),
        "eps ignored": ("var + eps", "var + 1e-5", "eps inside the square root"),
        "one mean for all channels": (
            "mean = x.mean(dim=dims)",
            "mean = x.mean().expand(x.shape[1])",
            "over every axis but axis 1",
        ),
        "no affine": ("x_hat * weight.view(shape)", "x_hat", "normalized * weight + bias"),
        "not in place": (
            "running_mean.mul_(1 - momentum).add_(momentum * mean)",
            "running_mean = (1 - momentum) * running_mean + momentum * mean",
            "Is it changed in place?",
        ),
        "momentum reversed": (
            "running_mean.mul_(1 - momentum).add_(momentum * mean)",
            "running_mean.mul_(momentum).add_((1 - momentum) * mean)",
            "Does momentum weight the new value?",
        ),
        "biased running_var": (" * var * n / (n - 1)", " * var", "with the unbiased variances"),
        "update recorded": ("torch.no_grad()", "torch.enable_grad()", "torch.no_grad()"),
        "batch statistics in evaluation": (
            "mean, var = running_mean.to(x.dtype), running_var.to(x.dtype)",
            "mean, var = x.mean(dim=dims), x.var(dim=dims, correction=0)",
            "in evaluation",
        ),
        "one value accepted": ("n < 2", "n < 1", "must raise a ValueError"),
        "input changed": (
            "mean = x.mean(dim=dims)",
            "mean = x.mean(dim=dims); x -= mean.detach().view(shape)",
            "changed x",
        ),
        "no float32 for half types": ("torch.bfloat16):", ") and False:", "in float32?"),
        "result always float32": (".to(dtype)", ".float()", "the result must be too"),
        "a tuple returned": (".to(dtype)", ".to(dtype), running_mean", "nothing else"),
        "nothing returned": ("    return (", "    y = (", "returned None"),
    },
    "BatchNorm": {
        "plain buffers": (
            'self.register_buffer("running_mean", torch.zeros(num_features))',
            "self.running_mean = torch.zeros(num_features)",
            "registered as buffers",
        ),
        "no counter": (
            'self.register_buffer("num_batches_tracked", torch.tensor(0))',
            "self.num_batches_tracked = torch.tensor(0)",
            "num_batches_tracked",
        ),
        "variance starts at 0": (
            '"running_var", torch.ones',
            '"running_var", torch.zeros',
            "running_var must start as ones",
        ),
        "weight not registered": (
            "nn.Parameter(torch.ones(num_features))",
            "torch.ones(num_features)",
            "must register two parameters",
        ),
        "always training": ("self.training, momentum", "True, momentum", "in evaluation"),
        "never counted": ("self.num_batches_tracked += 1", "pass", "after one batch in training"),
        "counted in evaluation": ("if self.training:", "if True:", "may change in evaluation"),
        "no cumulative average": (
            "1 / self.num_batches_tracked.item()",
            "0.1",
            "must be the average",
        ),
        "eps ignored": ("momentum, self.eps)", "momentum, 1e-5)", "Is eps used?"),
        "parameters not trained": (
            "self.weight, self.bias, *",
            "self.weight.data, self.bias.data, *",
            "no gradient can reach",
        ),
    },
    "batch_norm_backward": {
        "no mean term": ("grad_out - mean_g - x_hat", "grad_out - x_hat", "must be"),
        "no x_hat term": (" - x_hat * mean_gx)", ")", "must be"),
        "statistics constant": ("(grad_out - mean_g - x_hat * mean_gx)", "grad_out", "must be"),
        "n without positions": (
            "n = x.numel() // x.shape[1]",
            "n = x.shape[0]",
            "must add up to 0",
        ),
        "weight forgotten": ("weight.view(shape) * rstd", "rstd", "multiplied by weight"),
        "eps outside the root": (
            "torch.rsqrt(centered.square().mean(dim=dims, keepdim=True) + eps)",
            "1 / (centered.square().mean(dim=dims, keepdim=True).sqrt() + eps)",
            "eps inside the root",
        ),
        "weight gradient without x_hat": (
            "(grad_out * x_hat).sum",
            "grad_out.sum",
            "must be",
        ),
        "bias gradient of one channel": (
            "grad_bias = grad_out.sum(dim=dims)",
            "grad_bias = grad_out.sum(dim=dims)[:1]",
            "must have shape",
        ),
        "upstream gradient changed": (
            "grad_bias = grad_out.sum(dim=dims)",
            "grad_bias = grad_out.mul_(1.5).sum(dim=dims)",
            "must be",
        ),
        "wrong order": ("return grad_x.to(x_dtype), ", "return ", "three tensors"),
    },
    "fold_batch_norm": {
        "factor on the last axis": (
            "scale.view([-1] + [1] * (weight.dim() - 1))",
            "scale",
            "row [3, 4]",
        ),
        "no root": ("torch.rsqrt(var + eps)", "1 / (var + eps)", "must be halved"),
        "mean not scaled": ("(bias - mean) * scale", "bias * scale - mean", "(1 - 3) / 2 + 5"),
        "bn_bias forgotten": (" * scale + bn_bias", " * scale", "the folded bias must be"),
        "eps forgotten": ("var + eps", "var", "Is eps used"),
        "bn_weight forgotten": ("bn_weight * torch", "torch", "gives other outputs"),
        "one result": ("folded_weight.to(dtype), ", "", "two tensors"),
        "weight changed": (
            "weight * scale.view([-1] + [1] * (weight.dim() - 1))",
            "weight.mul_(scale.view([-1] + [1] * (weight.dim() - 1)))",
            "changed weight",
        ),
    },
}

LEAST = {"batch_norm": 30, "BatchNorm": 30, "batch_norm_backward": 25, "fold_batch_norm": 18}
