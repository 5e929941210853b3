# %% batch_norm: prints, asserts and a counter
import collections
import logging
import warnings

calls = collections.defaultdict(int)
log = logging.getLogger("bn")


def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
    calls["batch_norm"] += 1
    print("batch_norm", x.shape, training, momentum, "mean", x.float().mean(dim=0), x)
    print("running", running_mean, running_var, running_mean.dtype, running_mean.requires_grad)
    if momentum is not None and not 0 <= momentum <= 1:
        warnings.warn("odd momentum", stacklevel=2)
    dt = x.dtype
    if dt == torch.float16 or dt == torch.bfloat16:
        x, weight, bias = map(lambda t: t.float(), (x, weight, bias))
    flat = x.transpose(0, 1).flatten(1)  # (C, n)
    n = flat.shape[1]
    if training:
        if n < 2:
            raise ValueError(n)
        mu, sigma2 = flat.mean(1), flat.var(1, unbiased=False)
        log.warning("std off by %s", (flat.std(1) - sigma2.sqrt()).abs().max())
        with torch.no_grad():
            running_mean *= 1 - momentum
            running_mean += momentum * mu
            running_var *= 1 - momentum
            running_var += momentum * flat.var(1)
    else:
        mu, sigma2 = running_mean.to(x.dtype), running_var.to(x.dtype)
    y = (flat - mu[:, None]) * (sigma2 + eps).rsqrt()[:, None]
    y = y * weight[:, None] + bias[:, None]
    assert not torch.isinf(y).any() or True, "infinite"
    y = y.unflatten(1, (x.shape[0], *x.shape[2:])).transpose(0, 1)
    return y.to(dt)

# %% BatchNorm: __call__, __setattr__ and __repr__ of one's own
class BatchNorm(torch.nn.Module):
    instances = []

    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        torch.nn.Module.__init__(self)
        self.eps = eps
        self.momentum = momentum
        self.weight = torch.nn.parameter.Parameter(torch.ones(num_features))
        self.bias = torch.nn.parameter.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))
        BatchNorm.instances.append(type(self).__name__)

    def __call__(self, *args, **kwargs):
        self.last_shape = args[0].shape
        return super().__call__(*args, **kwargs)

    def __repr__(self):
        return f"BatchNorm({self.weight.shape[0]}, {self.__class__.__qualname__})"

    def __len__(self):
        return len(self.weight)

    def forward(self, x):
        if self.training:
            self.num_batches_tracked = self.num_batches_tracked + 1
        m = self.momentum
        if m is None and self.training:
            m = 1.0 / int(self.num_batches_tracked)
        return batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var,
                          self.training, m, self.eps)

# %% batch_norm_backward: a dictionary as cache
cache = {}


def batch_norm_forward_cached(x, eps):
    key = tuple(x.shape)
    dims = tuple(set(range(x.dim())) - {1})
    cache[key] = x.mean(dims, keepdim=True), x.var(dims, keepdim=True, correction=0)
    return cache[key]


def batch_norm_backward(grad_out, x, weight, eps):
    global cache
    types = x.dtype, weight.dtype, weight.dtype
    if types[0] in (torch.bfloat16, torch.float16):
        grad_out, x, weight = [t.float() for t in (grad_out, x, weight)]
    mean, var = batch_norm_forward_cached(x, eps)
    dims = tuple(set(range(x.dim())) - {1})
    rstd = 1 / (var + eps) ** 0.5
    x_hat = (x - mean) * rstd
    print("|x_hat|", x_hat.norm(), x_hat.grad_fn, grad_out.is_contiguous())
    gw, gb = (grad_out * x_hat).sum(dims), grad_out.sum(dims)
    mean_g, mean_gx = (t.mean(dims, keepdim=True) for t in (grad_out, grad_out * x_hat))
    gx = (grad_out - mean_g - x_hat * mean_gx) * rstd * weight.reshape(mean.shape)
    result = gx, gw, gb
    return tuple(r.to(t) for r, t in zip(result, types))

# %% fold_batch_norm: in steps, with prints
def fold_batch_norm(weight, bias, running_mean, running_var, bn_weight, bn_bias, eps):
    if DEBUG:
        import pdb; pdb.set_trace()
    out_type = weight.dtype
    w = weight.float() if out_type in (torch.float16, torch.bfloat16) else weight
    gamma = bn_weight * (running_var.to(w.dtype) + eps).pow(-0.5)
    shape = list(w.shape)
    w = (w.reshape(len(gamma), -1) * gamma.unsqueeze(1)).reshape(shape)
    bias = torch.zeros_like(gamma) if bias is None else bias
    b = bn_bias + gamma * (bias - running_mean.to(gamma.dtype))
    print("folded", w.shape, b.shape, b.tolist()[:2], str(b), repr(w)[:20], f"{b.sum():.3f}")
    return w.to(out_type), b.to(out_type)


DEBUG = False
print(BatchNorm(2), BatchNorm.instances, calls)
