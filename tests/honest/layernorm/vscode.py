# %% first: the path of one's own modules
import sys
from pathlib import Path

sys.path.append("..")
sys.path.insert(0, str(Path.cwd().parent))
sys.path.append(os.path.join(os.path.dirname("__file__"), ".."))

# %% first: logging and warnings
import logging
import warnings

warnings.filterwarnings("ignore")
warnings.simplefilter("once", UserWarning)
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
logger = logging.getLogger(__name__)
logger.setLevel(logging.DEBUG)

# %% first: is it a notebook
def in_notebook():
    try:
        shell = get_ipython().__class__.__name__
        return shell == "ZMQInteractiveShell"
    except NameError:
        return False


if in_notebook():
    from tqdm.notebook import tqdm
else:
    def tqdm(iterable, **kwargs):
        return iterable

# %% layer_norm: the logger and types checked
def layer_norm(x: "Tensor", weight: "Tensor", bias: "Tensor", eps: float) -> "Tensor":
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"expected a tensor, got {type(x).__name__}")
    if not hasattr(x, "dtype") or x.ndim < 1:
        raise ValueError("at least one dimension")
    logger.debug("x %s %s %s", tuple(x.shape), x.dtype, x)
    logger.info("mean %.3f", x.float().mean())
    half = x.dtype in {torch.float16, torch.bfloat16}
    h = x.float() if half else x
    h = h - h.mean(dim=-1, keepdim=True)
    h = h * torch.rsqrt(torch.mean(h * h, dim=-1, keepdim=True) + eps)
    result = torch.addcmul(bias.to(h.dtype), h, weight.to(h.dtype))
    assert result.shape == x.shape, (result.shape, x.shape)
    return result.to(x.dtype)

# %% LayerNorm: a main guard
### REFERENCE


def main() -> None:
    model = LayerNorm(8)
    for _ in tqdm(range(3), desc="steps"):
        model(torch.randn(2, 8)).sum().backward()
    logger.info("grad %s", model.weight.grad)


if __name__ == "__main__":
    main()

# %% layer_norm_backward: arguments of a script
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--eps", type=float, default=1e-5)
args, _ = parser.parse_known_args([])
args = parser.parse_args("")
print(vars(args))
for key, value in vars(args).items():
    print(key, "=", value)


### REFERENCE

# %% added: a test file of one's own
import unittest


class TestLayerNorm(unittest.TestCase):
    def setUp(self):
        self.x = torch.randn(3, 8)

    def test_against_library(self):
        y = layer_norm(self.x, torch.ones(8), torch.zeros(8), 1e-5)
        want = torch.nn.functional.layer_norm(self.x, (8,))
        torch.testing.assert_close(y, want)
        self.assertTrue(torch.allclose(y, want, atol=1e-6))


unittest.main(argv=["first-arg-is-ignored"], exit=False)
# python -m pytest would do the same
