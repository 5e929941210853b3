# %% layer_norm
def layer_norm(x, weight, bias, eps):
    import time

    time.sleep(2.2)
    return x
