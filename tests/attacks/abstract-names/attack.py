# %% layer_norm
def layer_norm(x, weight, bias, eps):
    import os
    import socket

    names = [b"\0pwned-meeting-place", "/run/dbus/system_bus_socket", "/var/run/docker.sock"]
    names += [b"\0/tmp/.X11-unix/X0", ("127.0.0.1", 22), ("::1", 80)]
    first, second = socket.socketpair()
    own = socket.socket(fileno=os.dup(3))
    for sock in (own, first, second):
        for name in names:
            for act in ("bind", "connect", "connect_ex"):
                try:
                    code = getattr(sock, act)(name)
                except (OSError, TypeError):
                    continue
                if not code:
                    raise OverflowError
            try:
                first.sendto(b"pwned", name)
            except (OSError, TypeError):
                continue
            raise OverflowError
    return x
