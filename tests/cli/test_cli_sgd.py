"""``shoal sgd``: the accountant of training runs, printed, drawn and refused in one line."""

from __future__ import annotations

from functools import cache

import pytest

from shoal import learning

RUN = "sgd --n 2000 --noise 8"


@pytest.fixture(autouse=True, scope="module")
def compared_once():
    """The same run is worked out once: it is a pure function of what is asked."""
    compare = cache(learning.compare)

    def once(*, progress, **run):
        del progress
        return compare(**run)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(learning, "compare", once)
        yield


def test_a_table_of_all_and_the_chosen_one_in_80_columns(run):
    said = run(RUN, "--sampling replacement").stdout
    for words in (
        "ε at δ = 1e-6: 2,000 examples, 1 epoch, noise multiplier 8",
        "DataLoader(shuffle=True)",
        "Opacus DPDataLoader",
        "add-or-remove-one",
        "every step draws its batch anew",
        "subsampling, advanced composition",
        "a proved upper bound",
    ):
        assert words in said
    assert "\x1b" not in said


def test_all_is_the_table_only(run):
    said = run(RUN, "--sampling all").stdout
    assert "which loader does it" in said
    assert "proved upper bound" not in said
    assert run(RUN, "--sampling all --json").json()["sampling"] == "permutation"


def test_shown_numbers_are_rounded_outwards(run):
    found = run(RUN, "--json").json()
    shown = run(RUN).stdout
    upper = float(shown.split("─ ε = ")[1].split()[0])
    assert found["epsilon"] <= upper < found["epsilon"] * (1 + 1e-4)
    lower = float(shown.split("lower bound")[1].split()[0])
    assert found["lower"] * (1 - 1e-4) < lower <= found["lower"]


def test_a_delta_that_nobody_chose_follows_the_number_of_examples(run):
    assert run("sgd --n 1e7 --noise 30 --json").json()["delta"] == pytest.approx(1e-8)
    assert "ε at δ = 1e-8: 10,000,000 examples" in run("sgd --n 1e7 --noise 30").stdout


def test_a_target_gives_the_noise(run):
    found = run("sgd --n 2000 --epsilon 0.1 --json").json()
    assert found["noise_multiplier"] == learning.noise_for(epsilon=0.1, n=2000)
    assert 0.099 < found["epsilon"] <= 0.1
    by = {(row["sampling"], row["neighbouring"]): row for row in found["compared"]}
    assert by["fixed", "replace-one"]["noise_multiplier"] > 10 * found["noise_multiplier"]
    replaced, removed = by["poisson", "replace-one"], by["poisson", "add-or-remove-one"]
    assert replaced["noise_multiplier"] > 1.5 * removed["noise_multiplier"]
    assert all(0.099 < row["epsilon"] <= 0.1 for row in found["compared"])


def test_the_noise_is_the_headline(run):
    said = run("sgd --n 2000 --epsilon 0.1 --sampling fixed").stdout
    noise = str(learning.noise_for(epsilon=0.1, n=2000, sampling="fixed"))
    assert f"─ noise multiplier {noise} is enough" in said
    assert said.count(noise) == 3  # in the table too, with the same digits
    assert "Noise for ε = 0.1 at δ = 1e-6: 2,000 examples, 1 epoch" in said
    assert "DataLoader(shuffle=False)" in said


def test_batches_that_gain_nothing_are_warned_about(run):
    said = run("sgd --n 2000 --noise 4 --batch 100").stdout
    assert "2,000 examples in batches of 100" in said
    assert "warning: shuffling gains nothing here: more noise, or smaller batches, would" in said
    assert "no amplification" in said
    (warning,) = run(RUN, "--delta 1e-3 --json").json()["warnings"]
    assert "δ is not smaller than 1/n" in warning


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--n 1 --noise 1", "an epoch is a single step, and there is no order to hide"),
        ("--n 9 --noise 9 --batch 9", "an epoch is a single step, and there is no order to hide"),
        ("--n 9 --noise 1", "more noise, or more examples, would"),
    ],
)
def test_advice_fits_the_run(run, options, said):
    (warning,) = run("sgd --json", options).json()["warnings"]
    assert warning == f"shuffling gains nothing here: {said}"


def test_one_example_is_not_several(run):
    assert "δ = 1e-6: 1 example, 1 epoch, noise multiplier 1" in run("sgd --n 1 --noise 1").stdout


def test_all_shows_what_is_possible_and_why_the_rest_is_not(run):
    options = "sgd --n 60000 --noise 1.1 --batch 64 --epochs 100 --drop-last"
    said = run(options, "--sampling all").stdout
    assert max(map(len, said.splitlines())) <= 80
    (line,) = [line for line in said.splitlines() if "permutation" in line]
    assert "–   replace-one         epsilon would be 251, and over 50" in line
    assert "2.8943   replace-one         Opacus DPDataLoader" in said
    refused = run(options).refusal()
    assert "cannot reach a guarantee with noise multiplier 1.1" in refused
    assert "raise it to at least" in refused
    found = run("sgd --n 2003 --noise 30 --batch 10 --sampling all --json").json()
    assert found["sampling"] == "replacement"  # the first one there is
    assert len(found["compared"]) == 5
    assert "--batch <= n = 9" in run("sgd --n 9 --noise 1 --batch 20 --sampling all").refusal()


def test_a_kind_that_has_no_answer_is_a_row_with_its_reason(run):
    rows = run("sgd --n 2003 --noise 30 --batch 10 --sampling poisson --json").json()["compared"]
    (refused,) = [row for row in rows if row["refused"]]
    assert refused["sampling"] == "permutation"
    assert refused["epsilon"] is None
    assert "batch to divide n = 2003" in refused["refused"]
    dropped = run("sgd --n 2003 --noise 30 --batch 10 --drop-last --json").json()
    assert dropped["steps"] == 200


def test_a_plot_of_every_kind_of_sampling(run, tmp_path):
    path = tmp_path / "epochs.svg"
    run("sgd --n 1000 --noise 10 --sampling fixed --plot", str(path), "--json").json()
    assert path.stat().st_size > 5000
    assert path.read_text(encoding="utf-8").startswith("<?xml")
