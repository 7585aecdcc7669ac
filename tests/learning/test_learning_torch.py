"""Training PyTorch modules: single gradients, clipping, noise, orders, and Opacus beside it.

All but one of these need torch, opacus and scikit-learn, and are slow.
"""

from __future__ import annotations

import copy
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.learning import Descent, account, require, sampling_of, train
from shoal.learning.torch_loop import MODULE_CHOSEN_BLIND, Learner, train_module
from shoal.randomness import simulated, simulator

FALSE_ALARM = 1e-7
slow = pytest.mark.slow
quiet = pytest.mark.filterwarnings("ignore")  # Opacus warns about its defaults


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    guarantee = account(n=1, noise_multiplier=1.0)
    with pytest.raises(MissingExtraError, match=r"needs torch: pip install 'torch>="):
        train_module(object(), object(), [[1.0]], [1.0], guarantee)


@pytest.fixture
def torch():
    found = pytest.importorskip("torch", exc_type=ImportError)
    found.manual_seed(1)
    found.set_num_threads(1)
    return found


@pytest.fixture
def opacus():
    return pytest.importorskip("opacus", exc_type=ImportError)


def modules(torch):
    nn = torch.nn
    return {
        "layers": nn.Sequential(nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 3)),
        "convolution": nn.Sequential(
            nn.Unflatten(1, (1, 4, 4)),
            nn.Conv2d(1, 4, 3, padding=1),
            nn.GroupNorm(2, 4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64, 3),
        ),
    }


def data(torch, n=32):
    return torch.randn(n, 16), torch.randint(0, 3, (n,))


# Gradients of single examples.


@slow
@quiet
@pytest.mark.parametrize("name", ["layers", "convolution"])
def test_gradients_are_those_of_opacus_and_of_one_example_at_a_time(torch, opacus, name):
    module, (examples, answers) = modules(torch)[name], data(torch)
    loss = torch.nn.CrossEntropyLoss()
    found = Learner(module=module, loss=loss).gradients(examples, answers)
    wrapped = opacus.GradSampleModule(copy.deepcopy(module), loss_reduction="sum")
    summed = torch.nn.CrossEntropyLoss(reduction="sum")
    summed(wrapped(examples), answers).backward()
    exact = copy.deepcopy(module).double()
    for i in range(len(examples)):
        exact.zero_grad()
        loss(exact(examples[i : i + 1].double()), answers[i : i + 1]).backward()
        for key, parameter in exact.named_parameters():
            assert torch.allclose(found[key][i].double(), parameter.grad, atol=1e-5)
    for key, parameter in wrapped.named_parameters():
        theirs = parameter.grad_sample
        assert torch.allclose(found[key.removeprefix("_module.")], theirs, atol=1e-5)


@slow
def test_each_gradient_is_clipped_over_all_parameters_together(torch):
    module, (examples, answers) = modules(torch)["layers"], data(torch)
    learner = Learner(module=module, loss=torch.nn.CrossEntropyLoss())
    singly = learner.gradients(examples, answers)
    rows = torch.cat([gradient.flatten(1) for gradient in singly.values()], dim=1)
    norms = rows.norm(dim=1)
    clip = float(norms.median())
    summed = learner.clipped_sum(examples, answers, clip=clip)
    expected = (rows * (clip / norms).clamp(max=1.0)[:, None]).sum(dim=0)
    found = torch.cat([gradient.flatten() for gradient in summed.values()])
    assert torch.allclose(found, expected.double(), rtol=1e-3, atol=1e-4)
    for i in range(len(examples)):
        one = learner.clipped_sum(examples[i : i + 1], answers[i : i + 1], clip=clip)
        assert torch.cat([gradient.flatten() for gradient in one.values()]).norm() <= clip


@slow
def test_a_gradient_that_is_not_finite_counts_as_zero(torch):
    module = torch.nn.Linear(1, 1)
    examples, answers = torch.tensor([[1.0], [3e38]]), torch.zeros(2, 1)
    learner = Learner(module=module, loss=torch.nn.MSELoss())
    both = learner.clipped_sum(examples, answers, clip=0.1)
    first = learner.clipped_sum(examples[:1], answers[:1], clip=0.1)
    assert all(torch.equal(both[name], first[name]) for name in both)


# The loop.


