"""The generating model: hidden parameters of the nodes, and the random draws of every edge.

An edge is drawn in this order, each step independent given the ones before it:

    source       by activity                        P(source), a Zipf-like law
    topic        by the source's taste              P(topic | source)
    target       by popularity within the topic     P(target | topic), a Zipf-like law
    stars        by source and target               P(stars | temper, quality), a table
    two phrases  by stars and style                 P(sentiment | stars, style), a table, each
    the rest     uniformly                          which phrase of a sentiment, part, asides, time

Styles shift the sentiment: what a reserved reviewer writes about five stars, a warm one writes
about three. Every table is rounded to multiples of 2^-20 and ranks are powers of uniform numbers,
so that no draw depends on the last bit of a library's `exp`.
"""

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from edgeformers.data.random import hash_keys, uniform
from edgeformers.data.simulate.config import PRODUCTS, SimulationConfig
from edgeformers.data.types import Floats, IntArray, Ints, Mask

LEVELS = 5  # of temper (a source's leniency) and of quality (a target's worth)
LEAN = 0.25  # stars by which the average edge lies above the middle label
FIRST_FAVORITE = 0.65  # its share of the edges that follow taste; the second has the rest


#: The independent streams of random numbers, one for each kind of draw, numbered from 1. Further
#: asides use the numbers after ASIDE.
Stream = IntEnum(
    "Stream",
    "SOURCE_ORDER TEMPER SECOND_TOPIC TARGET_ORDER PRODUCT QUALITY SOURCE TOPIC TARGET STARS "
    "VERDICT REMARK PHRASING TIME ASIDE",
)


@dataclass(frozen=True)
class EdgeDraws:
    """The draws for some edges, before they are put into words; stars count from 0."""

    source: Ints
    target: Ints
    stars: Ints
    verdict: Ints  # sentiment level
    remark: Ints  # sentiment level

    def where(self, mask: Mask) -> "EdgeDraws":
        """The edges for which the mask is True."""
        return EdgeDraws(**{f.name: getattr(self, f.name)[mask] for f in fields(self)})


class Model:
    """The hidden parameters of one network; memory grows with its nodes, not with its edges."""

    def __init__(self, config: SimulationConfig) -> None:
        self.config = config
        sources, targets = np.arange(config.source_count), np.arange(config.target_count)

        self.source_by_rank = self._shuffled(Stream.SOURCE_ORDER, len(sources))
        rank = np.argsort(self.source_by_rank, kind="stable")
        # Sources of similar activity share a topic and differ in style: topic and style are
        # independent.
        self.style = (rank % config.styles).astype(np.int8)
        self.temper = self._pick(Stream.TEMPER, sources, LEVELS).astype(np.int8)
        first = rank // config.styles % config.topics
        offset = self._pick(Stream.SECOND_TOPIC, sources, max(config.topics - 1, 1))
        second = (first + 1 + offset) % config.topics
        self.favorites = np.stack([first, second], axis=1).astype(np.int8)  # [sources, 2]

        self.target_by_place = self._shuffled(Stream.TARGET_ORDER, len(targets))
        self.topic = np.empty(len(targets), dtype=np.int8)  # place = rank * topics + topic
        self.topic[self.target_by_place] = targets % config.topics
        kind = self._pick(Stream.PRODUCT, targets, PRODUCTS)
        self.product = (self.topic * PRODUCTS + kind).astype(np.int8)  # across all topics
        self.quality = self._pick(Stream.QUALITY, targets, LEVELS).astype(np.int8)

        self.stars_table = stars_table(config)  # [temper, quality, C]
        self.sentiment_table = sentiment_table(config)  # [style, C, sentiment]

    def draw(self, edges: Ints) -> EdgeDraws:
        """Source, target, stars and sentiments of the edges with these numbers."""
        config = self.config
        activity = _power(self.uniform(Stream.SOURCE, edges), config.source_skew)
        source = self.source_by_rank[(activity * config.source_count).astype(np.int64)]
        target = self._draw_targets(source, edges)

        pair = self.temper[source].astype(np.int64) * LEVELS + self.quality[target]
        stars = _draw_columns(self.stars_table, pair, self.uniform(Stream.STARS, edges))
        row = self.style[source] * np.int64(config.classes) + stars
        verdict = _draw_columns(self.sentiment_table, row, self.uniform(Stream.VERDICT, edges))
        remark = _draw_columns(self.sentiment_table, row, self.uniform(Stream.REMARK, edges))
        return EdgeDraws(source, target, stars, verdict, remark)

    def uniform(self, stream: int, index: Ints) -> Floats:
        """Numbers in [0, 1) that depend on seed, stream and index alone."""
        return uniform(hash_keys(self.config.seed, stream, index))

    def source_chance(self) -> Floats:
        """P(source) [sources]."""
        chance = np.empty(self.config.source_count)
        chance[self.source_by_rank] = rank_chance(len(chance), self.config.source_skew)
        return chance

    def target_chance(self) -> Floats:
        """P(target | its topic) [targets]."""
        chance = np.empty(self.config.target_count)
        for topic in range(self.config.topics):
            members = self.target_by_place[topic :: self.config.topics]
            chance[members] = rank_chance(len(members), self.config.target_skew)
        return chance

    def taste(self, sources: Ints) -> Floats:
        """P(topic | source) [sources, topics]."""
        return taste_table(self.config, self.favorites[sources])

    def _draw_targets(self, source: Ints, edges: Ints) -> Ints:
        config = self.config
        u = self.uniform(Stream.TOPIC, edges)
        uniform_topic = (u - config.taste) / max(1 - config.taste, 2.0**-60) * config.topics
        topic = np.minimum(np.maximum(uniform_topic, 0), config.topics - 1).astype(np.int64)
        first, second = self.favorites[source, 0], self.favorites[source, 1]
        topic = np.where(u < config.taste, second, topic)
        topic = np.where(u < config.taste * FIRST_FAVORITE, first, topic).astype(np.int64)

        members = (config.target_count - topic + config.topics - 1) // config.topics
        popularity = _power(self.uniform(Stream.TARGET, edges), config.target_skew)
        rank = (popularity * members).astype(np.int64)
        target: Ints = self.target_by_place[rank * config.topics + topic]
        return target

    def _shuffled(self, stream: Stream, count: int) -> Ints:
        """The numbers below `count` in random order, so that ids do not reveal ranks."""
        return np.argsort(hash_keys(self.config.seed, stream, np.arange(count)), kind="stable")

    def _pick(self, stream: Stream, index: Ints, choices: int) -> Ints:
        return (self.uniform(stream, index) * choices).astype(np.int64)


