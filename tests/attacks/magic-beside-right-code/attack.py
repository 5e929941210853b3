# %% first
%matplotlib inline
%config InlineBackend.figure_format = "retina"
%load_ext autoreload
!pip install torch
?torch.var

# %% layer_norm
%%time
def layer_norm(x, weight, bias, eps):
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    mean = x.mean(-1, keepdim=True)
    var = (x - mean).pow(2).mean(-1, keepdim=True)
    return ((x - mean) / torch.sqrt(var + eps) * weight + bias).to(dtype)
