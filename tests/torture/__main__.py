"""python -m tests.torture [SUITE ...]: run torture suites, resuming where they stopped."""

import argparse
import sys
from pathlib import Path

from tests.torture.driver import run_suite
from tests.torture.suites import SUITES
from tests.torture.summary import summarize, write_summary


def main() -> int:
    """Run the chosen suites and print the table; returns 1 if a target is missed."""
    options = _parse()
    options.out.mkdir(parents=True, exist_ok=True)
    summaries = {}
    for name in options.suites or SUITES:
        suite, count = SUITES[name], options.count or SUITES[name].count
        outcomes = run_suite(
            suite,
            options.out / f"{name}.jsonl",
            seed=options.seed,
            count=count,
            workers=options.workers,
            again=options.again,
            show=not options.quiet,
        )
        summaries[name] = summarize(suite, outcomes, count)
    sys.stdout.write(write_summary(options.out, summaries))
    return 0 if all(each["result"] == "met" for each in summaries.values()) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}")
    parser.add_argument("-o", "--out", type=Path, default=Path("torture"), help="for outcomes")
    parser.add_argument("--count", type=int, help="cases per suite [default: of each suite]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes [default: 1]")
    parser.add_argument("--again", action="store_true", help="run cases that failed again")
    parser.add_argument("--quiet", action="store_true", help="hide progress bars")
    options = parser.parse_args()
    if unknown := [name for name in options.suites if name not in SUITES]:
        parser.error(f"unknown suite '{unknown[0]}'; available: {', '.join(SUITES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
