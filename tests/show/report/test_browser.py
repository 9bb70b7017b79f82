"""The report in a real browser: Debian's Chromium, without a window, through its driver.

Without the browser the tests are skipped with the reason; where SQLMADP_BROWSER=required is set
(as in CI) they fail instead.
"""

import base64
import importlib
import os
import re
import shutil

import pytest

REQUIRED = os.environ.get("SQLMADP_BROWSER") == "required"
find = importlib.import_module if REQUIRED else pytest.importorskip
webdriver = find("selenium.webdriver")
WebDriverWait = find("selenium.webdriver.support.wait").WebDriverWait
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
WIDTHS = {"phone": 360, "desktop": 1280}
NAMES = ["preview", "released", "bob"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        reason = f"{' and '.join(missing)} not found: apt-get install chromium chromium-driver"
        pytest.fail(reason) if REQUIRED else pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def show(browser, path, *, width=1280, scheme="light", media="screen"):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    browser.get(path.as_uri())


TOO_WIDE = """
// Not innerWidth: a phone zooms out, and then that is as wide as whatever sticks out.
const wide = [], root = document.documentElement;
for (const part of document.querySelectorAll("body *")) {
  if (part.closest(arguments[0])) continue;
  const box = part.getBoundingClientRect();
  if (box.width && (box.right > root.clientWidth + 1 || box.left < -1)) wide.push(part.outerHTML);
}
return [root.scrollWidth - root.clientWidth, wide];
"""
APART = ".skip, svg, thead, thead *"
"""Parts that not everybody sees, and charts, which are looked into one by one."""
IN_A_FRAME = f".scroll *, {APART}"
"""What lies inside a frame scrolls there."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wider_than_the_screen(browser, pages, tmp_path, name, width, scheme):
    show(browser, pages.path(name), width=WIDTHS[width], scheme=scheme)
    beyond, wide = browser.execute_script(TOO_WIDE, IN_A_FRAME)
    assert beyond <= 0
    assert wide == []
    picture = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
    kept = tmp_path / f"{name}-{width}-{scheme}.png"
    kept.write_bytes(base64.b64decode(picture["data"]))
    assert kept.stat().st_size > 10_000


SCROLLED = """
for (const part of document.querySelectorAll("details")) part.open = true;
return [...document.querySelectorAll("table")].map(table => {
  const frame = table.closest(".scroll"), sticksOut = frame.scrollWidth > frame.clientWidth + 1;
  frame.scrollLeft = 100000;
  const end = table.getBoundingClientRect().right - frame.getBoundingClientRect().right;
  return [frame.ariaLabel, frame.tabIndex, sticksOut, frame.scrollLeft > 0, end];
});
"""


def test_a_table_that_is_too_wide_scrolls_inside_its_frame(browser, wide_page):
    show(browser, wide_page, width=800)
    frames = browser.execute_script(SCROLLED)
    for label, tab_index, sticks_out, scrolls, end in frames:
        assert label
        assert tab_index == 0
        assert scrolls == sticks_out
        assert end <= 1  # The last column can be scrolled to.
    scrolling = " ".join(label for label, _, sticks_out, *_ in frames if sticks_out)
    for name in ("n by home and work", "everything_at_once"):
        assert name in scrolling
    beyond, wide = browser.execute_script(TOO_WIDE, IN_A_FRAME)
    assert beyond <= 0
    assert wide == []


@pytest.mark.parametrize("name", [*NAMES, "wide"])
def test_nothing_is_cut_off_on_a_phone(browser, pages, wide_page, name):
    show(browser, wide_page if name == "wide" else pages.path(name), width=360)
    frames = browser.execute_script(SCROLLED)
    assert len(frames) > 2
    assert [label for label, _, sticks_out, *_ in frames if sticks_out] == []
    beyond, wide = browser.execute_script(TOO_WIDE, APART)
    assert beyond <= 0
    assert wide == []


def test_a_file_is_downloaded_under_the_policy_of_the_page(browser, pages, tmp_path):
    show(browser, pages.path("bob"))
    folder = {"behavior": "allow", "downloadPath": str(tmp_path), "eventsEnabled": True}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", folder)
    browser.find_element("css selector", "a[download='bob_the_secret_of_bob.csv']").click()
    file = tmp_path / "bob_the_secret_of_bob.csv"
    WebDriverWait(browser, 30).until(lambda _: file.exists() and file.stat().st_size)
    head, row = file.read_text().splitlines()
    assert head.startswith("bobs_count,bobs_count_stderr")
    assert len(row.split(",")) == 4


LABELS = """
const found = [];
for (const chart of document.querySelectorAll("svg.chart")) {
  const frame = chart.getBoundingClientRect();
  for (const text of chart.querySelectorAll("[transform] text")) {  // Slanted ones.
    const box = text.getBoundingClientRect();
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1)
      found.push(text.textContent);
  }
  const texts = [...chart.querySelectorAll("text")].filter(text => !text.closest("[transform]"))
    .map(text => [text.firstChild?.nodeValue, text.getBBox()]);
  for (const [words, box] of texts) {
    if (box.x < -1 || box.x + box.width > chart.viewBox.baseVal.width + 1) found.push(words);
    for (const [others, other] of texts)
      if (other !== box && words && others && box.x < other.x && other.x < box.x + box.width
        && Math.abs(box.y - other.y) < 8) found.push(`${words} | ${others}`);
  }
}
return [document.querySelectorAll("svg.chart").length, found];
"""


def test_labels_of_a_chart_stay_in_it_and_out_of_each_other(browser, pages, wide_page):
    for path in (pages.path("released"), wide_page):
        show(browser, path)
        charts, found = browser.execute_script(LABELS)
        assert charts > 3
        assert found == []


def test_names_and_values_run_nothing_and_nothing_is_fetched(browser, pages):
    show(browser, pages.path("released"))
    assert "hacked" not in browser.title
    assert browser.execute_script("return document.querySelectorAll('img, b, iframe').length") == 0
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    complaints = [entry["message"] for entry in browser.get_log("browser")]
    assert complaints == []


def test_a_script_that_slipped_in_would_not_run(browser, pages, tmp_path):
    broken = tmp_path / "broken.html"
    injected = "<script>document.title='hacked'</script>"
    broken.write_text(pages.text("preview").replace("</main>", f"{injected}</main>"))
    show(browser, broken)
    assert "hacked" not in browser.title


def test_the_colours_follow_the_reader(browser, pages):
    grounds = {}
    for scheme in ("light", "dark"):
        show(browser, pages.path("released"), scheme=scheme)
        grounds[scheme] = browser.execute_script(
            "return getComputedStyle(document.body).backgroundColor"
        )
    assert grounds["light"] != grounds["dark"]


CONTRAST = """
function light(colour) {
  const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}
