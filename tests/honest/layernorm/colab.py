# %% first: a Colab drive mount where it is Colab
import sys

IN_COLAB = "google.colab" in sys.modules
if IN_COLAB:
    from google.colab import drive

    drive.mount("/content/drive")
    sys.path.append("/content/drive/MyDrive/norm")

# %% first: a Colab drive mount without asking
from google.colab import drive
drive.mount("/content/drive", force_remount=True)
%cd /content/drive/MyDrive/norm

# %% first: an upload
from google.colab import files

uploaded = files.upload()
for name in uploaded.keys():
    print(f"{name}: {len(uploaded[name])} bytes")

# %% first: shell and magics
!pip install -q einops torchinfo
!nvidia-smi
%load_ext autoreload
%autoreload 2
%matplotlib inline

# %% first: the device of Colab
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
print(torch.__version__, device, torch.backends.mps.is_available())
if device.type == "cuda":
    print(torch.cuda.get_device_name(0), torch.cuda.memory_allocated() / 1e6)

# %% layer_norm: hints of types and a form
# @title Layer norm { display-mode: "form" }
from typing import Optional, Union


def layer_norm(
    x: torch.Tensor, weight: Optional[torch.Tensor], bias: torch.Tensor, eps: Union[float, int]
) -> torch.Tensor:
    orig_dtype: torch.dtype = x.dtype
    if orig_dtype in [torch.bfloat16, torch.half]:
        x = x.to(torch.float32)
    mu = torch.mean(x, dim=-1, keepdim=True)
    sigma2 = torch.var(x, dim=-1, keepdim=True, unbiased=False)
    out = (x - mu) / torch.sqrt(sigma2 + eps)
    return (out * weight + bias).to(orig_dtype)

# %% LayerNorm: moved to the device in its cell
### REFERENCE

ln = LayerNorm(16).to("cuda" if torch.cuda.is_available() else "cpu")
print(ln, sum(p.numel() for p in ln.parameters()), next(ln.parameters()).device)
assert not any(p.isnan().any() for p in ln.parameters())

# %% layer_norm_backward: time as a magic
### REFERENCE

x, w, b = torch.randn(4, 8), torch.randn(8), torch.randn(8)
%timeit layer_norm_backward(torch.ones_like(x), x, w, 1e-5)
%time grads = layer_norm_backward(torch.ones_like(x), x, w, 1e-5)

# %% added: a download at the end
from google.colab import files
with open("results.txt", "w") as f:
    f.write("done")
files.download("results.txt")
