"""Where long lines of rendered CUDA end."""

from __future__ import annotations

from fusebuild.kernels.common.wrapping import wrapped


def test_lines_that_fit_stay_as_they_are() -> None:
    text = f"  f({'a' * 114});\n\n  {'b' * 80};  // {'c' * 32}\n"
    assert max(len(line) for line in text.splitlines()) == 120
    assert wrapped(text) == text


def test_arguments_fill_lines() -> None:
    line = "  fb::reduce_row<kThreads, kRows>(phase, fb::accumulator<fb::Sum>(a1), fb::accumulator<fb::Max>(a2));\n"
    assert wrapped(line, 80) == (
        "  fb::reduce_row<kThreads, kRows>(phase, fb::accumulator<fb::Sum>(a1),\n      fb::accumulator<fb::Max>(a2));\n"
    )
    assert wrapped(line, 50) == (
        "  fb::reduce_row<kThreads, kRows>(phase,\n"
        "      fb::accumulator<fb::Sum>(a1),\n"
        "      fb::accumulator<fb::Max>(a2));\n"
    )  # fmt: skip


def test_conditional_expressions_show_what_they_choose_from() -> None:
    assert wrapped("q = i >= 4 && i < end ? load(X + i * stride) : splat(0.0f);\n", 40) == (
        "q = i >= 4 && i < end\n"
        "    ? load(X + i * stride)\n"
        "    : splat(0.0f);\n"
    )  # fmt: skip


def test_what_stands_in_angle_brackets_stays_together() -> None:
    assert wrapped("  f(Vec<float, kVec>(a), Vec<double, kVec>(b));\n", 40) == (
        "  f(Vec<float, kVec>(a),\n"
        "      Vec<double, kVec>(b));\n"
    )  # fmt: skip


def test_declarations_break_after_their_sign_or_at_arguments() -> None:
    assert wrapped("  State a7 = w7.state<State>({-INFINITY, 0});\n", 40) == (
        "  State a7 =\n"
        "      w7.state<State>({-INFINITY, 0});\n"
    )  # fmt: skip
    assert wrapped("for (int split = thread; split < splits * outer; split += step) {\n", 50) == (
        "for (int split = thread; split < splits * outer;\n"
        "    split += step) {\n"
    )  # fmt: skip


def test_code_ends_where_it_does_without_its_comment() -> None:
    code = "  const float t1 = f(a, b);"
    assert wrapped(f"{code}  // y, f.yaml:12\n", 30) == f"  // y, f.yaml:12\n{code}\n"
    assert wrapped(f"{code}  // y\n", 24) == "  const float t1 =\n      f(a, b);  // y\n"
    assert wrapped(f"{code}\n", 24) == "  const float t1 =\n      f(a, b);\n"


def test_comments_are_filled_and_their_later_lines_indented() -> None:
    assert (
        wrapped("  // schedule: threads=256 unroll=2\n", 24) == "  // schedule:\n  //   threads=256\n  //   unroll=2\n"
    )


def test_what_has_no_place_to_break_stays() -> None:
    assert wrapped(f"  // {'a' * 40}\n  {'b' * 40};\n", 20) == f"  // {'a' * 40}\n  {'b' * 40};\n"
