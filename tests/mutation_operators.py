"""The small changes that `mutants.py` makes to a solution, each a mistake a person could type."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

Change = Callable[[], None]  # changes the node it was made for, in place

OPERATORS: dict[type, list[type]] = {
    ast.Add: [ast.Sub], ast.Sub: [ast.Add], ast.Mult: [ast.Div], ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Mult], ast.Mod: [ast.FloorDiv], ast.Pow: [ast.Mult],
    ast.MatMult: [ast.Mult],
    ast.Lt: [ast.LtE, ast.GtE], ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE], ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.Is: [ast.IsNot], ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn], ast.NotIn: [ast.In], ast.And: [ast.Or], ast.Or: [ast.And],
}  # fmt: skip
NAMES = {
    "mean": ["sum", "amax"], "sum": ["mean", "prod"], "square": ["abs", "exp"],
    "rsqrt": ["sqrt", "reciprocal"], "sqrt": ["rsqrt"], "ones": ["zeros"], "zeros": ["ones"],
    "float": ["double", "half"], "float16": ["float32"], "bfloat16": ["float32"],
    "amin": ["amax"], "amax": ["amin"], "std": ["var"], "var": ["std"], "norm": ["sum"],
    "zeros_": ["ones_"], "ones_": ["zeros_"], "zeros_like": ["ones_like"], "randn": ["rand"],
    "relu": ["sigmoid"], "sigmoid": ["tanh"], "tanh": ["sigmoid"], "silu": ["relu"],
    "softmax": ["log_softmax"], "no_grad": ["enable_grad"], "add_": ["sub_"], "sub_": ["add_"],
    "mul_": ["div_"], "div_": ["mul_"], "cumsum": ["cumprod"],
    "weight": ["bias"], "bias": ["weight"], "running_mean": ["running_var"],
    "running_var": ["running_mean"], "mean_weight": ["var_weight"], "var_weight": ["mean_weight"],
    "int64": ["int32"], "float32": ["float16"],
}  # fmt: skip
PAIRS = ["weight bias", "running_mean running_var", "mean var", "shift scale", "low spread",
         "mean_g mean_gx", "bn_weight bn_bias", "means variances", "p q", "grad_out g_hat",
         "x x_hat", "centered x", "depth width", "lengths max_len", "D BLOCK", "row i",
         "grad_weight grad_bias", "partial_weight partial_bias", "x_rows r_rows"]  # fmt: skip
OTHER = {a: b for pair in PAIRS for a, b in (pair.split(), pair.split()[::-1])}
# What these give is of another kind than what they are given: without them nothing would run.
KEPT = {"dim", "numel", "size", "item", "range", "ones", "zeros", "randn", "full", "arange", "len",
        "Generator", "super", "ValueError", "register_buffer", "no_grad", "__init__",
        "Linear"}  # fmt: skip


MODULES = {"torch", "nn", "F", "nn.init", "math", "tl", "triton"}
COUNTS = {"dim", "len", "numel", "size", "int"}
CONVERSIONS = {"float", "double", "half", "bfloat16", "to", "type", "type_as"}
RESULTS = ["None", "(RESULT,)", "-RESULT", "RESULT * 1.01", "RESULT + 0.01", "RESULT.double()",
           "RESULT.detach()", "RESULT.bfloat16().to(RESULT.dtype)", "RESULT.unsqueeze(0)",
           "RESULT.flip(0)", "RESULT.flip(-1)", "RESULT.clamp(-2, 2)"]  # fmt: skip


def code(definition: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a definition that run: no annotations, no docstrings."""
    for node in ast.iter_child_nodes(definition):
        hints = (getattr(definition, "returns", None), getattr(definition, "annotation", None))
        if node not in hints and not (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            yield node
            yield from code(node)


def bound_before(definition: ast.AST) -> set[int]:
    """Numbers in `code(definition)` of the assignments to names that had a value before."""
    names: set[str] = set()
    again = set()
    for number, node in enumerate(code(definition)):
        if isinstance(node, ast.FunctionDef):
            names = {a.arg for a in node.args.args}
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Assign):
            targets = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            if targets and targets <= names:
                again.add(number)
            names |= targets
    return again


