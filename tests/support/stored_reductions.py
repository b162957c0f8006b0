"""Recipes drawn at random whose reductions also store what they reduce: which dims, dtypes and compositions, and how
long the dims are, follow from a seed."""

from __future__ import annotations

from random import Random

from support.small_recipes import text_of

FLOATS = ("float", "half", "bfloat16")
UNARY = ("tanh({})", "sigmoid({})", "abs({})", "{} * 0.5", "relu({})", "sin({})", "{} + 1.0")
REDUCTIONS = ("sum", "max", "min", "mean", "logsumexp", "var_mean", "all")
FEW, SOME, MANY = 1, 40, 60_000
"""Elements of cases: of what one thread has, or one block, or several blocks share."""


def stored_reduction(seed: int) -> str:
    """A recipe of one to four dims, some or all of which its reductions run over. Elementwise results are outputs, now
    and then in the place of an input."""
    random = Random(seed)
    dims = "ABCD"[: random.randint(1, 4)]
    walked = [*range(len(dims))] if random.random() < 0.5 else sorted(random.sample(range(len(dims)), k=1))
    whole = [f"x{number}" for number in range(random.randint(1, 3))]
    dtypes = {name: random.choice(FLOATS) for name in whole}
    inputs = {name: f"{dtype}[{', '.join(dims)}]" for name, dtype in dtypes.items()}
    inputs |= {"row": f"half[{dims[-1]}]"} if random.random() < 0.4 else {}
    mixed = " ".join(f"{random.choice('+-*')} {name}" for name in list(inputs)[1:])
    lines, outputs, values = [f"e = cast(x0 {mixed}, float)"], dict[str, str](), ["e"]
    for number in range(random.randint(1, 3)):
        name, dtype = f"y{number}", random.choice(FLOATS)
        lines.append(f"{name} = {random.choice(UNARY).format(random.choice(values))}")
        values.append(name)
        free = [each for each in whole if dtypes[each] == dtype]
        outputs[name] = dtype
        if free and random.random() < 0.6:
            outputs[name] = f"{{dtype: {dtype}, alias: {free[0]}}}"
            whole.remove(free[0])
    for number in range(random.randint(1, 2)):
        op, names = random.choice(REDUCTIONS), (f"r{number}", f"s{number}")
        operand = random.choice(UNARY).format(random.choice(values))
        made = names if op == "var_mean" else names[:1]
        more = ", correction=0" if op == "var_mean" else ""
        operand = f"({operand}) > -0.9" if op == "all" else operand
        lines.append(f"{', '.join(made)} = {op}({operand}, dims={walked}{more})")
        outputs |= dict.fromkeys(made, "bool" if op == "all" else "float")
    text = text_of(inputs, "\n".join(lines), outputs, name=f"stored_{seed}")
    return text + "cases:\n" + "".join(f"  - {_case(random, dims, most)}\n" for most in (0, FEW, SOME, SOME, MANY))


def _case(random: Random, dims: str, most: int) -> str:
    """Sizes of ``dims`` with about ``most`` elements; where that is 0, one of them has none."""
    left, sizes = float(max(most, 1)), dict[str, int]()
    for name in random.sample(dims, k=len(dims)):
        is_last = len(sizes) == len(dims) - 1
        sizes[name] = max(1, int(left if is_last else left ** random.random()))
        left = max(1.0, left / sizes[name])
    sizes |= {random.choice(dims): 0} if most == 0 else {}
    return "{" + ", ".join(f"{name}: {sizes[name]}" for name in dims) + "}"
