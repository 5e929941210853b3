# %% layer_norm
import time


def layer_norm(x, weight, bias, eps):
    time.sleep(1.5)
    return x
