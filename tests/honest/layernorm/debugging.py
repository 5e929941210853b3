# %% first: how tensors are printed
torch.set_printoptions(precision=3, sci_mode=False, linewidth=120, threshold=50)
np.set_printoptions(suppress=True)

# %% first: shapes in the debugger's view
normal_repr = torch.Tensor.__repr__
torch.Tensor.__repr__ = lambda self: f"{tuple(self.shape)} {normal_repr(self)}"

# %% layer_norm: everything printed
def layer_norm(x, weight, bias, eps):
    print(x)
    print("x", x.shape, x.dtype, x.device, x.requires_grad, x.grad_fn, x.is_leaf, x.stride())
    print(f"{x=}", type(x), id(x), x.data_ptr(), x._version)
    if x.grad_fn is not None:
        print(x.grad_fn.name(), x.grad_fn.next_functions)
    dtype = x.dtype
    if dtype == torch.float16 or dtype == torch.bfloat16:
        x, weight, bias = x.float(), weight.float(), bias.float()
    mean = x.mean(dim=-1, keepdim=True)
    print("mean", mean.flatten()[:3].tolist(), mean.detach().cpu().numpy())
    var = x.var(dim=-1, unbiased=False, keepdim=True)
    # import pdb; pdb.set_trace()
    y = (x - mean) / (var + eps).sqrt()
    print("should be 0 and 1:", y.mean().item(), y.std(unbiased=False).item())
    print(y.min(), y.max(), torch.isnan(y).any(), torch.isinf(y).sum())
    print(locals().keys())
    out = y * weight + bias
    return out.to(dtype)

# %% LayerNorm: a debugger
import pdb
import traceback


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        breakpoint()
        pdb.set_trace()
        try:
            out = layer_norm(x, self.weight, self.bias, self.eps)
        except Exception:
            traceback.print_exc()
            raise
        return out


%debug
%pdb on
layer = LayerNorm(8)
print(vars(layer))
print(layer.__dict__)
print(layer.__dict__.keys(), dir(layer), layer.__class__, layer.__class__.__name__)
print(layer._parameters, layer._buffers, layer._modules)

# %% layer_norm_backward: intermediate values kept
history = []
DEBUG = True


def debug(*args):
    if DEBUG:
        print(*args)


def layer_norm_backward(grad_out, x, weight, eps):
    debug("grad_out", grad_out, "x", x)
    gd, xd, wd = grad_out.dtype, x.dtype, weight.dtype
    if xd in (torch.float16, torch.bfloat16):
        grad_out, x, weight = (t.float() for t in (grad_out, x, weight))
    n = x.shape[-1]
    mu = x.mean(-1, keepdim=True)
    sigma = torch.sqrt(((x - mu) ** 2).mean(-1, keepdim=True) + eps)
    xhat = (x - mu) / sigma
    history.append(xhat.detach().clone())
    lead = tuple(range(x.dim() - 1))
    dbias = grad_out.sum(dim=lead) if lead else grad_out.clone()
    dweight = (grad_out * xhat).sum(dim=lead) if lead else grad_out * xhat
    dxhat = grad_out * weight
    dx = (n * dxhat - dxhat.sum(-1, keepdim=True) - xhat * (dxhat * xhat).sum(-1, keepdim=True))
    dx = dx / (n * sigma)
    debug(dx.requires_grad, x.grad, torch.is_grad_enabled())
    return dx.to(xd), dweight.to(wd), dbias.to(wd)

# %% added: hunting for a mistake
import inspect

print(inspect.signature(layer_norm), inspect.getsource(LayerNorm.forward)[:80])
print(layer_norm.__name__, layer_norm.__doc__, layer_norm.__annotations__, layer_norm.__module__)
help(layer_norm)
layer_norm?
print([name for name in dir(torch) if "norm" in name])
print("layer_norm" in globals(), "layer_norm" in dir(), callable(layer_norm))
print(sorted(globals().keys())[:5], len(locals()))
for name in list(globals().keys()):
    print(name)
loss = LayerNorm(8)(torch.randn(2, 8)).sum()
print(loss.grad_fn, loss.grad_fn.next_functions[0][0])
%whos
%reset -f

# %% added: where memory goes
import gc
import sys
import tracemalloc

tracemalloc.start()
gc.collect()
torch.cuda.empty_cache()
print(sys.getsizeof(history), sys.getrefcount(history), sys.version_info, sys.version)
print(tracemalloc.get_traced_memory())
import psutil
print(psutil.Process().memory_info().rss)
del history[:]

# %% added: hooks on modules
def hook(module, inputs, output):
    print(module.__class__.__name__, inputs[0].shape, output.shape)


handle = layer.register_forward_hook(hook)
layer(torch.randn(2, 8))
handle.remove()
layer.weight.register_hook(lambda g: print("grad", g.norm()))
layer(torch.randn(2, 8)).sum().backward()
with torch.autograd.set_detect_anomaly(True):
    layer(torch.randn(2, 8)).mean().backward()
torch.autograd.set_detect_anomaly(False)
