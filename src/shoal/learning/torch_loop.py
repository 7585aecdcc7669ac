"""Training any PyTorch module privately over permuted examples (``pip install '.[torch]'``).

The loop of :mod:`shoal.learning.steps` with the gradient of each example by itself from
``torch.func``: the module sees one example at a time, vectorized over the batch, so that no layer
can mix examples. Each gradient, over all parameters together, is scaled down to the norm ``clip``;
normal noise from the secure source is added to their sum in double precision; what the optimizer
makes of the mean it may remember and combine as it likes, since it sees nothing else of the data.

Batches are cut from a fresh uniform permutation in every epoch, and the guarantee is that of
:func:`shoal.learning.account` for ``sampling="permutation"``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.learning.accountant import account
from shoal.learning.guarantee import LearningGuarantee
from shoal.learning.noise import standard_normals
from shoal.learning.steps import Progress, Tell
from shoal.randomizers.base import source
from shoal.randomness import Randomness

if TYPE_CHECKING:
    import torch

    Tensor: TypeAlias = torch.Tensor
    Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
    Gradients: TypeAlias = dict[str, Tensor]

MODULE_CHOSEN_BLIND = (
    "the module (its outputs, one per class, and its first parameters), the loss and the optimizer "
    "were chosen without looking at the examples"
)
_LEAST_BYTES = 4  # of a parameter
_ROUNDING = 1.0001  # norms are rounded: what is clipped is a little shorter, never longer


@dataclass(frozen=True, kw_only=True, eq=False)
class ModuleFit:
    """The module, trained in place, and what its training reveals."""

    module: torch.nn.Module
    guarantee: LearningGuarantee


@dataclass(frozen=True, kw_only=True, eq=False)
class Learner:
    """A module and its loss: gradients of single examples, clipped sums of them."""

    module: torch.nn.Module
    loss: Loss

    def __post_init__(self) -> None:
        require_torch()
        for name, part in self.module.named_modules():
            _require_alone(name, part)
        if not self.parameters:
            expected = "a module with parameters that require gradients"
            raise InvalidArgumentError("module", type(self.module).__name__, expected)
        for name, parameter in self.parameters.items():
            if parameter.dtype.itemsize < _LEAST_BYTES:
                expected = "parameters of single or double precision: norms need their digits"
                raise InvalidArgumentError("module", f"{name} of {parameter.dtype}", expected)

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """What is trained, by name."""
        named = self.module.named_parameters()
        return {name: parameter for name, parameter in named if parameter.requires_grad}

    def gradients(self, examples: Tensor, answers: Tensor) -> Gradients:
        """One gradient per example: the examples come first in each array."""
        from torch.func import functional_call, grad, vmap

        # Handed over like the parameters: a module that writes to them writes to a copy.
        buffers = dict(self.module.named_buffers())

        def alone(parameters: Gradients, example: Tensor, answer: Tensor) -> Tensor:
            state = {**parameters, **buffers}
            outputs = functional_call(self.module, state, (example.unsqueeze(0),))
            lost = self.loss(outputs, answer.unsqueeze(0))
            if lost.ndim:
                expected = "a loss that is one number: reduction='mean' or 'sum'"
                raise InvalidArgumentError("loss", f"array of shape {tuple(lost.shape)}", expected)
            return lost

        # Dropout draws anew for every example.
        each = vmap(grad(alone), in_dims=(None, 0, 0), randomness="different")
        detached = {name: parameter.detach() for name, parameter in self.parameters.items()}
        found: Gradients = each(detached, examples, answers)
        return found

    def clipped_sum(self, examples: Tensor, answers: Tensor, *, clip: float) -> Gradients:
        """The sum of all gradients, each scaled down to the norm ``clip`` if it is longer.

        A gradient that is not finite counts as zero: that too is at most ``clip`` long.
        """
        import torch

        found = self.gradients(examples, answers)
        norms = _norms(found)
        strange = ~norms.isfinite()
        if strange.any():
            found = {name: _without(gradient, strange) for name, gradient in found.items()}
            norms = torch.where(strange, 0.0, norms)
        factors = (clip / (_ROUNDING * norms)).clamp(max=1.0)  # one for a gradient of zero
        return {
            # In double precision: roundings of long sums must not outgrow what one example moves.
            name: (factors.double() @ gradient.flatten(1).double()).view(gradient.shape[1:])
            for name, gradient in found.items()
        }


def train_module(
    module: torch.nn.Module,
    loss: Loss,
    examples: Tensor,
    answers: Tensor,
    *,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    delta: float = 1e-6,
    epochs: int = 1,
    batch: int = 1,
    clip: float = 1.0,
    optimizer: torch.optim.Optimizer | None = None,
    rate: float = 0.1,
    drop_last: bool = False,
    at_once: int = 256,
    randomness: Randomness | None = None,
    progress: Tell | None = None,
) -> ModuleFit:
    """Train a module in place by noisy gradient steps over freshly permuted examples.

    ``loss(outputs, answers)`` is one number for a batch of one example, as ``CrossEntropyLoss()``
    is. Exactly one of ``epsilon`` (the least noise that keeps it is found) and
    ``noise_multiplier``, the standard deviation of the noise over ``clip``. ``optimizer`` is any
    optimizer of the module's parameters; without one, plain descent with this ``rate``. Examples
    that do not fill a batch are refused, or with ``drop_last`` left out, other ones in each epoch.
    Gradients of ``at_once`` examples are held in memory together; ``progress`` is called with steps
    done and all steps.

    Layers that mix examples or remember them (batch normalization, running statistics) are refused.
    The guarantee covers the parameters after every step, and is about real arithmetic (see
    :mod:`shoal.learning.noise`). It assumes that the module owes nothing to the examples: one
    whose outputs are the classes found among the answers shows them.
    """
    learner = Learner(module=module, loss=loss)
    import torch

    checks.positive(clip=clip, rate=rate)
    inputs, targets = torch.as_tensor(examples), torch.as_tensor(answers)
    _require_pairs(inputs, targets)
    guarantee = account(
        n=len(inputs),
        noise_multiplier=noise_multiplier,
        epsilon=epsilon,
        epochs=epochs,
        batch=batch,
        delta=delta,
        drop_last=drop_last,
    ).assuming(MODULE_CHOSEN_BLIND)
    chosen = optimizer
    if chosen is None:
        chosen = torch.optim.SGD(learner.parameters.values(), lr=rate)
    _require_own(chosen, learner)
    noisy = _NoisySteps(
        learner=learner,
        optimizer=chosen,
        clip=clip,
        noise=guarantee.noise_multiplier * clip,
        at_once=checks.count(at_once=at_once),
        randomness=source(randomness),
    )
    told = Progress(progress, guarantee.steps)
    with _training(module):
        for taken in _batches(guarantee, noisy.randomness):
            rows = torch.from_numpy(taken)
            noisy.step(inputs[rows], targets[rows])
            told.add(1)
    return ModuleFit(module=module, guarantee=guarantee)


@dataclass(frozen=True, kw_only=True, eq=False)
class _NoisySteps:
    learner: Learner
    optimizer: torch.optim.Optimizer
    clip: float
    noise: float
    at_once: int
    randomness: Randomness

    def step(self, examples: Tensor, answers: Tensor) -> None:
        """One step over a batch."""
        import torch

        parameters = self.learner.parameters
        total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
        device = next(iter(total.values())).device
        for start in range(0, len(examples), self.at_once):
            part = self.learner.clipped_sum(
                examples[start : start + self.at_once].to(device),
                answers[start : start + self.at_once].to(device),
                clip=self.clip,
            )
            for name, gradient in part.items():
                total[name] += gradient
        sizes = [parameter.numel() for parameter in parameters.values()]
        drawn = standard_normals(sum(sizes), randomness=self.randomness) * self.noise
        shares = np.split(drawn, np.cumsum(sizes)[:-1])
        for (name, parameter), share in zip(parameters.items(), shares, strict=True):
            noisy = total[name] + torch.from_numpy(share).to(device).view_as(parameter)
            parameter.grad = (noisy / len(examples)).to(parameter.dtype)  # rounded with its noise
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def require_torch() -> None:
    """Say which extra is missing if PyTorch is."""
    if find_spec("torch") is None:
        raise MissingExtraError("PyTorch training", "torch")


def _without(gradients: Tensor, strange: Tensor) -> Tensor:
    """Zero in place of the gradients of these examples."""
    import torch

    return torch.where(strange.view(-1, *[1] * (gradients.ndim - 1)), 0.0, gradients)


def _norms(gradients: Gradients) -> Tensor:
    """The norm of each example's gradient over all parameters, in single precision or better."""
    import torch

    parts = [
        torch.linalg.vector_norm(
            gradient.flatten(1), dim=1, dtype=torch.promote_types(gradient.dtype, torch.float32)
        )
        for gradient in gradients.values()
    ]
    together: Tensor = torch.linalg.vector_norm(torch.stack(parts), dim=0)
    return together


