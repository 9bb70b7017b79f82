"""What an analyst does in a notebook, as a script: connect, ask, wait, plot.

    python make_data.py            the curator's table, made up
    python analyst.py              before the release: asks, sees expected errors, hands in
    sqlmadp release plan.toml      the curator
    python analyst.py              after it: the same script plots visits.svg

The script is the same before and after: what it hands in is answered later.
"""

from pathlib import Path

import sqlmadp

FOLDER = Path(__file__).parent

BY_DAY = "SELECT day, COUNT(*) AS visits FROM visits WHERE ward = ? GROUP BY day ORDER BY day"
YOUNG = "SELECT COUNT(*) AS visits FROM visits WHERE age < ?"


def main() -> None:
    """Ask two things of the clinic's visits, and plot one of them when there are answers."""
    with sqlmadp.connect(FOLDER / "plan.toml", analyst="ana") as connection:
        if not connection.released:
            connection.hand_in(BY_DAY, ["surgery"])
            print(connection.hand_in(YOUNG, [18]))
        days = connection.execute(BY_DAY, ["surgery"])
        print(f"expected error of a day: ± {days.expected_error['visits'][0]:.1f}")
        if not connection.released:
            return
        young = connection.execute(YOUNG, [18])
        print(f"visits of minors: {young.fetchone()[0]}")
        plot(days)
        print(connection.certificate)


def plot(days: sqlmadp.Cursor) -> None:
    """Plot the visits of every day, each with its expected error, to visits.svg."""
    frame = days.result.pandas().set_index("day")
    axes = frame["visits"].plot.bar(yerr=days.expected_error["visits"], figsize=(9, 4), capsize=2)
    axes.set_xticks(range(len(frame)), [day.strftime("%d %b") for day in frame.index])
    axes.set_ylabel("visits to surgery")
    axes.figure.tight_layout()
    axes.figure.savefig(FOLDER / "visits.svg")
    print("wrote visits.svg")


if __name__ == "__main__":
    main()
