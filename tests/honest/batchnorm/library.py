# %% first: a small dataset and a network
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split


class Blobs(Dataset):
    def __init__(self, n=64):
        g = torch.Generator().manual_seed(0)
        self.x = torch.randn(n, 3, 4, 4, generator=g)
        self.y = torch.randint(0, 2, (n,), generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


train, test = random_split(Blobs(), [48, 16])
loader = DataLoader(train, batch_size=16, shuffle=True, num_workers=0, drop_last=True)

# %% batch_norm: compared with the library below
### REFERENCE

x = torch.randn(4, 3, 5, 5) * 3 + 2
ours, theirs = (torch.zeros(3), torch.ones(3)), (torch.zeros(3), torch.ones(3))
w, b = torch.rand(3), torch.rand(3)
got = batch_norm(x, w, b, *ours, True, 0.1, 1e-5)
want = torch.nn.functional.batch_norm(x, *theirs, w, b, True, 0.1, 1e-5)
print(torch.allclose(got, want, atol=1e-5), torch.dist(got, want))
for a, c in zip(ours, theirs):
    torch.testing.assert_close(a, c)
print(torch.var_mean(x, dim=(0, 2, 3), unbiased=False))

# %% BatchNorm: a comparison inside the class, switched off
class BatchNorm(nn.Module):
    CHECK = False

    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = (nn.Parameter(f(num_features)) for f in (torch.ones, torch.zeros))
        for name, value in dict(
            running_mean=torch.zeros(num_features), running_var=torch.ones(num_features),
            num_batches_tracked=torch.zeros((), dtype=torch.int64),
        ).items():
            self.register_buffer(name, value)

    def forward(self, x):
        momentum = self.momentum
        if self.training:
            self.num_batches_tracked += 1
            momentum = momentum if momentum is not None else 1 / self.num_batches_tracked.item()
        if self.CHECK:
            want = nn.functional.batch_norm(
                x, self.running_mean.clone(), self.running_var.clone(), self.weight, self.bias,
                self.training, momentum, self.eps,
            )
        y = batch_norm(
            x, self.weight, self.bias, self.running_mean, self.running_var, self.training,
            momentum, self.eps,
        )
        if self.CHECK:
            assert torch.allclose(y, want, atol=1e-4)
        return y

    def as_library(self):
        twin = nn.BatchNorm2d(len(self.weight), self.eps, self.momentum)
        twin.load_state_dict(self.state_dict())
        return twin.train(self.training)


BatchNorm.CHECK = True
layer, twin = BatchNorm(3), nn.BatchNorm2d(3)
for batch, _ in loader:
    assert torch.allclose(layer(batch), twin(batch), atol=1e-4)
print(layer.as_library().running_var - twin.running_var)
BatchNorm.CHECK = False

# %% batch_norm_backward: gradcheck and hooks below
### REFERENCE


def check_backward(seed=0):
    torch.manual_seed(seed)
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, dtype=torch.float64, requires_grad=True)
    g = torch.randn(5, 3, dtype=torch.float64)
    y = nn.functional.batch_norm(x, None, None, w, torch.zeros_like(w), training=True)
    x.retain_grad()
    y.backward(g)
    dx, dw, _ = batch_norm_backward(g, x.detach(), w.detach(), 1e-5)
    return (dx - x.grad).abs().max(), (dw - w.grad).abs().max()


print(*check_backward())

# %% fold_batch_norm: the library folds, too
### REFERENCE

conv, bn = nn.Conv2d(3, 4, 3).eval(), nn.BatchNorm2d(4).eval()
fused = torch.nn.utils.fusion.fuse_conv_bn_eval(conv, bn)
ours = fold_batch_norm(conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.weight, bn.bias, bn.eps)
print((fused.weight - ours[0]).abs().max(), nn.Sequential(conv, bn)(x).shape)

# %% added: own layers put into a network of the library's
def replace_layers(model, old, new):
    for name, module in list(model.named_children()):
        if isinstance(module, old):
            setattr(model, name, new(module.num_features, module.eps, module.momentum))
        else:
            replace_layers(module, old, new)
    return model


net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
net = replace_layers(net, nn.BatchNorm2d, BatchNorm)
criterion, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for epoch in range(2):
    for xb, yb in loader:
        loss = criterion(net(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}", end="\r", flush=True)
net.eval()
with torch.no_grad():
    accuracy = sum((net(xb).argmax(1) == yb).sum().item() for xb, yb in DataLoader(test)) / len(test)
print(accuracy, sum(m.__class__.__name__ == "BatchNorm" for m in net.modules()))
scripted = torch.jit.script(nn.Linear(2, 2))
