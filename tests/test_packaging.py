"""What is distributed: it installs from its sdist, passes tests there, and says who it is once."""

import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import sqlmadp

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

QUICK = (
    "tests/test_public_api.py",
    "tests/table/test_domain.py",
    "tests/sql/test_statements.py",
    "tests/cli/test_init.py",
    "tests/show/report/test_report.py::TestCommand",
)
"""A few seconds of tests that touch every part of the package, its data files included."""


def run(*command, cwd):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Build the sdist and unpack it."""
    folder = tmp_path_factory.mktemp("sdist")
    build = ("-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ROOT)
    run(sys.executable, *build, cwd=ROOT)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.mark.slow
def test_the_sdist_installs_in_a_fresh_environment_and_passes_tests_there(unpacked, tmp_path):
    fresh = tmp_path / "fresh"
    venv.create(fresh, with_pip=False)
    python = fresh / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = fresh / "lib" / version / "site-packages"
    # Dependencies come from here, so that nothing is downloaded; an editable install of ours
    # does not, since files that point elsewhere are only read in a site folder itself.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
    run(*pip, "--no-deps", "--no-build-isolation", "--no-index", unpacked, cwd=tmp_path)
    where = run(python, "-c", "import sqlmadp; print(sqlmadp.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(packages)
    said = run(python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *QUICK, cwd=unpacked)
    assert re.search(r"\d+ passed", said)
    assert "skipped" not in said


def test_the_sdist_contains_what_its_tests_and_documents_need_and_no_litter(unpacked):
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md"):
        assert (unpacked / name).is_file()
    for folder in ("tests", "docs", "examples", "schemas", "benchmarks"):
        ours = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.md")}
        assert {path.relative_to(unpacked) for path in (unpacked / folder).rglob("*.md")} == ours
    litter = [p for p in unpacked.rglob("*") if "ledger" in p.suffix or p.name == "__pycache__"]
    assert litter == []


def test_the_wheel_contains_the_package_with_its_data_files_and_nothing_else(unpacked, tmp_path):
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, unpacked)
    run(sys.executable, *build, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"sqlmadp"}
    source = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "sqlmadp").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert source <= names
    data = {"py.typed", "show/report/page.css", "files/starter/plan.toml"}
    assert {f"sqlmadp/{name}" for name in data} <= names


class TestVersion:
    def test_the_program_and_the_module_say_the_version_of_the_project(self):
        said = run(sys.executable, "-m", "sqlmadp", "--version", cwd=ROOT)
        assert PROJECT["version"] in said
        assert sqlmadp.__version__ == PROJECT["version"]

    def test_the_citation_and_the_changelog_agree(self):
        citation = (ROOT / "CITATION.cff").read_text()
        assert f"\nversion: {PROJECT['version']}\n" in citation
        changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
        assert changes[0] == PROJECT["version"]


def interpreters():
    """Return the Pythons at hand of the versions that the project says it supports."""
    stated = [
        name.rpartition(" ")[2]
        for name in PROJECT["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
    ]
    found = {}
    for version in stated:
        places = glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python"))
        found[version] = shutil.which(f"python{version}") if not places else sorted(places)[-1]
    return found


@pytest.mark.parametrize(("version", "python"), interpreters().items())
def test_every_module_compiles_on_every_stated_python_at_hand(version, python, tmp_path):
    if python is None:
        pytest.skip(f"Python {version} is not installed, so that nothing can be compiled with it")
    copied = tmp_path / "sqlmadp"
    shutil.copytree(ROOT / "sqlmadp", copied, ignore=shutil.ignore_patterns("__pycache__"))
    run(python, "-W", "error", "-m", "compileall", "-q", copied, cwd=tmp_path)


def test_the_stated_pythons_begin_with_the_required_one():
    assert PROJECT["requires-python"] == f">={min(interpreters(), key=_parts)}"


def _parts(version):
    return tuple(map(int, version.split(".")))


@pytest.mark.slow
def test_a_user_of_the_public_names_passes_a_strict_type_check(tmp_path):
    (tmp_path / "user.py").write_text(
        "from fractions import Fraction\n"
        "import sqlmadp\n"
        "connection: sqlmadp.Connection = sqlmadp.connect('plan.toml', analyst='ana')\n"
        "rows: list[tuple[object, ...]] = connection.execute('SELECT 1').fetchall()\n"
        "plan: sqlmadp.Plan = sqlmadp.Plan.open('plan.toml')\n"
        "epsilon: Fraction = plan.epsilon\n"
        "total: float = sqlmadp.compare([[[1.0]]], epsilon=1)['identity'].total_error\n"
        "wrong: int = plan.epsilon\n"
    )
    known = ("--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *known, "user.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in done.stdout.splitlines() if "error" in line]
    assert len(complaints) == 2, done.stdout
    assert (
        'user.py:8: error: Incompatible types in assignment (expression has type "Fraction"'
        in (complaints[0])
    )