@contextmanager
def _training(module: torch.nn.Module) -> Iterator[None]:
    """Its layers behave as in training, and afterwards as before."""
    before = module.training
    module.train()
    try:
        yield
    finally:
        module.train(before)


def _batches(run: LearningGuarantee, randomness: Randomness) -> Iterator[npt.NDArray[np.int64]]:
    """A fresh order in every epoch, cut into whole batches."""
    for _ in range(run.epochs):
        order = randomness.permutation(run.n)
        whole = run.n // run.batch * run.batch
        for start in range(0, whole, run.batch):
            yield order[start : start + run.batch]


def _require_alone(name: str, part: torch.nn.Module) -> None:
    from torch.nn.modules.batchnorm import _BatchNorm

    if isinstance(part, _BatchNorm) or getattr(part, "track_running_stats", False):
        where = f" ({name})" if name else ""
        expected = "layers that treat every example by itself, such as GroupNorm or LayerNorm"
        raise InvalidArgumentError("module", f"{type(part).__name__}{where}", expected)


def _require_pairs(examples: Tensor, answers: Tensor) -> None:
    if not examples.ndim or not answers.ndim or len(examples) != len(answers):
        shapes = f"shapes {tuple(examples.shape)} and {tuple(answers.shape)}"
        expected = "as many examples as answers, along the first axis"
        raise InvalidArgumentError("examples", shapes, expected)
    if not examples.isfinite().all():
        raise InvalidArgumentError("examples", "nan or inf", "finite numbers in examples")


def _require_own(optimizer: torch.optim.Optimizer, learner: Learner) -> None:
    """An optimizer of other parameters would step with gradients that nobody made private."""
    own = {id(parameter) for parameter in learner.parameters.values()}
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if any(id(parameter) not in own for parameter in held):
        expected = "an optimizer of the module's trainable parameters and no others"
        raise InvalidArgumentError("optimizer", type(optimizer).__name__, expected)
