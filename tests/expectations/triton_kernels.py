"""What the general tests expect of the assignment `triton_kernels`."""

# Tests that ask what kernels do, beside right values: misconceptions are plain torch, and must be
# rejected by the others.
NOT_FOR_MISCONCEPTIONS = {
    "test_kernel_at_work", "test_x_is_read_once", "test_x_and_grad_out_are_read_once",
    "test_no_number_is_written_twice", "test_x_and_residual_are_read_once",
}  # fmt: skip

# Survivors that a test could not or should not tell from the reference, and why.
_AXIS = "a block has one axis only"
_DEVICE = "there is no GPU where tests run"
_DEFAULT = "float32 is torch's default"
_PROMOTED = "the next operation widens it anyway"
_MASKED = "lanes beyond the row are not stored, or set to 0 afterwards"
_NARROW = "a GPU's compiler refuses the loop; the interpreter widens, as Python would"
_PROGRAMS = "any number of programs is right"
_FAR = "only an output of 2**31 numbers would show it"
_SAME = "a sum of two, both of one shape"


def _survivors() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}

    def explain(exercise: str, reason: str, *changes: str) -> None:
        found.update({(exercise, change): reason for change in changes})

    # Sums without an axis, tensors without dtype or device: (sums, tensors of x's dtype, float32).
    y = "torch.empty(x.shape, dtype=x.dtype, device=x.device)"
    row = "torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)"
    partial = "torch.empty(programs, D, dtype=torch.float32, device=x.device)"
    for exercise, sums, of_x, of_row in (
        ("row_sum", ["x"], 0, 1),
        ("layer_norm_forward", ["x", "centered * centered"], 1, 2),
        ("layer_norm_backward", ["g_hat", "g_hat * x_hat"], 1, 0),
        ("rms_norm_forward", ["x * x"], 1, 1),
        ("add_layer_norm", ["s", "centered * centered"], 2, 2),
    ):
        for text in sums:
            explain(exercise, _AXIS, f"tl.sum({text}, axis=0) -> tl.sum({text})")
        explain(exercise, _AXIS, "axis=0 -> axis=-1")
        empty = [(y, of_x), (row, of_row), (partial, 2 * (exercise == "layer_norm_backward"))]
        for tensor, count in empty:
            for suffix in ["", " [2]"][:count]:
                there = tensor.replace(", device=x.device", "")
                explain(exercise, _DEVICE, f"{tensor} -> {there}{suffix}")
                if "torch.float32" in tensor:
                    default = tensor.replace("dtype=torch.float32, ", "")
                    explain(exercise, _DEFAULT, f"{tensor} -> {default}{suffix}")
    for exercise in ("layer_norm_forward", "layer_norm_backward", "add_layer_norm"):
        explain(exercise, _AXIS, "axis=0 -> axis=-1 [2]")

    # Loads of what is widened or masked anyway.
    masked = "mask=mask, other=0.0)"
    for exercise, pointers in (
        ("layer_norm_forward", ["weight_ptr + cols", "bias_ptr + cols"]),
        ("rms_norm_forward", ["weight_ptr + cols"]),
        ("add_layer_norm", ["weight_ptr + cols", "bias_ptr + cols"]),
        ("layer_norm_backward", ["x_ptr + row * x_stride + cols"]),
    ):
        for pointer in pointers:
            load = f"tl.load({pointer}, {masked}"
            explain(exercise, _PROMOTED, f"{load}.to(tl.float32) -> {load}")
            explain(exercise, _MASKED, f"{load} -> tl.load({pointer}, mask=mask)")
    for exercise, pointer in (
        ("layer_norm_backward", "weight_ptr + cols"),
        ("add_layer_norm", "x_ptr + row * x_stride + cols"),
        ("add_layer_norm", "r_ptrs"),
    ):
        load = f"tl.load({pointer}, {masked}"
        explain(exercise, _PROMOTED, f"{load}.to(tl.float32) -> {load}")

    explain("row_sum", "kernels have no graph", "return out -> return out.detach()")
    explain("layer_norm_backward", "kernels have no graph", *(
        f"{name}.to(weight.dtype) -> {name}.detach().to(weight.dtype)"
        for name in ("grad_weight", "grad_bias")
    ))  # fmt: skip
    explain("layer_norm_backward", _NARROW, "[BLOCK] -> []", "[BLOCK] -> [] [2]",
            "tl.float32 -> tl.float16", "tl.float32 -> tl.float16 [2]")  # fmt: skip
    explain("layer_norm_backward", _FAR, "row * D -> i * D", "mean_ptr + row -> mean_ptr + i",
            "rstd_ptr + row -> rstd_ptr + i")  # fmt: skip
    explain("layer_norm_backward", _PROGRAMS, *(
        f"min(M, 128) -> {other}" for other in ("M", "min(128, M)", "min(M, 129)", "min(M, 127)")
    ))  # fmt: skip
    explain("add_layer_norm", _SAME, "x_rows.shape -> r_rows.shape",
            "(as_rows(x), as_rows(residual)) -> (as_rows(residual), as_rows(x))")  # fmt: skip
    return found


EXPLAINED = _survivors()

