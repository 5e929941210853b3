"""What the general tests expect of the assignment `rmsnorm`."""

EXPLAINED: dict[tuple[str, str], str] = {}

# Where a test looks at too little to tell two mistakes apart, the one declared first is named.
# (mistake, what some later test calls it instead)
ALIKE = {
    ("eps-forgotten", "eps-clamped"),  # far above the limit: the same output
    ("eps-hard-coded", "default-eps"),  # without an argument: the same
    ("one-plus-weight", "unit-offset"),  # once a weight is loaded: the same
    ("weight-not-trainable", "weight-detached"),  # no gradient either way
    ("alpha-without-axis", "alpha-not-trained"),  # no gradient of the right shape either way
    # Very short vectors: divided by the root of eps either way.
    ("eps-inside-root", "rms-instead-of-length"),
    ("eps-limits-the-square", "rms-instead-of-length"),
    ("eps-limits-the-square", "eps-inside-root"),
    ("default-alpha", "alpha-forgotten"),  # the output of a fresh module is that
}

MISTAKES: dict = {}

LEAST = {
    "rms_norm": 20, "rms_norm_backward": 20, "RMSNorm": 15, "partial_rms_norm": 15,
    "scale_norm": 18, "ada_norm": 18, "AdaLayerNorm": 20, "DynamicTanh": 14,
}  # fmt: skip