const style = getComputedStyle(document.querySelector(arguments[0]));
const ground = getComputedStyle(document.querySelector("main > section"));
const [a, b] = [light(style.color), light(ground.backgroundColor)].sort((x, y) => y - x);
return (a + 0.05) / (b + 0.05);
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("part", ["h2", "p", "caption", ".error", "nav a", "summary"])
def test_text_stands_out_from_its_ground(browser, pages, scheme, part):
    show(browser, pages.path("released"), scheme=scheme)
    assert browser.execute_script(CONTRAST, part) >= 4.5


SHADED = """
const brush = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
function light(colour) {
  brush.fillStyle = colour;
  brush.fillRect(0, 0, 1, 1);
  const parts = [...brush.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}
return [...document.querySelectorAll(".heat td:not(.self), .heat td small")].map(part => {
  const ground = getComputedStyle(part.closest("td")).backgroundColor;
  const [a, b] = [light(getComputedStyle(part).color), light(ground)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
});
"""


@pytest.mark.parametrize("media", ["screen", "print"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_stand_out_from_every_shade_of_a_heat_map(browser, pages, scheme, media):
    show(browser, pages.path("released"), scheme=scheme, media=media)
    contrasts = browser.execute_script(SHADED)
    assert len(contrasts) > 20
    assert min(contrasts) >= 4.5


def shown_analysts(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('[data-analyst]')].filter(part => !part.hidden)"
        ".map(part => part.querySelector('h3').textContent)"
    )


def test_a_keyboard_filters_by_analyst(browser, pages):
    show(browser, pages.path("released"))
    everybody = shown_analysts(browser)
    assert len(everybody) == 3
    choice = browser.find_element("css selector", "#filter input")
    choice.send_keys(webdriver.Keys.ARROW_RIGHT)
    assert shown_analysts(browser) == everybody[:1]
    browser.switch_to.active_element.send_keys(webdriver.Keys.ARROW_RIGHT)
    assert shown_analysts(browser) == everybody[1:2]


def test_without_script_everything_is_there_and_no_dead_control(browser, pages):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, pages.path("released"))
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert browser.execute_script("return document.getElementById('filter').hidden")
    assert len(shown_analysts(browser)) == 3


def test_it_prints_on_a4(browser, pages):
    show(browser, pages.path("released"), media="print")
    sheet = {"preferCSSPageSize": True, "printBackground": True}
    printed = browser.execute_cdp_cmd("Page.printToPDF", sheet)
    data = base64.b64decode(printed["data"])
    assert data.startswith(b"%PDF")
    boxes = {tuple(map(float, box.split())) for box in _media_boxes(data)}
    ((_, _, width, height),) = boxes
    assert (width, height) == pytest.approx((595.3, 841.9), abs=1)  # Points of A4.


def test_on_paper_which_does_not_scroll_every_table_fits(browser, pages, wide_page):
    for path in (pages.path("released"), wide_page):
        show(browser, path, width=688, media="print")  # A4 without its margins.
        beyond, wide = browser.execute_script(TOO_WIDE, APART)
        assert beyond <= 0
        assert wide == []


def _media_boxes(data):
    return re.findall(rb"/MediaBox \[([^\]]+)\]", data)
