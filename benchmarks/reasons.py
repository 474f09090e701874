"""How personal the reasons for recommendations are, how much they explain, and what they cost.

edgeformers prepare Magazine_Subscriptions_5.json.gz -o magazines
edgeformers train link-prediction magazines -o run --split link --recipe fast --backbone minilm
python -m benchmarks.reasons run
"""

import argparse
import time
from collections import defaultdict

import numpy as np

from edgeformers.estimators import LinkPredictor
from edgeformers.runs import open_run

MIN_SOURCES = 5  # to which a target must be recommended to be counted


def measure(predictor: LinkPredictor, k: int, explain: int) -> dict[str, float]:
    """Explain the k recommendations of every source."""
    sources = predictor.fitted_.nodes.ids_of(np.arange(predictor.fitted_.network.graph.num_sources))
    tops, explained, seconds, alike, effects = defaultdict(list), [], [], [], []
    predictor.recommend(sources[0], k, explain=explain)  # encodes all targets
    for source in sources:
        start = time.process_time()
        recommendations = predictor.recommend(source, k, explain=explain)
        seconds.append(time.process_time() - start)
        named = [[r for r in each.because if r.kind == "history"] for each in recommendations]
        first = [own[0].node for own in named if own]
        alike += [len(set(first)) == 1] if len(first) > 1 else []
        shown = [r for own in named for r in own] + [
            r for each in recommendations for r in each.quotes
        ]
        effects += [reason.effect > 0 for reason in shown]
        for each in recommendations:
            history = [reason for reason in each.because if reason.kind == "history"]
            rest = sum(abs(reason.weight) for reason in each.because if reason.kind == "rest")
            explained.append(1 - rest / sum(abs(reason.weight) for reason in each.because))
            if history:
                tops[each.node].append((history[0].node, history[0].text))
    often = [reasons for reasons in tops.values() if len(reasons) >= MIN_SOURCES]
    return {
        "targets recommended to 5 sources or more": len(often),
        "of them, with the same top reason for all": sum(len(set(each)) == 1 for each in often),
        "sources with one top reason for all targets": float(np.mean(alike)),
        "reasons and quotes that lower the score if gone": float(np.mean(effects)),
        "share of the score that is explained": float(np.mean(explained)),
        "milliseconds per source (CPU time, median)": 1e3 * float(np.median(seconds)),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="a run folder of link prediction")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--explain", type=int, default=2)
    options = parser.parse_args()
    run = open_run(options.run, show=False)
    if not isinstance(run, LinkPredictor):
        parser.error(f"{options.run} classifies edges")
    for name, value in measure(run, options.k, options.explain).items():
        print(f"{name:<49}{value:>8.4g}")
