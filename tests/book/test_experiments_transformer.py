"""The course's small Transformer: the formulas of its placements, its masks, its resumable runs."""

import json
import math

import pytest
import torch
from torch.nn import functional as F

from book.experiments.resumable import finished, resumable
from book.experiments.transformer import (
    BOUNDED,
    NORMS,
    PLACEMENTS,
    Block,
    CharModel,
    admin_init,
    corpus,
    evaluate,
    schedule,
    train,
    unigram_loss,
    windows,
)

torch.set_num_threads(1)


def block(placement, norm="layer", **options):
    torch.manual_seed(3)
    made = Block(8, 2, 16, norm=norm, placement=placement, **options).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, mean=0.3, std=0.5)
    return made.eval()


X = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_every_norm_and_placement_gives_a_finite_stream_and_no_token_sees_a_later_one(
    norm, placement
):
    made = block(placement, norm)
    changed = X.clone()
    changed[:, 3:] += 1
    y, z = made(X), made(changed)
    assert y.shape == X.shape and y.isfinite().all()
    assert torch.equal(y[:, :3], z[:, :3]) and not torch.equal(y[:, 3:], z[:, 3:])


def test_each_placement_computes_the_formula_beside_its_name():
    b = block("sandwich", layer=4)
    n1, n2, n1o, n2o, f, g = (
        b.norm1, b.norm2, b.norm1_out, b.norm2_out, b.attention, b.feed_forward,
    )  # fmt: skip
    s = X + n1o(f(n1(X)))
    assert torch.equal(b(X), s + n2o(g(n2(s))))
    written = {
        "post": lambda x, n, f: n(x + f(x)),
        "pre": lambda x, n, f: x + f(n(x)),
        "output-norm": lambda x, n, f: x + n(f(x)),
        "ln-scaling": lambda x, n, f: x + f(n(x) / 2),
    }
    for placement, formula in written.items():
        b.placement = placement
        assert torch.equal(b(X), formula(formula(X, n1, f), n2, g)), placement
    b.placement = "none"
    assert torch.equal(b(X), X + f(X) + g(X + f(X)))
    b.placement, h = "b2t", n1(X + f(X))
    assert torch.equal(b(X), n2(X + h + g(h)))
    b.placement, b.alpha = "deepnorm", 1.7
    h = n1(1.7 * X + f(X))
    assert torch.equal(b(X), n2(1.7 * h + g(h)))


def test_rezero_starts_as_the_identity_and_has_no_norm():
    made = Block(8, 2, 16, placement="rezero").double()
    assert torch.equal(made(X), X)
    assert not [name for name in made.state_dict() if "norm" in name]


def test_deepnorm_shrinks_the_weights_it_should_by_beta():
    torch.manual_seed(0)
    made = Block(256, 4, 256, placement="deepnorm", n_layers=32)
    made.init_weights("xavier")
    beta = 256**-0.25
    for name, gain in {
        "attention.q_proj": 1, "attention.k_proj": 1, "attention.v_proj": beta,
        "attention.out_proj": beta, "linear1": beta, "linear2": beta,
    }.items():  # fmt: skip
        std = made.get_submodule(name).weight.std().item()
        assert std == pytest.approx(gain / 16, rel=0.02), name
    assert made.alpha == pytest.approx(64**0.25)


def test_qk_norm_bounds_the_logits_and_a_soft_cap_bounds_them_too():
    x = 100 * X
    plain, normed, capped = (
        Block(8, 2, 16, placement=p).double().attention for p in ("pre", "qk-norm", "gemma2")
    )
    for attention in (plain, normed, capped):
        torch.nn.init.normal_(attention.q_proj.weight, std=3)
        torch.nn.init.normal_(attention.k_proj.weight, std=3)
    assert plain.logits(x).abs().max() > 1000
    assert normed.logits(x).abs().max() <= math.sqrt(4) + 1e-9
    assert capped.logits(x).abs().max() <= 50


def test_attention_with_a_cap_too_large_to_matter_is_plain_attention():
    capped = block("gemma2").attention
    y = capped(X)
    capped.cap = None
    assert not torch.allclose(y, capped(X), atol=1e-9)
    want, capped.cap = capped(X), 1e9
    assert torch.allclose(capped(X), want)


