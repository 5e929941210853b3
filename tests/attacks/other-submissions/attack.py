# %% added
import contextlib
import gc
import os
import sys

found = []
for name in ("scratch", "tmp", "dev/shm", "var/tmp"):
    with contextlib.suppress(OSError):
        for entry in os.listdir("/" + name):
            if entry not in ("pwned-file",) and "/" + name + "/" + entry != os.getcwd():
                with contextlib.suppress(OSError):
                    os.listdir(os.path.join("/" + name, entry))
                    found.append(entry)
with contextlib.suppress(OSError):
    found += [n for n in os.listdir(".") if n not in (".cache", ".config")]
with open("left-behind.txt", "w") as file:
    file.write("a later worker must not see this")
for module in list(sys.modules.values()):
    if "left_behind" in vars(module):
        found.append(module)
import torch

torch.left_behind = True
mark = "-hon" + "est-"
for thing in gc.get_objects()[:200_000]:
    if type(thing) is dict and any(type(v) is str and mark in v and v != mark for v in list(thing.values())):
        found.append(thing)


# %% layer_norm
def layer_norm(x, weight, bias, eps):
    if found:
        raise OverflowError
    return x.clone()
