# %% first
%%<script>alert(1)</script>
x = 1


# %% added
%<img_src=x_onerror=alert(1)>
!echo "<script>alert(1)</script>"


# %% added
def <b>layer_norm</b>(x):
    return "<script>"


# %% added
raise type("<script>alert(1)</script>", (Exception,), {})("<script>")


# %% layer_norm
def layer_norm(x, weight, bias, eps):
    return "<script>alert(1)</script>"