def test_admin_sets_omega_to_the_root_of_the_variance_written_before():
    torch.manual_seed(0)
    model = CharModel(20, d_model=32, n_layers=3, length=16, placement="admin")
    ids = torch.randint(20, (4, 16))
    admin_init(model, ids)
    omegas = [getattr(b, f"omega{i}")[0].item() for b in model.blocks for i in (1, 2)]
    assert omegas == sorted(omegas) and omegas[0] == pytest.approx(model.embed(ids).std().item())
    with torch.no_grad():
        second = model.embed(ids).var() + model.blocks[0].attention(model.embed(ids)).var()
    assert omegas[1] == pytest.approx(second.sqrt().item())


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_model_has_a_final_norm_where_the_stream_is_not_normalized(placement):
    model = CharModel(20, d_model=16, n_layers=2, placement=placement)
    wanted = placement not in (*BOUNDED, "none", "rezero")
    assert isinstance(model.final_norm, torch.nn.LayerNorm) == wanted
    ids = torch.randint(20, (2, 65))
    assert model.loss(ids).item() == pytest.approx(
        F.cross_entropy(model(ids[:, :-1]).reshape(-1, 20), ids[:, 1:].reshape(-1)).item()
    )


def test_the_learning_rate_rises_for_the_warm_up_and_then_falls_by_a_cosine():
    rate = [schedule(s, steps=100, warmup=20, cosine=True) for s in (1, 10, 20, 60, 100)]
    assert rate == pytest.approx([0.05, 0.5, 1, 0.5, 0])
    assert schedule(1, steps=100) == schedule(100, steps=100) == 1


def test_training_repeats_itself_and_beats_the_letter_frequencies():
    text = corpus()
    assert (text.train.max().item() + 1) <= text.vocabulary and 3 < unigram_loss(text.train) < 3.5

    def once():
        torch.manual_seed(0)
        model = CharModel(text.vocabulary, d_model=32, n_layers=2)
        losses = train(model, text.train, steps=60, lr=1e-2, warmup=10, seed=5)
        return losses, evaluate(model, text.validation, batches=2)

    (losses, (loss, accuracy)), again = once(), once()
    assert again == (losses, (loss, accuracy))
    assert losses[0] > 4 and loss < 2.9 and accuracy > 0.2
    window = windows(text.train, 4, 7, torch.Generator().manual_seed(0))
    assert window.shape == (4, 8)


def test_training_ends_when_the_loss_is_no_longer_a_number():
    torch.manual_seed(0)
    model = CharModel(20, d_model=16, n_layers=1, length=8)
    losses = train(model, torch.arange(200) % 20, steps=50, lr=1e8, optimizer="SGD", clip=None)
    assert len(losses) < 50 and not math.isfinite(losses[-1])


def test_runs_that_have_ended_are_not_run_again(tmp_path):
    path, calls = tmp_path / "runs.jsonl", []

    def run(lr, seed):
        calls.append((lr, seed))
        if (lr, seed) == (0.2, 0) and len(calls) == 2:
            raise KeyboardInterrupt
        return {"loss": float("nan") if seed else lr, "seeds": (seed, 1)}

    settings = [{"lr": lr, "seed": seed} for lr in (0.1, 0.2) for seed in (0, 1)]
    settings = [settings[0], settings[2], settings[1], settings[3]]
    with pytest.raises(KeyboardInterrupt):
        list(resumable(path, settings, run))
    with path.open("a") as file:
        file.write('{"setting": {"lr": 0.2, "se')  # cut short
    records = list(resumable(path, settings, run))
    assert calls == [(0.1, 0), (0.2, 0), (0.2, 0), (0.1, 1), (0.2, 1)]
    assert [r["setting"] for r in records] == settings
    assert records[2]["result"] == {"loss": None, "seeds": [1, 1]}
    assert records == finished(path)
    assert list(resumable(path, settings, run)) == records and len(calls) == 5
    assert all(json.loads(line) for line in path.read_text().splitlines() if "result" in line)