def stars_table(config: SimulationConfig) -> Floats:
    """P(stars | temper, quality) [temper, quality, C]: a bell around what both ends suggest."""
    level = np.linspace(-0.5, 0.5, LEVELS)
    middle = (config.classes - 1) / 2 + LEAN
    mean = middle + config.temper * level[:, None] + config.quality * level  # [temper, quality]
    distance = np.arange(config.classes) - mean[..., None]
    return _normalized(np.exp(-((distance / config.surprise) ** 2) / 2))


def sentiment_table(config: SimulationConfig) -> Floats:
    """P(sentiment | style, stars) [style, C, sentiment]: stars + style, sometimes one off."""
    table = np.zeros((config.styles, config.classes, config.sentiments))
    for style, stars in np.ndindex(config.styles, config.classes):
        level = stars + style
        table[style, stars, level] += 1 - config.slip
        table[style, stars, max(level - 1, 0)] += config.slip / 2
        table[style, stars, min(level + 1, config.sentiments - 1)] += config.slip / 2
    return _normalized(table)


def taste_table(config: SimulationConfig, favorites: IntArray) -> Floats:
    """P(topic | the two favorite topics [n, 2]) [n, topics]."""
    rows = np.arange(len(favorites))
    taste = np.full((len(favorites), config.topics), (1 - config.taste) / config.topics)
    for column, share in enumerate((FIRST_FAVORITE, 1 - FIRST_FAVORITE)):
        taste[rows, favorites[:, column]] += config.taste * share
    return taste


def rank_chance(count: int, skew: int) -> Floats:
    """P(rank) of rank = floor(count * u^skew), u uniform: falls like rank^(1/skew - 1)."""
    return np.diff((np.arange(count + 1) / count) ** (1 / skew))


def _power(u: Floats, exponent: int) -> Floats:
    """u^exponent by multiplication: the same bits on every machine."""
    result = u
    for _ in range(exponent - 1):
        result = result * u
    return result


def _normalized(weights: Floats) -> Floats:
    """Weights as probabilities along the last axis, in multiples of 2^-20."""
    edges = np.cumsum(weights, axis=-1) / weights.sum(axis=-1, keepdims=True)
    counts: Floats = np.diff(np.round(edges * 2**20), axis=-1, prepend=0)
    return counts / 2**20


def _draw_columns(table: Floats, rows: Ints, u: Floats) -> Ints:
    """One column per row number, drawn with the probabilities of that row of [..., C]."""
    limits = np.cumsum(table.reshape(-1, table.shape[-1]), axis=1)
    columns = np.zeros(len(rows), dtype=np.int64)
    for limit in limits.T[:-1]:  # the last limit is 1
        columns += u >= limit[rows]
    return columns
