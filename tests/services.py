"""Real servers for tests: PostgreSQL and Spark, found or started, or a reason why not.

PostgreSQL is the one that SQLMADP_TEST_POSTGRES names (a postgresql:// URL of a role that may
create schemas), or is started from the system's binaries, as another user where this one is
root.  Spark runs in this process, or as a small cluster of its own, on the Java of PATH.
"""

import importlib.util
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

REQUIRED = frozenset(os.environ.get("SQLMADP_REQUIRE_SERVICES", "").split())
"""Services, postgres and spark, whose absence is a failure and no reason to skip."""


class MissingServiceError(Exception):
    """Why a service cannot be had."""


@contextmanager
def postgres():
    """Yield the URL of a PostgreSQL server."""
    if importlib.util.find_spec("psycopg") is None:
        raise MissingServiceError("psycopg is not installed")
    if given := os.environ.get("SQLMADP_TEST_POSTGRES"):
        yield given
        return
    folder = Path(tempfile.mkdtemp(prefix="sqlmadp-postgres-"))
    try:
        yield from _started(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _started(folder):
    user = _unprivileged()
    if "user" in user:
        os.chown(folder, user["user"], user["group"])
    data, port = folder / "data", _free_port()

    def run(program, *arguments):
        subprocess.run(
            [_binary(program), *arguments],
            check=True,
            capture_output=True,
            cwd=folder,
            timeout=60,
            **user,
        )

    run("initdb", "-D", data, "-U", "curator", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    control = ("pg_ctl", "-D", data, "-l", folder / "log", "-w")
    run(*control, "-o", options, "start")
    try:
        yield f"postgresql://curator:secret-7310@127.0.0.1:{port}/postgres"
    finally:
        run(*control, "-m", "immediate", "stop")


def _binary(name):
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    found = shutil.which(name, path=os.pathsep.join(map(str, folders))) or shutil.which(name)
    if found is None:
        raise MissingServiceError(
            f"PostgreSQL's {name} is not installed, and SQLMADP_TEST_POSTGRES names no server"
        )
    return found


def _version(folder):
    return [int(part) for part in re.findall("[0-9]+", folder.parent.name)]


def _unprivileged():
    """Return whom to run PostgreSQL as, which refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise MissingServiceError(
        "PostgreSQL does not run as root, and there is no other user to run it as"
    )


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _require_spark():
    if importlib.util.find_spec("pyspark") is None:
        raise MissingServiceError("pyspark is not installed")
    java = shutil.which("java")
    if java is None:
        raise MissingServiceError("there is no java on PATH")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < 17:
        raise MissingServiceError("the java on PATH is older than 17")


@contextmanager
def spark(master="local[1]"):
    """Yield a small Spark session, with nothing on the console."""
    _require_spark()
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="sqlmadp-spark-") as folder:
        conf = SparkConf().setMaster(master).setAppName("tests")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.adaptive.enabled": "false",
            "spark.default.parallelism": "1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": folder,
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.sql.artifact.isolation.enabled": "false",
        }.items():
            conf.set(name, value)
        nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
        gateway = launch_gateway(conf, popen_kwargs=nowhere)
        context = SparkContext(conf=conf, gateway=gateway)
        try:
            yield SparkSession(context)
        finally:
            context.stop()


@contextmanager
def spark_cluster():
    """Yield the URL of a Spark master with one worker, processes of their own."""
    _require_spark()
    home = Path(importlib.util.find_spec("pyspark").origin).parent
    master = f"spark://127.0.0.1:{_free_port()}"
    place = ("--host", "127.0.0.1", "--webui-port", "0")
    running = []
    with tempfile.TemporaryDirectory(prefix="sqlmadp-spark-") as folder:

        def start(name, sign, *arguments):
            log = Path(folder) / f"{name}.log"
            with log.open("wb") as file:
                process = subprocess.Popen(
                    [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
                    cwd=folder,
                    env=os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            running.append(process)
            for _ in range(1200):
                if sign in log.read_text(errors="replace"):
                    return
                time.sleep(0.1)
            raise MissingServiceError(f"Spark's {name} does not start")

        try:
            start("master.Master", "New state: ALIVE", *place, "--port", master.rpartition(":")[2])
            size = ("--cores", "1", "--memory", "1g", "--work-dir", folder)
            start("worker.Worker", "Successfully registered", *place, *size, master)
            yield master
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait()
