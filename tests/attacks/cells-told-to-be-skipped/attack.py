# %% layer_norm
def layer_norm(x, weight, bias, eps):
    return x
