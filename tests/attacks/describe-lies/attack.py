# %% added
import sys

worker = sys.modules["autograder.worker.serve"]
calls = 0
last = [0.0]


def describe(error):
    global calls
    calls += 1
    digits = int(abs(last[0]) * 1e15)
    return (
        {"type": f"STOLEN {last[0]}", "cell": 1, "line": 1},
        {"type": "ValueError", "cell": 3, "line": digits},
        {"type": "ValueError", "cell": digits, "line": -digits},
        {"type": "Unsendable", "cell": 0, "line": 0, "returned": "STOLEN" + str(last[0])},
        {"type": "<script>STOLEN</script>", "cell": 3, "line": 0},
        {"type": "ValueError", "cell": 3, "line": 1, "text": "STOLEN"},
        {"type": "\ud800", "cell": 3, "line": 0},
    )[calls % 7]


worker.describe = describe


# %% layer_norm
def layer_norm(x, weight, bias, eps):
    last[0] = float(x.flatten()[0])
    raise ValueError(last[0])
