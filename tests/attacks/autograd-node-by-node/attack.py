# %% added
import torch


def forward(x, weight, bias, eps):
    centered = x - x.mean(-1, keepdim=True)
    return centered * (centered.square().mean(-1, keepdim=True) + eps).rsqrt() * weight + bias


def leaves(x, weight):
    half = x.dtype in (torch.float16, torch.bfloat16)
    x, weight = (t.detach().clone() for t in (x, weight))
    x, weight = (t.float() for t in (x, weight)) if half else (x, weight)
    return [t.requires_grad_() for t in (x, weight, torch.zeros_like(weight))]


# %% layer_norm_backward
def layer_norm_backward(grad_out, x, weight, eps):
    a, w, b = leaves(x, weight)
    y = forward(a, w, b, eps)
    found, total = {}, {y.grad_fn: grad_out.to(y.dtype)}
    order, seen = [], set()

    def visit(node):
        if node is not None and node not in seen:
            seen.add(node)
            for after, _ in node.next_functions:
                visit(after)
            order.insert(0, node)  # every node before all that it leads to

    visit(y.grad_fn)
    for node in order:
        if hasattr(node, "variable"):
            found[id(node.variable)] = total[node]
            continue
        grads = node(total[node])
        for (after, index), grad in zip(
            node.next_functions, grads if isinstance(grads, tuple) else (grads,), strict=False
        ):
            if after is not None:
                grad = grad.sum_to_size(after._input_metadata[index].shape)
                total[after] = total[after] + grad if after in total else grad
    grads = [found[id(t)] for t in (a, w, b)]
    return grads[0].to(x.dtype), grads[1].to(weight.dtype), grads[2].to(weight.dtype)
