# %% layer_norm
def layer_norm(x, weight, bias, eps):
    import ctypes
    from multiprocessing import shared_memory

    libc = ctypes.CDLL(None, use_errno=True)
    for number, *arguments in (
        (29, 0x7F3A, 4096, 0o1666),  # shmget
        (64, 0x7F3A, 1, 0o1666),  # semget
        (68, 0x7F3A, 0o1666),  # msgget
        (240, b"pwned", 0o102, 0o666, 0),  # mq_open
        (248, b"user", b"pwned", b"x", 1, -3),  # add_key
        (319, b"pwned", 0),  # memfd_create
    ):
        if libc.syscall(number, *arguments) >= 0:
            raise OverflowError
    try:
        shared_memory.SharedMemory("pwned", create=True, size=64)
    except OSError:
        return x
    raise OverflowError
