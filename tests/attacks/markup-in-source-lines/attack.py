# %% layer_norm
def layer_norm(x, weight, bias, eps):
    raise ValueError  # </code></pre><script>alert(1)</script><img src=x onerror=alert(1)>


# %% LayerNorm
class LayerNorm(torch.nn.LayerNorm):  # "><svg/onload=alert(1)> ${alert(1)} {{7*7}} [a](javascript:alert(1))
    pass


# %% layer_norm_backward
def layer_norm_backward(grad_out, x, weight, eps):
    raise KeyError("=cmd|'/c calc'!A0")  # [2J]0;pwned ‮   </textarea>
