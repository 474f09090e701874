"""A fresh environment with the wheel and the packages it requires, and nothing else."""

import os
import re
import subprocess
import sys
import venv
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parent.parent


def build_wheel(folder: Path) -> Path:
    """The wheel of this package, built from a copy without earlier build outputs."""
    subprocess.run(["make", "wheel", f"WHEELS={folder}"], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_environment(folder: Path, wheel: Path) -> Path:
    """A virtual environment with a wheel; its interpreter.

    Required packages are links to those of this environment, which saves a download of hundreds of
    megabytes. Packages of extras are not linked, so they are missing.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install"]
    # with a path to the sources, pip would find the package installed already
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    install = [*pip, "--quiet", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, env=environment)
    (facts,) = site.glob("edgeformers-*.dist-info")
    for package in required_packages(Distribution.at(facts)).values():
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            link, target = site / top, Path(str(package.locate_file(top)))
            if target.exists() and not link.exists():
                link.symlink_to(target)
    return folder / "bin" / "python"


def required_packages(root: Distribution) -> dict[str, Distribution]:
    """The installed packages that a package requires without its extras, and what they require."""
    found: dict[str, Distribution] = {}
    waiting = [root]
    while waiting:
        for requirement in waiting.pop().requires or ():
            name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")
            if "extra ==" in requirement or name in found:
                continue
            try:
                found[name] = distribution(name)
            except PackageNotFoundError:  # for another platform or Python
                continue
            waiting.append(found[name])
    return found
