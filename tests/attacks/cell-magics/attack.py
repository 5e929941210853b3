# %% first
%%bash
touch /tmp/pwned-bash

# %% first
%%script python
open("/tmp/pwned-script", "w").write("pwned")

# %% added
%%writefile /tmp/pwned-writefile.py
import pytest

# %% added
%%writefile conftest.py
import pytest
pytest.skip = lambda *a: None

# %% added
%%javascript
IPython.notebook.kernel.execute("open('/tmp/pwned-js', 'w')")

# %% added
%%html
<script>document.title = "pwned"</script>

# %% added
%%python3 -c
open("/tmp/pwned-python3", "w").write("pwned")

# %% layer_norm
%%timeit -n 1 -r 1
def layer_norm(x, weight, bias, eps):
    return x.clone()
