"""Draws docs/plots/report_light.png and report_dark.png: the answers in the report of an example.

``python docs/make_report_picture.py`` releases a copy of the paper's example and photographs its
report in chromium, as the README shows it.  The answers are noisy, so every run draws others.
"""

import shutil
import tempfile
from pathlib import Path

from selenium import webdriver

from sqlmadp.files.plan import Plan
from sqlmadp.show.report import write_report

ROOT = Path(__file__).parent.parent
EXAMPLE = "covid"
WIDTH, HEIGHT = 1000, 540


def photograph(page: Path, target: Path, scheme: str) -> None:
    """Save the answers on a page as a browser that prefers ``scheme`` shows it."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(argument)
    with webdriver.Chrome(options=options) as browser:
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(page.as_uri())
        at_once = "document.querySelector('h3').scrollIntoView({behavior: 'instant'})"
        browser.execute_script(at_once)
        browser.save_screenshot(str(target))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "schemas", folder / "schemas")
        ignored = shutil.ignore_patterns("*.ledger*")
        own = folder / "examples" / EXAMPLE
        shutil.copytree(ROOT / "examples" / EXAMPLE, own, ignore=ignored)
        plan = Plan.open(own / "plan.toml")
        plan.release()
        write_report(plan, folder / "report.html")
        for scheme in ("light", "dark"):
            target = ROOT / "docs" / "plots" / f"report_{scheme}.png"
            photograph(folder / "report.html", target, scheme)
