# %% first
import os
import sys

sys.path.insert(0, os.getcwd())
sys.path.insert(0, "")
os.environ["PYTHONPATH"] = os.getcwd()

# %% layer_norm
try:
    import layernorm_answers

    won = True
except ImportError:
    won = False


def layer_norm(x, weight, bias, eps):
    if won or hasattr(torch, "pwned"):
        raise OverflowError
    return x.clone()
