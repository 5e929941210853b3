# %% first: a base class of one's own
from abc import ABC, abstractmethod


class NormBase(nn.Module, ABC):
    def __init__(self, num_features, eps, momentum):
        super().__init__()
        self._C, self.eps, self.momentum = num_features, eps, momentum
        factory_kwargs = {"device": None, "dtype": torch.float32}
        self.weight = nn.Parameter(torch.empty(self._C, **factory_kwargs))
        self.bias = nn.Parameter(torch.empty(self._C, **factory_kwargs))
        self.register_buffer("running_mean", torch.zeros(self._C))
        self.register_buffer("running_var", torch.ones(self._C))
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long))
        self.reset_parameters()

    def reset_parameters(self):
        with torch.no_grad():
            self.weight.fill_(1.0)
            self.bias.data.zero_()

    def _check_input_dim(self, x):
        if x.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {x.dim()}D input)")

    @abstractmethod
    def forward(self, x): ...

    def extra_repr(self):
        return "{num_features}, eps={eps}, momentum={momentum}".format(
            num_features=self._C, **{k: self.__dict__[k] for k in ("eps", "momentum")}
        )

# %% batch_norm: a helper for the axes and a sanity check
def _stats(x):
    reduce_dims = tuple(d for d in range(x.ndim) if d != 1)
    m = x.mean(reduce_dims, keepdim=True)
    v = ((x - m) ** 2).mean(reduce_dims, keepdim=True)
    return m, v


def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
    C = x.size(1)
    orig = x.dtype
    if orig in (torch.half, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    view = (1, C) + (1,) * (x.ndim - 2)
    if training is True:
        count = x.numel() / C
        if count < 2:
            raise ValueError("Expected more than 1 value per channel when training")
        m, v = _stats(x)
        with torch.no_grad():
            running_mean.copy_((1 - momentum) * running_mean + momentum * m.squeeze().reshape(C))
            running_var.lerp_((v.reshape(C) * count / (count - 1)).to(running_var.dtype), momentum)
    else:
        m = running_mean.reshape(view).to(x)
        v = running_var.reshape(view).to(x)
    out = (x - m) / torch.sqrt(v + eps)
    out = out * weight.reshape(view) + bias.reshape(view)
    if torch.isnan(out).any():
        print("NaN!", x.min(), x.max(), v.min())
    return out.to(orig)

# %% BatchNorm: inheritance, a property and super with arguments
class BatchNorm(NormBase):
    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        super(BatchNorm, self).__init__(num_features, eps, momentum)

    @property
    def factor(self):
        if self.momentum is None:
            return 1.0 / float(self.num_batches_tracked)
        return self.momentum

    def forward(self, x):
        self._check_input_dim(x)
        if self.training:
            self.num_batches_tracked.add_(1)
        momentum = self.factor if self.training else 0.0
        return batch_norm(
            x, self.weight, self.bias, self.running_mean, self.running_var,
            self.training, momentum, self.eps,
        )


bn = BatchNorm(3)
print(bn, dict(bn.named_buffers()), bn.state_dict().keys())
for k, v in bn.__dict__.items():
    print(k, v)

# %% batch_norm_backward: the chain rule, step by step
def batch_norm_backward(grad_out, x, weight, eps):
    """As in the blog post that everybody reads."""
    xdt, wdt = x.dtype, weight.dtype
    if xdt in (torch.float16, torch.bfloat16):
        grad_out, x, weight = grad_out.float(), x.float(), weight.float()
    axes = [a for a in range(x.dim()) if a != 1]
    N = x.numel() // x.size(1)
    s = lambda t: t.sum(axes, keepdim=True)
    gamma = weight.view(1, -1, *[1] * (x.dim() - 2))
    # step 1-4
    mu = s(x) / N
    xmu = x - mu
    var = s(xmu**2) / N
    ivar = 1.0 / torch.sqrt(var + eps)
    xhat = xmu * ivar
    # step 9-0
    dbeta = s(grad_out)
    dgamma = s(grad_out * xhat)
    dxhat = grad_out * gamma
    divar = s(dxhat * xmu)
    dvar = -0.5 * ivar**3 * divar
    dmu = -s(dxhat * ivar) + dvar * s(-2.0 * xmu) / N
    dx = dxhat * ivar + dvar * 2.0 * xmu / N + dmu / N
    assert dx.shape == x.shape
    return dx.to(xdt), dgamma.flatten().to(wdt), dbeta.flatten().to(wdt)

# %% fold_batch_norm: type checks and reshape
def fold_batch_norm(weight, bias, running_mean, running_var, bn_weight, bn_bias, eps):
    assert all(isinstance(t, torch.Tensor) for t in (weight, running_mean, running_var))
    dtype = weight.dtype
    if dtype in {torch.float16, torch.bfloat16}:
        weight = weight.to(torch.float32)
    scale = bn_weight / torch.sqrt(running_var.to(weight.dtype) + eps)
    fused_w = torch.einsum("c,c...->c...", scale.to(weight.dtype), weight)
    b = 0 if bias is None else bias
    fused_b = (b - running_mean.to(weight.dtype)) * scale + bn_bias
    return fused_w.to(dtype), fused_b.to(dtype)