@slow
@pytest.mark.parametrize("at_once", [3, 256])
def test_with_hardly_any_noise_it_is_plain_descent(torch, monkeypatch, at_once):
    """The same orders, examples one by one; noise is left out by hand."""
    module, (examples, answers) = modules(torch)["layers"], data(torch)
    plain, orders = copy.deepcopy(module), []
    source = simulated(2)
    drawn = source.permutation
    source.permutation = lambda n: orders.append(drawn(n)) or orders[-1]
    nothing = "shoal.learning.torch_loop.standard_normals"
    monkeypatch.setattr(nothing, lambda size, **_: np.zeros(size))
    loss, clip, rate = torch.nn.CrossEntropyLoss(), 0.5, 0.2
    task = (module, loss, examples, answers)
    guarantee = account(n=32, noise_multiplier=9.0, epochs=2, batch=8)
    asked = {"clip": clip, "rate": rate, "at_once": at_once}
    train_module(*task, guarantee, **asked, randomness=source)
    assert len(orders) == 2
    assert not np.array_equal(*orders)
    for taken in np.concatenate(orders).reshape(-1, 8):
        total = [torch.zeros_like(parameter) for parameter in plain.parameters()]
        for i in taken:
            lost = loss(plain(examples[i : i + 1]), answers[i : i + 1])
            single = torch.autograd.grad(lost, list(plain.parameters()))
            norm = torch.cat([gradient.flatten() for gradient in single]).norm()
            factor = min(1.0, clip / float(norm))
            total = [sum_ + factor * each for sum_, each in zip(total, single, strict=True)]
        for parameter, gradient in zip(plain.parameters(), total, strict=True):
            parameter.data.sub_(rate * gradient / 8)
    for parameter, expected in zip(module.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(parameter, expected, atol=1e-4)


@slow
def test_noise_has_the_size_accounted_for(torch):
    """Where the loss does not depend on the module every move is noise."""
    module = torch.nn.Linear(300, 20).double()
    before = torch.nn.utils.parameters_to_vector(module.parameters()).detach().clone()
    told = []
    fit = train_module(
        module,
        lambda outputs, _: 0.0 * outputs.sum(),
        torch.randn(40, 300, dtype=torch.float64),
        torch.zeros(40),
        account(n=40, noise_multiplier=3.0, batch=10),
        clip=0.5,
        rate=1.0,
        randomness=simulated(3),
        progress=lambda done, total: told.append((done, total)),
    )
    moved = torch.nn.utils.parameters_to_vector(module.parameters()).detach() - before
    steps = fit.guarantee.steps
    assert steps == 4
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    standard = moved.numpy() / (3.0 * 0.5 / 10 * steps**0.5)
    assert stats.kstest(standard, "norm").pvalue > FALSE_ALARM
    square = float(np.square(standard).sum())
    assert min(stats.chi2.cdf(square, standard.size), stats.chi2.sf(square, standard.size)) > 1e-7


@slow
def test_the_guarantee_is_the_accountants_and_the_module_keeps_its_mode(torch):
    module, (examples, answers) = modules(torch)["layers"], data(torch)
    module.eval()
    asked = {"noise_multiplier": 4.0, "epochs": 2, "batch": 5, "drop_last": True, "delta": 1e-5}
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    loss = torch.nn.CrossEntropyLoss()
    before = copy.deepcopy(module.state_dict())
    accounted = account(n=32, sampling="permutation", **asked)
    fit = train_module(module, loss, examples, answers, accounted, optimizer=optimizer)
    assert fit.guarantee == accounted.assuming(MODULE_CHOSEN_BLIND)
    assert fit.module is module
    assert not module.training
    assert all(parameter.grad is None for parameter in module.parameters())
    assert all(not torch.equal(before[name], value) for name, value in module.state_dict().items())


@slow
def test_dropout_draws_anew_for_every_example(torch):
    module = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(200, 1, bias=False))
    learner = Learner(module=module, loss=lambda outputs, _: outputs.sum())
    found = learner.gradients(torch.ones(2, 200), torch.zeros(2))["1.weight"]
    assert not torch.equal(found[0], found[1])


