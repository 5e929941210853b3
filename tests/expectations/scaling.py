"""What the general tests expect of the assignment `scaling`."""

# Survivors that a test could not or should not tell from the reference, and why.
_ORDER = "the order in a membership test does not matter"
_TUPLE = "(torch.float16, torch.bfloat16) -> (torch.bfloat16, torch.float16)"
_WIDER = "computing wider than asked is right too"
_GRADIENT = "no gradient is asked of what prepares data"


def _detached(exercise: str, result: str) -> dict[tuple[str, str], str]:
    return {(exercise, f"return {result} -> return {result}.detach()"): _GRADIENT}


_SCALED = "((x - low) / spread).to(dtype)"
_STDS = "torch.stack(stds)"
EXPLAINED = {
    **_detached("standardize", "(centered * torch.rsqrt(var + eps)).to(dtype)"),
    **_detached("min_max_scale", _SCALED),
    **_detached("whiten", "(scaled @ axes.T).to(dtype)"),
    **_detached("activation_stds", _STDS),
    ("min_max_scale", f"return {_SCALED} -> return {_SCALED}.clamp(-2, 2)"): (
        "the result lies between 0 and 1"
    ),
    ("activation_stds", f"return {_STDS} -> return {_STDS}.double()"): "it is float64 already",
    **{
        (exercise, f"{value}.{cast} -> {value}.detach().{cast}"): _GRADIENT
        for exercise, value, cast in (
            ("standardize", "x", "float()"),
            ("standardize", "(centered * torch.rsqrt(var + eps))", "to(dtype)"),
            ("min_max_scale", "x", "float()"),
            ("min_max_scale", "((x - low) / spread)", "to(dtype)"),
            ("whiten", "x", "float()"),
            ("whiten", "(scaled @ axes.T)", "to(dtype)"),
        )
    },
    ("saturated_fraction", "z.double() -> z.detach().double()"): "the result is a number",
    (
        "saturated_fraction",
        "(slope < threshold).double() -> (slope < threshold).detach().double()",
    ): "a comparison has no gradient",
    ("standardize", _TUPLE): _ORDER,
    ("standardize", "x.float -> x.double"): _WIDER,
    ("min_max_scale", _TUPLE): _ORDER,
    ("min_max_scale", "x.float -> x.double"): _WIDER,
    (
        "min_max_scale",
        "torch.where(spread > 0, spread, 1.0) -> torch.where(spread > 0, spread, 10.0)",
    ): "0 divided by anything is 0",
    ("whiten", _TUPLE): _ORDER,
    ("whiten", "x.float -> x.double"): _WIDER,
    ("whiten", "len(x) -> len(centered)"): "both have N rows",
}

LEAST = {
    "standardize": 20,
    "min_max_scale": 17,
    "whiten": 20,
    "saturated_fraction": 16,
    "activation_stds": 20,
}

# exercise: {mistake: (text of the solution, text that replaces it, part of the message)}
MISTAKES = {
    "standardize": {
        "unbiased variance": (
            "centered.square().mean(dim=dim, keepdim=True)",
            "x.var(dim=dim, keepdim=True)",
            "divided by n, not n - 1",
        ),
        "eps outside the root": (
            "torch.rsqrt(var + eps)",
            "1 / (var.sqrt() + eps)",
            "eps inside the square root",
        ),
        "eps ignored": ("var + eps", "var + 1e-5", "eps inside the square root"),
        "dim ignored": ("dim=dim", "dim=0", "dim=1"),
        "everything at once": ("mean(dim=dim, keepdim=True)", "mean()", "eps=3"),
        "other axis": ("dim=dim", "dim=1 - dim", "eps=3"),
        "mean not subtracted": ("(centered * torch", "(x * torch", "one of each per column"),
        "input changed": (
            "centered = x - x.mean",
            "centered = x; x -= x.mean",
            "changed its input",
        ),
        "result always float32": (".to(dtype)", ".float()", "the result must be too"),
        "no float32 for half types": ("torch.bfloat16):", ") and False:", "in float32?"),
        "nothing returned": ("return (", "y = (", "returned None"),
    },
    "min_max_scale": {
        "divided by the maximum": (
            "x.amax(dim=dim, keepdim=True) - low",
            "x.amax(dim=dim, keepdim=True)",
            "run from 0 to 1",
        ),
        "dim ignored": ("dim=dim", "dim=0", "dim=1"),
        "everything at once": ("(dim=dim, keepdim=True)", "()", "one of each per column"),
        "0 / 0": ("torch.where(spread > 0, spread, 1.0)", "spread", "equal numbers must become 0"),
        "eps": ("torch.where(spread > 0, spread, 1.0)", "spread + 1e-6", "the range alone"),
        "no float32 for half types": ("torch.bfloat16):", ") and False:", "in float32?"),
        "input changed": ("((x - low) / spread)", "(x.sub_(low) / spread)", "changed its input"),
    },
    "whiten": {
        "not turned back": ("(scaled @ axes.T)", "scaled", "turned back"),
        "only rotated": (
            "rotated * torch.rsqrt(variances + eps)",
            "rotated",
            "must be the identity",
        ),
        "divided by the variance": (
            "torch.rsqrt(variances + eps)",
            "1 / (variances + eps)",
            "root",
        ),
        "unbiased": ("/ len(x)", "/ (len(x) - 1)", "divided by N"),
        "eps outside the root": (
            "torch.rsqrt(variances + eps)",
            "1 / (variances.sqrt() + eps)",
            "inside the root",
        ),
        "eps ignored": ("variances + eps", "variances + 1e-6", "inside the root"),
        "covariance not centered": ("centered.T @ centered", "x.T @ x", "the mean of each"),
        "covariance of samples": (
            "cov = centered.T @ centered / len(x)",
            "cov = (centered @ centered.T / len(x))[:x.shape[1], :x.shape[1]]",
            "must be the identity",
        ),
        "input changed": (
            "centered = x - x.mean(dim=0)",
            "centered = x.sub_(x.mean(0))",
            "changed",
        ),
    },
    "saturated_fraction": {
        "count": (".double().mean()", ".sum()", "the share is 0.5"),
        "one end": ("slope < threshold", "torch.sigmoid(z) < threshold", "both ends"),
        "slope of tanh": (
            "torch.sigmoid(z) * torch.sigmoid(-z)",
            "1 - torch.tanh(z) ** 2",
            "s * (1 - s)",
        ),
        "equal counted": ("slope < threshold", "slope <= threshold", "not less than"),
        "digits lost": (
            "torch.sigmoid(z) * torch.sigmoid(-z)",
            "torch.sigmoid(z.float()) * (1 - torch.sigmoid(z.float()))",
            "hint 3",
        ),
    },
    "activation_stds": {
        "no relu": ("torch.relu(h @ weight.T)", "h @ weight.T", "a ReLU in every layer"),
        "not scaled": ("gain / width**0.5 * weight", "gain * weight", "gain / sqrt(width)"),
        "not transposed": ("weight.T", "weight", "h @ weight.T"),
        "float32": (", dtype=torch.float64", "", "must be float64"),
        "weights not new": (
            "for _ in range(depth):",
            "for _ in range(depth):\n        generator.manual_seed(seed)",
            "one weight per layer",
        ),
        "seed ignored": ("manual_seed(seed)", "manual_seed(0)", "is seed used?"),
        "global random state": (
            "torch.Generator().manual_seed(seed)",
            "torch.manual_seed(seed)",
            "global random state",
        ),
        "a list": ("torch.stack(stds)", "stds", "one tensor"),
    },
}