def changes(node: ast.AST, droppable: bool) -> Iterator[Change]:
    """Every way to change `node`; `droppable` says that an assignment can be left out."""
    for kind, ways in WAYS.items():
        if isinstance(node, kind):
            yield from ways(node)
    if droppable or isinstance(node, ast.AugAssign):
        yield lambda: _become(node, ast.Pass())


def _binary(node: ast.BinOp) -> Iterator[Change]:
    for operator in OPERATORS.get(type(node.op), []):
        yield lambda operator=operator: setattr(node, "op", operator())
    yield lambda: _become(node, node.left)
    yield lambda: _become(node, node.right)


def _unary(node: ast.UnaryOp) -> Iterator[Change]:
    if isinstance(node.op, ast.USub):
        yield lambda: _become(node, ast.Constant(0))
    yield lambda: _become(node, node.operand)


def _compare(node: ast.Compare) -> Iterator[Change]:
    for operator in OPERATORS.get(type(node.ops[0]), []):
        yield lambda operator=operator: node.ops.__setitem__(0, operator())


def _both(node: ast.BoolOp) -> Iterator[Change]:
    for operator in OPERATORS[type(node.op)]:
        yield lambda operator=operator: setattr(node, "op", operator())
    for value in node.values:
        yield lambda value=value: _become(node, value)


def _constant(node: ast.Constant) -> Iterator[Change]:
    if type(node.value) is int:
        yield lambda: setattr(node, "value", node.value + 1)
        yield lambda: setattr(node, "value", node.value - 1)
    elif type(node.value) is float:
        yield lambda: setattr(node, "value", node.value * 10)
        yield lambda: setattr(node, "value", 0.0)
    elif type(node.value) is bool:
        yield lambda: setattr(node, "value", not node.value)


def _attribute(node: ast.Attribute) -> Iterator[Change]:
    for name in NAMES.get(node.attr, []):
        yield lambda name=name: setattr(node, "attr", name)
    if node.attr == "eps" and isinstance(node.ctx, ast.Load):
        yield from _eps(node)
    if node.attr == "T":
        yield lambda: _become(node, node.value)


def _name(node: ast.Name) -> Iterator[Change]:
    if not isinstance(node.ctx, ast.Load):
        return
    if node.id == "eps":
        yield from _eps(node)
    if node.id in OTHER:
        yield lambda: setattr(node, "id", OTHER[node.id])


def _eps(node: ast.expr) -> Iterator[Change]:
    same = ast.parse(ast.unparse(node), mode="eval").body
    yield lambda: _become(node, ast.Constant(1e-5))
    yield lambda: _become(node, ast.Constant(0.0))
    yield lambda: _become(node, ast.BinOp(same, ast.Mult(), ast.Constant(2)))


def _if(node: ast.If) -> Iterator[Change]:
    yield lambda: setattr(node, "test", ast.Constant(False))
    yield lambda: setattr(node, "test", ast.Constant(True))


def _choice(node: ast.IfExp) -> Iterator[Change]:
    yield lambda: _become(node, node.body)
    yield lambda: _become(node, node.orelse)


def _elements(node: ast.Tuple | ast.List) -> Iterator[Change]:
    if not isinstance(node.ctx, ast.Load):
        return
    for i in range(len(node.elts) - 1):
        yield lambda i=i: node.elts.__setitem__(slice(i, i + 2), node.elts[i : i + 2][::-1])
    for i in range(len(node.elts)):
        yield lambda i=i: node.elts.pop(i)


def _slice(node: ast.Slice) -> Iterator[Change]:
    def turn() -> None:
        node.lower, node.upper = node.upper, node.lower

    yield turn


