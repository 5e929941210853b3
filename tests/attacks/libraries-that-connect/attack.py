# %% layer_norm
def layer_norm(x, weight, bias, eps):
    import asyncio
    import multiprocessing.connection
    import socketserver

    import torch

    async def serve():
        server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        if not server.sockets:  # asyncio passes over families that are refused
            raise OSError

    for act in (
        lambda: torch.distributed.TCPStore("127.0.0.1", 0, is_master=True),
        lambda: torch.hub.load_state_dict_from_url("http://127.0.0.1/x.pth"),
        lambda: asyncio.run(serve()),
        lambda: multiprocessing.connection.Listener(),
        lambda: multiprocessing.connection.Client(("127.0.0.1", 1)),
        lambda: socketserver.TCPServer(("127.0.0.1", 0), None),
    ):
        try:
            act()
        except (OSError, RuntimeError, ValueError, ImportError, AttributeError):
            continue
        raise OverflowError
    return x
