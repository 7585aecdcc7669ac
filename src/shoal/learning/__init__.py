"""Private training: what noisy gradient descent over permuted examples gives away, and doing it.

:func:`account` says how private a run is, :func:`noise_for` how much noise a target needs,
:func:`compare` puts permutations beside sampling with replacement, Poisson sampling and a fixed
order, :func:`by_epochs` is a curve over epochs, and :func:`require` refuses a data
loader that does not do what a guarantee assumes. :func:`train` fits linear models under one.
"""

from shoal.learning.accountant import Comparison as Comparison
from shoal.learning.accountant import LearningGuarantee as LearningGuarantee
from shoal.learning.accountant import Refused as Refused
from shoal.learning.accountant import Route as Route
from shoal.learning.accountant import account as account
from shoal.learning.accountant import by_epochs as by_epochs
from shoal.learning.accountant import compare as compare
from shoal.learning.accountant import noise_for as noise_for
from shoal.learning.descent import Descent as Descent
from shoal.learning.descent import Fit as Fit
from shoal.learning.descent import Logistic as Logistic
from shoal.learning.descent import Ridge as Ridge
from shoal.learning.descent import train as train
from shoal.learning.run import Sampling as Sampling
from shoal.learning.run import require as require
from shoal.learning.run import sampling_of as sampling_of
