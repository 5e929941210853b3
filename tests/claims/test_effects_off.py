"""The tests of claims fail when the effect that they claim is turned off.

Each function here takes the test of a claim as it stands, switches the effect off underneath it,
and demands that its assertions notice. So a test of a claim cannot pass by itself. The chapter
"Why BatchNorm works" does the same in its own file.
"""

from __future__ import annotations

from torch import nn
from torch.nn import functional as F

from . import (
    notices,
    test_attention,
    test_batchnorm,
    test_family,
    test_layernorm,
    test_rmsnorm,
    test_why_normalize,
)


def untouched(x, *rest, **options):
    """In place of a normalization: gives its input back."""
    return x


# -- why normalize ---------------------------------------------------------------------------------


def test_c117_fails_without_standardizing(monkeypatch):
    monkeypatch.setattr(test_why_normalize.reference, "standardize", untouched)
    notices(test_why_normalize.test_c117_equal_scales_turn_ten_thousands_of_steps_into_a_handful)


def test_c086_fails_without_whitening(monkeypatch):
    standardize = test_why_normalize.reference.standardize
    monkeypatch.setattr(
        test_why_normalize.reference, "whiten", lambda x, eps: standardize(x, 0, eps)
    )
    notices(test_why_normalize.test_c086_whitening_removes_the_correlation_that_standardizing_keeps)


# -- BatchNorm -------------------------------------------------------------------------------------


def test_c093_fails_without_running_statistics(monkeypatch):
    batch_norm = F.batch_norm

    def of_the_batch(x, mean, var, weight, bias, training, momentum, eps):
        return batch_norm(x, None, None, weight, bias, True, momentum, eps)

    monkeypatch.setattr(F, "batch_norm", of_the_batch)
    notices(test_batchnorm.test_c043_c093_in_evaluation_the_neighbours_do_not_matter)


def test_c015_fails_without_batchnorm(monkeypatch):
    monkeypatch.setitem(test_batchnorm.experiments.NORMS, "BatchNorm", lambda width: nn.Identity())
    notices(test_batchnorm.test_c015_it_learns_faster_at_the_same_rate)


# -- LayerNorm -------------------------------------------------------------------------------------


def test_c141_fails_without_eps(monkeypatch):
    layer_norm = F.layer_norm
    monkeypatch.setattr(F, "layer_norm", lambda x, shape, eps: layer_norm(x, shape, eps=0.0))
    notices(test_layernorm.test_c028_c141_eps_shrinks_small_inputs)


def test_c139_fails_without_layer_norm(monkeypatch):
    monkeypatch.setattr(F, "layer_norm", untouched)
    notices(test_layernorm.test_c134_c139_blocks_see_one_while_the_stream_grows)


# -- the family ------------------------------------------------------------------------------------


def test_c123_fails_without_statistics_of_each_image(monkeypatch):
    monkeypatch.setattr(
        F, "instance_norm", lambda x, eps=1e-5: F.batch_norm(x, None, None, training=True, eps=eps)
    )
    notices(test_family.test_c123_instance_norm_forgets_contrast_and_level_of_each_channel)


def test_c125_fails_without_the_right_axes(monkeypatch):
    normalize = test_family.reference.normalize
    monkeypatch.setattr(
        test_family.reference, "normalize", lambda x, dims, eps: normalize(x, (-2, -1), eps)
    )
    notices(test_family.test_c125_c129_one_function_makes_all_four)


# -- RMSNorm ---------------------------------------------------------------------------------------


def test_c053_fails_without_seeing_the_mean(monkeypatch):
    monkeypatch.setattr(
        test_rmsnorm.reference,
        "rms_norm",
        lambda x, weight, eps: F.layer_norm(x, x.shape[-1:], weight, eps=eps),
    )
    notices(test_rmsnorm.test_c053_rmsnorm_is_layer_norm_of_centred_rows_and_sees_shifts)


def test_n14_fails_without_centred_writers(monkeypatch):
    monkeypatch.setattr(test_rmsnorm.experiments, "centre_what_is_written", untouched)
    notices(test_rmsnorm.test_n14_centring_the_writers_turns_layer_norm_into_rmsnorm)


# -- attention -------------------------------------------------------------------------------------


def test_c173_fails_with_a_mask_that_does_nothing(monkeypatch):
    attention = test_attention.reference.attention
    monkeypatch.setattr(
        test_attention.reference, "attention", lambda q, k, v, mask=None: attention(q, k, v)
    )
    notices(
        test_attention.test_c173_without_a_mask_real_words_change_and_padded_ones_are_never_zeros
    )


def test_c172_fails_without_blocks(monkeypatch):
    attend = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda q, k, v, attn_mask=None: attend(q, k, v)
    )
    notices(test_attention.test_c172_packed_sentences_need_no_padding)


def test_c173_fails_when_both_readers_use_the_mask(monkeypatch):
    reader = test_attention.experiments.Reader
    monkeypatch.setattr(test_attention.experiments, "Reader", lambda masked: reader(True))
    test_attention.experiments.train.cache_clear()
    notices(test_attention.test_c173_a_reader_trained_without_the_mask_is_much_worse)
    test_attention.experiments.train.cache_clear()
