"""The figures as a table of text and as a plot."""
from statistics import median
from xml.sax.saxutils import escape

PEER, OURS, BEFORE = "Open vSwitch", "Tidegate", "before"
COLOURS = {PEER: "#8c8c8c", OURS: "#1f6f8b"}


def spread(values, digits=2):
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def text(report):
    """One line a case: medians over the rounds, with the least and the most."""
    lines = [
        f"{report['machine']['processor']}, one processor a worker, frames of 60 bytes, "
        f"{report['rounds']} rounds of {report['seconds']} s, interleaved",
        f"load average at the start: {report['machine']['load_average'][0]}",
        "",
        f"{'':36} {'million packets per second of processor time':^44}",
        f"{'case':24}{'connections':>12} {PEER:>21} {OURS:>21} {'ratio':>20}  wanted",
    ]
    for row in report["results"]:
        peer, ours, ratio = (row[key] for key in ("peer_mpps", "ours_mpps", "ratio"))
        wanted = f"{row['wanted']:g}" if row["workers"] == 1 else "below"
        lines.append(f"{row['case']:24}{row['connections']:>12,} {spread(peer):>21} "
                     f"{spread(ours):>21} {spread(ratio):>20}  {wanted}")
    for row in (row for row in report["results"] if row["workers"] > 1):
        peer, ours = spread(row["peer_scaling"]), spread(row["ours_scaling"])
        case = f"{row['workers']} workers to one"
        lines.append(f"{case:24}{row['connections']:>12,} {peer:>21} {ours:>21} {'':>20}  "
                     f"{row['wanted']:g} of each switch's own")
        programs = f"{row['workers']} programs to one"
        lines.append(f"{programs:24}{row['connections']:>12,} {'':>21} "
                     f"{spread(row['apart']):>21} {'':>20}  what the machine allows")
    for row in (row for row in report["results"] if row["has_guest"]):
        for what, key, digits in (("worker busy, %", "busy_share", 0),
                                  ("sent on, %", "forwarded", 0),
                                  ("packets in a batch", "packets_per_batch", 1)):
            scale = 1 if key == "packets_per_batch" else 100
            peer, ours = (spread([scale * value for value in row[f"{side}_{key}"]], digits)
                          for side in ("peer", "ours"))
            lines.append(f"  {what:22}{'':12} {peer:>21} {ours:>21}")
    for row in (row for row in report["results"] if "before_mpps" in row):
        lines.append(f"{row['case']:24}{row['connections']:>12,} {spread(row['before_mpps']):>21} "
                     f"{spread(row['ours_mpps']):>21} {spread(row['before_ratio']):>20}  "
                     f"{report['before']}, and this program")
    return "\n".join(lines) + "\n"


def plot(report):
    """Bars of the medians, with whiskers from the least to the most."""
    rows = report["results"]
    width, height, left, top, bottom = 140 + 150 * len(rows), 420, 60, 50, 80
    most = max([max(row["peer_mpps"] + row["ours_mpps"]) for row in rows] + [1.0]) * 1.1
    floor = height - bottom
    at = lambda mpps: floor - (floor - top) * mpps / most
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="20" font-size="15">Million packets per second of processor time'
        "</text>",
    ]
    step = next((s for s in (0.5, 1, 2, 5, 10, 20, 50) if most / s <= 8), 100)
    for mark in range(int(most / step) + 1):
        y = at(mark * step)
        out.append(f'<line x1="{left}" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}" '
                   f'stroke="#ddd"/><text x="{left - 8}" y="{y + 4:.1f}" '
                   f'text-anchor="end">{mark * step:g}</text>')
    for index, row in enumerate(rows):
        middle = left + 85 + 150 * index
        for name, values, x in ((PEER, row["peer_mpps"], middle - 42),
                                (OURS, row["ours_mpps"], middle + 2)):
            y = at(median(values))
            out.append(f'<rect x="{x}" y="{y:.1f}" width="40" height="{floor - y:.1f}" '
                       f'fill="{COLOURS[name]}"/>')
            out.append(f'<line x1="{x + 20}" x2="{x + 20}" y1="{at(min(values)):.1f}" '
                       f'y2="{at(max(values)):.1f}" stroke="black"/>')
            out.append(f'<text x="{x + 20}" y="{at(max(values)) - 5:.1f}" '
                       f'text-anchor="middle">{median(values):.1f}</text>')
        below = [row["case"], f"{row['connections']:,} connections",
                 f"{median(row['ratio']):.2f} times"]
        if row["workers"] > 1:
            below.append(f"to one: {median(row['peer_scaling']):.2f} and "
                         f"{median(row['ours_scaling']):.2f}")
        for line, words in enumerate(below):
            out.append(f'<text x="{middle}" y="{floor + 18 + 16 * line}" '
                       f'text-anchor="middle">{escape(words)}</text>')
    for index, (name, colour) in enumerate(COLOURS.items()):
        x = left + 130 * index
        out.append(f'<rect x="{x}" y="30" width="12" height="12" fill="{colour}"/>'
                   f'<text x="{x + 18}" y="40">{escape(name)}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"
