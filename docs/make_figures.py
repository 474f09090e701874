"""Draw the figures of the concepts and models pages as SVG: python docs/make_figures.py."""

from dataclasses import dataclass, field
from pathlib import Path

FIGURES = Path(__file__).parent / "figures"
STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2426; }
.small { font-size: 12px; fill: #5d676b; }
.middle { text-anchor: middle; }
.box { fill: #f4f5f1; stroke: #c9cdc8; }
.node { fill: #0b7268; stroke: none; }
.on-node { fill: #ffffff; }
.virtual { fill: #d5ebe7; stroke: #0b7268; }
.line { stroke: #9aa3a3; fill: none; }
.accent { stroke: #0b7268; fill: none; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9e7; } .small { fill: #9aa5a6; }
  .box { fill: #1d2324; stroke: #3a4345; } .node { fill: #58c4b4; } .on-node { fill: #15191a; }
  .virtual { fill: #163b37; stroke: #58c4b4; } .line { stroke: #6c7778; }
  .accent { stroke: #58c4b4; }
}
"""


@dataclass
class Drawing:
    """An SVG picture, drawn from back to front."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def box(
        self, x: float, y: float, w: float, h: float, words: str = "", kind: str = "box"
    ) -> None:
        """A rectangle with centered words."""
        place = f'x="{x}" y="{y}" width="{w}" height="{h}"'
        self.parts.append(f'<rect class="{kind}" {place} rx="4"/>')
        self.words(x + w / 2, y + h / 2 + 5, words, "middle")

    def node(self, x: float, y: float, words: str, radius: float = 22) -> None:
        """A node of the network with its name."""
        self.parts.append(f'<circle class="node" cx="{x}" cy="{y}" r="{radius}"/>')
        self.words(x, y + 5, words, "middle on-node")

    def line(self, *points: tuple[float, float], kind: str = "line", arrow: bool = False) -> None:
        """A line through points."""
        path = " L ".join(f"{x} {y}" for x, y in points)
        head = ' marker-end="url(#head)"' if arrow else ""
        self.parts.append(f'<path class="{kind}" d="M {path}"{head}/>')

    def words(self, x: float, y: float, words: str, kind: str = "") -> None:
        """A line of text."""
        if words:
            self.parts.append(f'<text class="{kind}" x="{x}" y="{y}">{words}</text>')

    def write(self, name: str) -> None:
        """Save the picture."""
        head = (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#0b7268"/></marker>'
        )
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img">',
            f"<title>{self.title}</title><style>{STYLE}</style><defs>{head}</defs>",
            *self.parts,
            "</svg>\n",
        ]
        (FIGURES / name).write_text("\n".join(lines), encoding="utf-8")


def textual_edges() -> None:
    """People and products with reviews between them."""
    drawing = Drawing(720, 300, "A network with a text on every edge")
    people = {"Ada": 40, "Bob": 150, "Cem": 260}
    products = {"tent": 40, "lamp": 150, "boots": 260}
    reviews = [
        ("Ada", "tent", "Too small for two.", 0.5),
        ("Ada", "lamp", "It is fine.", 0.5),
        ("Bob", "lamp", "It is fine.", 0.5),
        ("Bob", "boots", "Dry after a day of rain.", 0.5),
        ("Cem", "boots", "Excellent, again.", 0.5),
    ]
    for person, product, _, _ in reviews:
        drawing.line((100, people[person]), (620, products[product]))
    for person, product, text, at in reviews:
        y = people[person] + (products[product] - people[person]) * at
        x = 100 + 520 * at
        width = 7.2 * len(text) + 24
        drawing.box(x - width / 2, y - 15, width, 30, text)
    for name, y in people.items():
        drawing.node(100, y, name, 28)
    for name, y in products.items():
        drawing.node(620, y, name, 28)
    drawing.write("textual-edges.svg")


def token_row(drawing: Drawing, x: float, y: float) -> None:
    """The states of the text of an edge, a box per token."""
    for number, text in enumerate(("[CLS]", "it", "is", "fine", "[SEP]")):
        drawing.box(x + number * 74, y, 68, 30, text)


def edgeformer_e() -> None:
    """Edgeformer-E: virtual node tokens as keys and values of every layer but the first."""
    drawing = Drawing(720, 360, "Edgeformer-E: every further layer reads the text with its nodes")
    left, middle = 270, 452
    token_row(drawing, left, 320)
    drawing.line((middle, 320), (middle, 299), kind="accent", arrow=True)
    drawing.box(left, 266, 364, 32, "first layer: the text alone")
    drawing.line((middle, 266), (middle, 239), kind="accent", arrow=True)
    drawing.box(100, 206, 74, 30, "Ada", "virtual")
    drawing.box(180, 206, 74, 30, "tent", "virtual")
    token_row(drawing, left, 206)
    for x in (137, 217, middle):
        drawing.line((x, 206), (x, 185), kind="accent", arrow=True)
    drawing.box(100, 152, 534, 32, "every further layer: the text attends to both nodes and itself")
    drawing.line((middle, 152), (middle, 125), kind="accent", arrow=True)
    token_row(drawing, left, 92)
    drawing.line((left + 34, 92), (left + 34, 59), kind="accent", arrow=True)
    drawing.box(left - 16, 26, 100, 32, "the edge", "virtual")
    drawing.words(left + 96, 47, "[CLS] of the last layer. How many stars?", "small")
    drawing.words(100, 256, "virtual tokens of the nodes:", "small")
    drawing.words(100, 272, "read, never rewritten", "small")
    drawing.write("edgeformer-e.svg")


def edgeformer_n() -> None:
    """Edgeformer-N: the edges of a node are read together and pooled."""
    drawing = Drawing(720, 392, "Edgeformer-N: the edges of a node hear each other between layers")
    reviews = ["Too small for two.", "It is fine.", "Dry in the rain."]
    lefts = [60, 270, 480]
    for left, text, neighbor in zip(lefts, reviews, ("tent", "lamp", "boots"), strict=True):
        middle = left + 90
        drawing.box(left, 350, 180, 32, text)
        drawing.line((middle, 350), (middle, 325), kind="accent", arrow=True)
        drawing.box(left, 290, 180, 34, "layer")
        drawing.line((middle, 290), (middle, 267), kind="accent", arrow=True)
        drawing.line((middle, 238), (middle, 201), kind="accent", arrow=True)
        drawing.words(middle + 12, 224, f"Ada, {neighbor}", "small")
        drawing.box(left, 166, 180, 34, "layer")
        drawing.line((middle, 166), (middle, 133), kind="accent", arrow=True)
    words = "between layers: attention among the [CLS] states of Ada's edges"
    drawing.box(60, 238, 600, 28, words, "virtual")
    drawing.box(60, 104, 600, 28, "attention pooling: a weighted sum of the edges", "virtual")
    drawing.line((360, 104), (360, 71), kind="accent", arrow=True)
    drawing.node(360, 40, "Ada", 28)
    drawing.words(400, 45, "one vector. What will Ada link to next?", "small")
    drawing.write("edgeformer-n.svg")


def main() -> None:
    """Draw all figures."""
    textual_edges()
    edgeformer_e()
    edgeformer_n()


if __name__ == "__main__":
    main()
