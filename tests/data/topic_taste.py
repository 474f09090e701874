"""What the topics of known edges say about a source of the simulated network."""

import numpy as np

from edgeformers.data.simulate.model import taste_table


def taste_given_topics(model, counts):
    """P(topic of the next edge | topics of known edges of its source) [n, topics].

    `counts` [n, topics] are the topics of each source's known edges. A text reveals its topic
    and nothing else about the source's taste, so this is the best prediction from texts;
    `Model.taste` knows the source itself.
    """
    topics = model.config.topics
    pairs = np.stack(np.divmod(np.arange(topics**2), topics), axis=1)
    tastes = taste_table(model.config, pairs[(pairs[:, 0] != pairs[:, 1]) | (topics == 1)])
    logs = counts @ np.log(np.maximum(tastes, np.finfo(float).tiny)).T  # [n, pairs of favorites]
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    return likelihood @ tastes / likelihood.sum(axis=1, keepdims=True)