def _with(node: ast.With) -> Iterator[Change]:
    yield lambda: _become(node, ast.If(ast.Constant(True), node.body, []))


def _statement(node: ast.Expr) -> Iterator[Change]:
    yield lambda: _become(node, ast.Pass())


def _call(node: ast.Call) -> Iterator[Change]:
    method = isinstance(node.func, ast.Attribute)
    module = method and isinstance(node.func.value, (ast.Name, ast.Attribute))
    module = module and ast.unparse(node.func.value) in MODULES
    name = node.func.attr if method else getattr(node.func, "id", "")
    inner = node.func.value if method and not module else (node.args or [None])[0]
    if name.endswith("Error"):
        return  # what an exception says is not graded
    if name not in KEPT and isinstance(inner, ast.expr) and not isinstance(inner, ast.Starred):
        yield lambda: _become(node, inner)
    for i in range(len(node.args) - 1):
        yield lambda i=i: node.args.__setitem__(slice(i, i + 2), node.args[i : i + 2][::-1])
    for i in range(len(node.args)):
        yield lambda i=i: node.args.pop(i)
    for i in range(len(node.keywords)):
        yield lambda i=i: node.keywords.pop(i)
    if name in COUNTS:
        yield from _off_by_one(node)
    if method and not module and name in CONVERSIONS and not _in_kernel(node):
        yield lambda: setattr(node.func, "value", _detached(node.func.value))


def _in_kernel(conversion: ast.Call) -> bool:
    """Whether it converts to a dtype of Triton's: what a kernel computes with has no graph."""
    return any(ast.unparse(arg).startswith("tl.") for arg in conversion.args)


def _detached(value: ast.expr) -> ast.Call:
    """As `torch.tensor(x, dtype=torch.float32)` converts: the numbers without their graph."""
    return ast.Call(ast.Attribute(value, "detach", ast.Load()), [], [])


def _subscript(node: ast.Subscript) -> Iterator[Change]:
    if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        yield from _off_by_one(node)


def _off_by_one(node: ast.expr) -> Iterator[Change]:
    same = ast.parse(ast.unparse(node), mode="eval").body
    for operator in (ast.Add(), ast.Sub()):
        yield lambda operator=operator: _become(node, ast.BinOp(same, operator, ast.Constant(1)))


def _result(node: ast.Return) -> Iterator[Change]:
    """The whole result is almost right: another sign or size, dtype, precision, type, no graph."""
    if node.value is None:
        return
    if isinstance(node.value, ast.Tuple):  # its values also change places, or are left out
        yield lambda: setattr(node, "value", ast.Constant(None))
        for i, value in enumerate(node.value.elts):
            for wrong in (ast.UnaryOp(ast.USub(), value),
                          ast.BinOp(value, ast.Mult(), ast.Constant(1.01))):  # fmt: skip
                yield lambda i=i, wrong=wrong: node.value.elts.__setitem__(i, wrong)
        return
    right = ast.unparse(node.value)
    for wrong in RESULTS:
        tree = ast.parse(wrong.replace("RESULT", f"({right})"), mode="eval").body
        yield lambda tree=tree: setattr(node, "value", tree)


WAYS: dict[type, Callable[..., Iterator[Change]]] = {
    ast.BinOp: _binary, ast.UnaryOp: _unary, ast.Compare: _compare, ast.BoolOp: _both,
    ast.Constant: _constant, ast.Attribute: _attribute, ast.Name: _name, ast.If: _if,
    ast.IfExp: _choice, ast.Tuple: _elements, ast.List: _elements, ast.Slice: _slice,
    ast.With: _with, ast.Expr: _statement, ast.Call: _call, ast.Subscript: _subscript,
    ast.Return: _result,
}  # fmt: skip


def _become(node: ast.AST, other: ast.AST) -> None:
    """Turn `node` into `other` where it stands."""
    fields = dict(vars(other))
    node.__class__ = other.__class__
    vars(node).clear()
    vars(node).update(fields)
