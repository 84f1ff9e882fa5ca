"""Counts that the guard of the step fit is judged on: from topics that come back to noise that does not.

A cell is a shape (E, R, S), a kind of signal and a seed; one .npy file int64 [32 + 64, 8, E] each: 32 record slots to
fit on (the first 3, 8 or 32 of them) and 64 held out, all drawn in the same way.

  topics       8 topics shared by all layers, log-normal (0.8) over the experts, Dirichlet (0.4) mixed per slot
  weak-bursts  topics of 0.25, and a log-normal burst (0.3) of every expert, layer and slot of its own
  bursts       the bursts only
  noise        neither: what is left is the multinomial noise of 65,536 routed tokens a slot and layer
"""
import numpy as np

SHAPES = [(256, 16, 17), (256, 32, 9), (128, 16, 9), (256, 144, 2)]
SIGNALS = {"topics": (0.8, 0.0), "weak-bursts": (0.25, 0.3), "bursts": (0.0, 0.3), "noise": (0.0, 0.0)}
FITTED = [3, 8, 32]
LAYERS, SLOTS, TOPICS, TOKENS = 8, 32 + 64, 8, 65536


def cell(experts, signal, seed):
    """int64 [SLOTS, LAYERS, experts]."""
    topic_spread, burst_spread = SIGNALS[signal]
    rng = np.random.default_rng([seed, experts, list(SIGNALS).index(signal)])
    popularity = rng.lognormal(0, 0.8, (LAYERS, experts))
    topics = rng.lognormal(0, topic_spread, (LAYERS, TOPICS, experts)) if topic_spread else np.ones((LAYERS, TOPICS, experts))
    mix = rng.dirichlet(np.full(TOPICS, 0.4), SLOTS)
    share = popularity[None] * np.einsum("tk,lke->tle", mix, topics)
    if burst_spread:
        share = share * rng.lognormal(0, burst_spread, share.shape)
    share /= share.sum(-1, keepdims=True)
    return rng.multinomial(TOKENS, share)
