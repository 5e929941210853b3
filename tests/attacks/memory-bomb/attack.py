# %% layer_norm
import torch

kept = []


def layer_norm(x, weight, bias, eps):
    while len(kept) < 40:  # 4 GiB at most: it is to be stopped long before
        kept.append(torch.ones(25 * 2**20))
    return x


# %% layer_norm_backward
import mmap


def layer_norm_backward(grad_out, x, weight, eps):
    for _ in range(40):
        area = mmap.mmap(-1, 100 * 2**20)
        for page in range(0, len(area), 4096):
            area[page] = 1
        kept.append(area)
    return x, weight, weight
