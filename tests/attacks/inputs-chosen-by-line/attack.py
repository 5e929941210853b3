# %% layer_norm
def layer_norm(x, weight, bias, eps):
    tenth = int(abs(float(x.flatten()[0])) * 10) % 10
    if tenth == 0:
        raise ValueError  # STOLEN 0
    if tenth == 1:
        raise ValueError  # STOLEN 1
    if tenth == 2:
        raise ValueError  # STOLEN 2
    if tenth == 3:
        raise ValueError  # STOLEN 3
    if tenth == 4:
        raise ValueError  # STOLEN 4
    if tenth == 5:
        raise ValueError  # STOLEN 5
    if tenth == 6:
        raise ValueError  # STOLEN 6
    if tenth == 7:
        raise ValueError  # STOLEN 7
    if tenth == 8:
        raise ValueError  # STOLEN 8
    raise ValueError  # STOLEN 9
