from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipegen.formula import FormulaError, parse_formula


def test_evaluates_exactly_and_rounds_up_once() -> None:
    assert parse_formula("sized_for / dp + 16").evaluate({"sized_for": 1024, "dp": 4}) == 272
    assert parse_formula("a / 3 + a / 3 + a / 3").evaluate({"a": 1}) == 1
    assert parse_formula("a / 3").evaluate({"a": 10}) == 4
    assert parse_formula("2 - 5 - 1").evaluate({}) == -4
    assert parse_formula("2 * (3 + 4) / 7").evaluate({}) == 2


@pytest.mark.parametrize(
    ("text", "values", "shown"),
    [
        ("sized_for / dp + 16", {"sized_for": 1024, "dp": 4}, "1024/4 + 16"),
        ("max_num_seqs*(1+mtp)", {"max_num_seqs": 272, "mtp": 3}, "272 * (1 + 3)"),
        ("a - (b - c)", {"a": 9, "b": 5, "c": 2}, "9 - (5 - 2)"),
        ("a / (b * c)", {"a": 9, "b": 5, "c": 2}, "9/(5 * 2)"),
        ("((a))", {"a": 9}, "9"),
    ],
)
def test_shows_itself_in_numbers(text: str, values: dict[str, int], shown: str) -> None:
    formula = parse_formula(text)
    assert formula.show(values) == shown
    assert parse_formula(shown).evaluate({}) == formula.evaluate(values)


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("1 +", 3, "the end"),
        ("1 + * 2", 4, "'*'"),
        ("(1 + 2", 0, "not closed"),
        ("1 2", 2, "expected an operator"),
        ("2 ** 3", 3, "'*'"),
        ("a.b", 1, "'.'"),
        ("__import__('os')", 10, "expected an operator"),
        ("9" * 17, 0, "expected a number"),
        ("(" * 30 + "1" + ")" * 30, 21, "parentheses"),
        ("1 + " * 60 + "1", 0, "longer"),
        ("", 0, "the end"),
    ],
)
def test_says_where_it_cannot_be_read(text: str, offset: int, words: str) -> None:
    with pytest.raises(FormulaError, match=None) as caught:
        parse_formula(text)
    assert caught.value.offset == offset
    assert words in str(caught.value)


def test_refuses_what_it_cannot_evaluate() -> None:
    with pytest.raises(FormulaError, match="unknown name 'b'"):
        parse_formula("a + b").evaluate({"a": 1})
    with pytest.raises(FormulaError, match="unknown name 'sized_fro'; did you mean 'sized_for'"):
        parse_formula("sized_fro / 2").evaluate({"sized_for": 1, "dp": 4})
    with pytest.raises(FormulaError, match="division by zero"):
        parse_formula("1 / (a - a)").evaluate({"a": 1})
    with pytest.raises(FormulaError, match="too large"):
        parse_formula("a * a").evaluate({"a": 10**15})


def _expressions() -> st.SearchStrategy[str]:
    leaf = st.sampled_from(["a", "b", "1", "2", "7", "16"])
    return st.recursive(leaf, lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner), max_leaves=6)


@given(_expressions(), st.integers(1, 5000), st.integers(1, 64))
def test_agrees_with_python_on_fractions(text: str, a: int, b: int) -> None:
    names = {"a": Fraction(a), "b": Fraction(b)}
    by_python = text.replace("16", "F(16)").replace(" 7", " F(7)").replace("(7", "(F(7)").replace(" 1 ", " F(1) ")
    try:
        exact = eval(by_python, {"F": Fraction, **names})
    except ZeroDivisionError:
        with pytest.raises(FormulaError):
            parse_formula(text).evaluate({"a": a, "b": b})
        return
    if isinstance(exact, float) or abs(exact) > 2**50:
        return  # two plain whole numbers divided: Python leaves the exact world there
    assert parse_formula(text).evaluate({"a": a, "b": b}) == math.ceil(exact)
