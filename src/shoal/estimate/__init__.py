"""From estimates to statements: post-processing, significance, top answers.

Estimates are unbiased as they come out of a randomizer. What happens to them afterwards is a
separate, explicit step, because it trades bias for looks.
"""

from shoal.estimate.covariance import covariance
from shoal.estimate.postprocessing import above_noise, on_simplex
from shoal.estimate.ranking import Ranked, noise_floor, top

__all__ = ["Ranked", "above_noise", "covariance", "noise_floor", "on_simplex", "top"]