# exercise: {mistake: (text of the solution, text that replaces it, part of the message)}
MISTAKES = {
    "row_sum": {
        "same row in every program": ("row * x_stride + ", "", "its own row"),
        "mean": ("tl.sum(x, axis=0)", "tl.sum(x, axis=0) / D", "add up to 10"),
        "added in half": ("other=0.0).to(tl.float32)", "other=0.0)", "float32"),
        "lanes filled with 1": ("other=0.0", "other=1.0", "beyond D"),
        "last column lost": ("cols < D", "cols < D - 1", "add up to 10"),
        "float16 result": ("dtype=torch.float32", "dtype=x.dtype", "float32"),
        "flat": ("torch.empty(x.shape[:-1]", "torch.empty((M, 1)", "2 sums"),
    },
    "layer_norm_forward": {
        "lanes in the variance": ("tl.where(mask, x - mean, 0.0)", "x - mean", "lanes beyond D"),
        "divided by BLOCK": ("tl.sum(x, axis=0) / D", "tl.sum(x, axis=0) / BLOCK", "not by BLOCK"),
        "unbiased": ("centered, axis=0) / D", "centered, axis=0) / (D - 1)", "not D - 1"),
        "eps outside the root": (
            "tl.rsqrt(var + eps)", "1 / (tl.sqrt(var) + eps)", "inside the square root",
        ),
        "std saved": ("rstd_ptr + row, rstd)", "rstd_ptr + row, 1 / rstd)", "its rstd"),
        "no weight": ("if weight_ptr is not None", "if False", "where weight"),
        "bias needs a weight": (
            "if bias_ptr is not None:", "if bias_ptr is not None and weight_ptr is not None:",
            "where bias is given",
        ),
        "statistics in half": ("rstd = torch.empty(x.shape[:-1], dtype=torch.float32",
                               "rstd = torch.empty(x.shape[:-1], dtype=x.dtype",
                               "rstd must be float32"),
        "over x": ("    return y, mean", "    x.copy_(y)\n    return y, mean", "changed its input"),
        "layout of x": ("torch.empty(x.shape, dtype=x.dtype, device=x.device)",
                        "torch.empty_like(x)", "transposed"),
        "flat statistics": ("mean = torch.empty(x.shape[:-1]", "mean = torch.empty((M,)",
                            "one mean per row"),
    },
    "layer_norm_backward": {
        "one row for each program": (
            "for i in range(program, M, tl.num_programs(0)):",
            "for i in range(program, program + 1):",
            "all of its rows",
        ),
        "last row only": ("grad_bias += g", "grad_bias = g", "grad_bias is wrong"),
        "one partial row": ("partial_bias.sum(dim=0)", "partial_bias[0]", "grad_bias is wrong"),
        "no x_hat": ("grad_weight += g * x_hat", "grad_weight += g", "grad_weight is wrong"),
        "no mean term": ("g_hat - mean_g - x_hat", "g_hat - x_hat", "add up to 0"),
        "no x_hat term": (" - x_hat * mean_gx)", ")", "grad_x is wrong"),
        "divided by BLOCK": ("tl.sum(g_hat, axis=0) / D", "tl.sum(g_hat, axis=0) / BLOCK",
                             "divided by D"),
        "no weight": ("g * tl.load(weight_ptr", "g + 0 * tl.load(weight_ptr", "grad_x is wrong"),
        "grad_out modified": (
            "    programs = min", "    grad_out.mul_(2)\n    programs = min", "changed grad_out",
        ),
        "half sums": ("torch.empty(programs, D, dtype=torch.float32",
                      "torch.empty(programs, D, dtype=x.dtype", "partial sums float32"),
        "zeros for None": ("return grad_x, None, grad_bias", "return grad_x, grad_bias, grad_bias",
                           "return None for it"),
        "two results": ("return grad_x, grad_weight.to(weight.dtype), ", "return grad_x, ",
                        "three values"),
    },
    "rms_norm_forward": {
        "mean subtracted": (
            "    mean_square =", "    x = tl.where(mask, x - tl.sum(x, axis=0) / D, 0.0)\n"
            "    mean_square =", "without subtracting a mean",
        ),
        "divided by BLOCK": ("axis=0) / D", "axis=0) / BLOCK", "divided by D"),
        "sum": ("axis=0) / D", "axis=0)", "mean of the squares"),
        "eps outside the root": (
            "tl.rsqrt(mean_square + eps)", "1 / (tl.sqrt(mean_square) + eps)", "inside the root",
        ),
        "layout of x": ("torch.empty(x.shape, dtype=x.dtype, device=x.device)",
                        "torch.empty_like(x)", "transposed"),
        "not in float32": (".to(tl.float32)\n\n", "\n\n", "in float32"),
        "only y": ("return y, rstd", "return y", "two tensors"),
    },
    "add_layer_norm": {
        "rounded sum": (
            "    mean = tl.sum(s, axis=0) / D",
            "    s = s.to(s_ptr.dtype.element_ty).to(tl.float32)\n    mean = tl.sum(s, axis=0) / D",
            "before it is rounded",
        ),
        "norm of x": ("mean = tl.sum(s, axis=0)", "mean = tl.sum(x, axis=0)", "of the sum"),
        "s over x": ("    return y, s", "    x.copy_(s)\n    return y, s", "changed x"),
        "lanes in the variance": ("tl.where(mask, s - mean, 0.0)", "s - mean", "y is wrong"),
        "order": ("return y, s,", "return s, y,", "s is x + residual"),
        "three results": ("return y, s, mean, rstd", "return y, s, rstd", "four tensors"),
    },
}  # fmt: skip

LEAST = {
    "row_sum": 12, "layer_norm_forward": 26, "layer_norm_backward": 32, "rms_norm_forward": 24,
    "add_layer_norm": 20,
}  # fmt: skip
