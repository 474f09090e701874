"""Train and save a model for Cornac's server; runs in an environment with Cornac.

python benchmarks/serve_cornac.py ratings.tsv save_dir

ratings.tsv has a source, a target and a rating per line. The model is the one of Cornac's guide to
serving, BPR. TRAIN_SET, from which the server takes what a user has seen, is saved with it.
"""

import sys
from pathlib import Path

import cornac


def main() -> None:
    ratings, folder = map(Path, sys.argv[1:])
    rows = [line.split("\t") for line in ratings.read_text("utf-8").splitlines()]
    data = cornac.data.Dataset.from_uir([(user, item, float(stars)) for user, item, stars in rows])
    model = cornac.models.BPR(k=10, max_iter=20, learning_rate=0.01, lambda_reg=0.01, seed=123)
    model.fit(data)
    model.save(str(folder), save_trainset=True)


if __name__ == "__main__":
    main()