@slow
def test_what_is_refused(torch):
    nn = torch.nn
    examples, answers = data(torch)
    loss = nn.CrossEntropyLoss()
    linear = nn.Linear(16, 3)
    batch_norm = nn.Sequential(linear, nn.BatchNorm1d(3))
    remembering = nn.Sequential(linear, nn.InstanceNorm1d(3, track_running_stats=True))
    frozen = nn.Linear(16, 3).requires_grad_(requires_grad=False)
    stray = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    strange = examples.clone()
    strange[3, 3] = float("nan")
    given = {
        "module": linear,
        "loss": loss,
        "examples": examples,
        "answers": answers,
        "guarantee": account(n=32, noise_multiplier=3.0, batch=8),
    }
    fixed = account(n=32, noise_multiplier=3.0, batch=5, sampling="fixed")
    poisson = account(n=32, noise_multiplier=3.0, batch=8, sampling="poisson")
    for changed, expected in (
        ({"module": batch_norm}, r"GroupNorm or LayerNorm, got module='BatchNorm1d \(1\)'"),
        ({"module": remembering}, "InstanceNorm1d"),
        ({"module": frozen}, "parameters that require gradients"),
        ({"optimizer": stray}, "the module's trainable parameters"),
        ({"loss": nn.CrossEntropyLoss(reduction="none")}, "reduction='mean' or 'sum'"),
        ({"answers": answers[:5]}, "as many examples as answers"),
        ({"examples": strange}, "finite numbers"),
        ({"guarantee": fixed}, "drop_last"),
        ({"guarantee": poisson}, "permutation or fixed"),
        ({"guarantee": account(n=50, noise_multiplier=3.0)}, "n = 32, as many as there are"),
        ({"at_once": 0}, "whole number at_once"),
        ({"clip": -1.0}, "clip > 0"),
    ):
        asked = given | changed
        parts = [asked.pop(name) for name in given]
        with pytest.raises(InvalidArgumentError, match=expected):
            train_module(*parts, **asked)


# Real loaders.


@slow
@quiet
def test_real_loaders_are_told_apart(torch, opacus):
    utils = torch.utils.data
    examples = utils.TensorDataset(torch.randn(12, 2))
    again = utils.RandomSampler(examples, replacement=True)
    loaders = {
        "permutation": utils.DataLoader(examples, batch_size=4, shuffle=True),
        "fixed": utils.DataLoader(examples, batch_size=4),
        "replacement": utils.DataLoader(examples, batch_size=1, sampler=again),
        "poisson": opacus.data_loader.DPDataLoader(examples, sample_rate=0.25),
    }
    for kind, loader in loaders.items():
        assert sampling_of(loader) == kind
        for other in loaders:
            if other == kind:
                require(loader, other)
                continue
            with pytest.raises(InvalidArgumentError, match="a guarantee for"):
                require(loader, other)
    weighted = utils.WeightedRandomSampler([1.0] * 12, 12)
    with pytest.raises(InvalidArgumentError, match="weights"):
        sampling_of(utils.DataLoader(examples, batch_size=4, sampler=weighted))
    with pytest.raises(InvalidArgumentError, match="drop_last"):
        sampling_of(utils.DataLoader(examples, batch_size=5, shuffle=True))


# Beside Opacus, at the same (epsilon, delta).


def cancer():
    """Breast cancer, 455 examples to train on: the features' largest values are taken for public.

    Divided by them and moved to the middle, features lie between -1/2 and 1/2.
    """
    datasets = pytest.importorskip("sklearn.datasets", exc_type=ImportError)
    found = datasets.load_breast_cancer()
    return _split(found.data / found.data.max(axis=0) - 0.5, found.target, 455)


def digits():
    """Handwritten digits: 1536 to train on, 261 to test on; pixels are public to be 0 to 16."""
    datasets = pytest.importorskip("sklearn.datasets", exc_type=ImportError)
    found = datasets.load_digits()
    return _split(found.data / 16, found.target, 1536)


def _split(examples, answers, size):
    order = simulator(1).permutation(len(examples))
    train_rows, test_rows = order[:size], order[size:]
    return SimpleNamespace(
        examples=examples[train_rows],
        answers=answers[train_rows],
        unseen=examples[test_rows],
        truth=answers[test_rows],
    )


EPSILON, DELTA, RUNS = 4.0, 1e-5, 5


def _by_opacus(torch, opacus, shown, module, asked, seed):
    """The share of right answers after Poisson sampling, Opacus' own loop and accountant."""
    utils = torch.utils.data
    rows = torch.tensor(shown.examples, dtype=torch.float32), torch.tensor(shown.answers)
    loader = utils.DataLoader(utils.TensorDataset(*rows), batch_size=asked["batch"])
    engine = opacus.PrivacyEngine()
    torch.manual_seed(seed)
    made = module()
    module, optimizer, loader = engine.make_private_with_epsilon(
        module=made,
        optimizer=torch.optim.SGD(made.parameters(), lr=asked["rate"]),
        data_loader=loader,
        target_epsilon=EPSILON,
        target_delta=DELTA,
        epochs=asked["epochs"],
        max_grad_norm=1.0,
    )
    require(loader, "poisson")
    loss = torch.nn.CrossEntropyLoss()
    for _ in range(asked["epochs"]):
        for examples, answers in loader:
            optimizer.zero_grad()
            loss(module(examples), answers).backward()
            optimizer.step()
    assert engine.get_epsilon(DELTA) <= EPSILON
    return _right(torch, module, shown)


