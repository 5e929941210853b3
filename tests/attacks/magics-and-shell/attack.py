# %% first
!touch /tmp/pwned-shell ~/pwned-shell pwned-shell
!!echo pwned > /tmp/pwned-shell2
%run -i /tmp/evil.py
%sx touch /tmp/pwned-sx
%system touch /tmp/pwned-system
%load_ext autoreload
%autoreload 2
%config Application.verbose_crash=True
%env PYTHONSTARTUP=/tmp/pwned.py
%cd /
%pip install pwned
files = !ls /
out = %sx cat /etc/passwd
get_ipython().system("touch /tmp/pwned-get-ipython")
get_ipython().run_line_magic("sx", "touch /tmp/pwned-line-magic")
get_ipython().run_cell_magic("bash", "", "touch /tmp/pwned-cell-magic")

# %% added
import os
import subprocess

for command in ("touch /tmp/pwned-os-system", "touch pwned-os-system"):
    try:
        os.system(command)
        os.popen(command)
        subprocess.run(command, shell=True)
    except Exception:
        pass

# %% layer_norm
def layer_norm(x, weight, bias, eps):
    if files or out:
        raise OverflowError
    return x.clone()
