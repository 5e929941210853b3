# %% layer_norm
import time


def layer_norm(x, weight, bias, eps):
    return x


while True:
    time.sleep(0.01)