def _right(torch, module, shown):
    with torch.no_grad():
        scores = module(torch.tensor(shown.unseen, dtype=torch.float32))
    return float((scores.argmax(dim=1).numpy() == shown.truth).mean())


@slow
@quiet
def test_linear_models_beside_opacus(torch, opacus):
    """Breast cancer, epsilon 4: one example a step, all examples in every step, and Opacus."""
    shown, found = cancer(), {}
    n = len(shown.examples)
    ways = {"single": {"epochs": 20, "batch": 1}, "whole": {"epochs": 50, "batch": n}}
    for way, passes in ways.items():
        guarantee = account(epsilon=EPSILON, n=n, delta=DELTA, **passes)
        rows, asked = (shown.examples, shown.answers), {"descent": Descent(radius=20.0)}
        fits = [
            train(*rows, guarantee, **asked, intercept=True, randomness=simulated(run))
            for run in range(RUNS)
        ]
        assert all(fit.guarantee.epsilon <= EPSILON for fit in fits)
        found[way] = np.mean([fit.score(shown.unseen, shown.truth) for fit in fits])
    asked = {"epochs": 20, "batch": 65, "rate": 1.0}
    task = (torch, opacus, shown, lambda: torch.nn.Linear(30, 2), asked)
    found["opacus"] = np.mean([_by_opacus(*task, run) for run in range(RUNS)])
    usual = max(shown.truth.mean(), 1 - shown.truth.mean())
    assert usual < 0.7
    assert found["single"] > 0.85, found
    assert found["whole"] > 0.92, found
    assert found["opacus"] > 0.92, found
    assert abs(found["whole"] - found["opacus"]) < 0.06, found


@slow
@quiet
def test_networks_beside_opacus(torch, opacus):
    """Digits, epsilon 4: in batches Poisson sampling is amplified and permutations are not.

    With all examples in every step neither is, and both find about the same.
    """
    shown, nn = digits(), torch.nn
    rows = torch.tensor(shown.examples, dtype=torch.float32), torch.tensor(shown.answers)

    def network():
        return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))

    def ours(guarantee, rate, run):
        torch.manual_seed(run)
        module = network()
        asked = {"rate": rate, "randomness": simulated(run)}
        fit = train_module(module, nn.CrossEntropyLoss(), *rows, guarantee, **asked)
        assert fit.guarantee.epsilon <= EPSILON
        return _right(torch, module, shown)

    found = {}
    ways = {
        "batches": {"epochs": 20, "batch": 256, "rate": 1.0},
        "whole": {"epochs": 40, "batch": 1536, "rate": 2.0},
    }
    for way, asked in ways.items():
        passes = {"epochs": asked["epochs"], "batch": asked["batch"]}
        guarantee = account(epsilon=EPSILON, n=1536, delta=DELTA, **passes)
        found[way] = np.mean([ours(guarantee, asked["rate"], run) for run in range(RUNS)])
        runs = [_by_opacus(torch, opacus, shown, network, asked, run) for run in range(RUNS)]
        found[f"opacus, {way}"] = np.mean(runs)
    assert min(found.values()) > 0.75, found
    assert abs(found["whole"] - found["opacus, whole"]) < 0.06, found
    assert abs(found["batches"] - found["opacus, batches"]) < 0.15, found


@slow
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_half_precision_is_refused(torch, precision):
    module = torch.nn.Linear(3, 1).to(getattr(torch, precision))
    with pytest.raises(InvalidArgumentError, match="single or double precision"):
        Learner(module=module, loss=torch.nn.MSELoss())


@slow
def test_a_module_that_writes_to_its_buffers_remembers_nobody(torch):
    class Curious(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x):
            self.seen = 0.9 * self.seen + 0.1 * x.mean(0)
            return self.layer(x)

    module = Curious()
    learner = Learner(module=module, loss=torch.nn.MSELoss())
    learner.clipped_sum(torch.ones(4, 2), torch.ones(4, 1), clip=1.0)
    assert torch.equal(module.seen, torch.zeros(2))


@slow
def test_one_example_moves_a_long_sum_by_no_more_than_twice_the_norm(torch):
    torch.manual_seed(3)
    module = torch.nn.Linear(20, 1)
    learner = Learner(module=module, loss=torch.nn.MSELoss())
    examples, answers = 100 * torch.randn(4096, 20), 100 * torch.randn(4096, 1)
    before = learner.clipped_sum(examples, answers, clip=1.0)
    outputs = module(examples[:1]).detach()
    answers[0] = 2 * outputs[0] - answers[0]  # the gradient turned round
    after = learner.clipped_sum(examples, answers, clip=1.0)
    moved = sum(float((before[name] - after[name]).square().sum()) for name in before)
    assert 1.9 < moved**0.5 <= 2.0
