"""python -m tests.torture [SUITE ...]: run torture suites, resuming where they stopped."""

import argparse
import sys
from pathlib import Path

from tests.torture.driver import OutcomeFile, run_suite
from tests.torture.suites import SUITES
from tests.torture.summary import publish, summarize, write_summary


def main() -> int:
    """Run the chosen suites and print the table; returns 1 if a target is missed."""
    options = _parse()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = options.suites or list(SUITES)
    summaries = {}
    for name, suite in SUITES.items():
        path, count = options.out / f"{name}.jsonl", options.count or suite.count
        if name in chosen:
            outcomes = run_suite(
                suite,
                path,
                seed=options.seed,
                count=count,
                workers=options.workers,
                again=options.again,
                show=not options.quiet,
            )
        else:  # of an earlier call
            outcomes = list(OutcomeFile(path, options.seed).read().values())
        if outcomes:
            summaries[name] = summarize(suite, outcomes, count)
    sys.stdout.write(write_summary(options.out, summaries))
    if options.publish:
        publish(options.out)
    return 0 if all(summaries[name]["result"] == "met" for name in chosen) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}")
    parser.add_argument("-o", "--out", type=Path, default=Path("torture"), help="for outcomes")
    parser.add_argument("--count", type=int, help="cases per suite [default: of each suite]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes [default: 1]")
    parser.add_argument("--again", action="store_true", help="run cases that failed again")
    parser.add_argument("--publish", action="store_true", help="update docs/reliability.md")
    parser.add_argument("--quiet", action="store_true", help="hide progress bars")
    options = parser.parse_args()
    if unknown := [name for name in options.suites if name not in SUITES]:
        parser.error(f"unknown suite '{unknown[0]}'; available: {', '.join(SUITES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
