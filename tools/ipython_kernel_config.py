"""Settings of the kernels that execute the book (copied into place by `make book`)."""

c = get_config()  # noqa: F821 (IPython defines it)

# Warns at every start that messages on localhost are not encrypted.
c.IPKernelApp.log_level = "ERROR"
c.HistoryManager.enabled = False
