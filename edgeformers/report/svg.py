"""Small SVG from matplotlib's: no metadata, short numbers, tooltips, colors of the page's theme."""

import re
from xml.etree import ElementTree

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
TIP, TIP_SEPARATOR = "tip:", "␟"  # in ids of matplotlib's artists; XML allows no control characters

# Theme colors of figures; in a page they are CSS variables, which adapt to dark mode.
INK, MUTED, GRID, ACCENT = "#1f2426", "#5d676b", "#e2e4e0", "#0b7268"
VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--line", ACCENT: "--accent"}

ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", XLINK)


def compact_svg(svg: str, label: str, css_class: str = "") -> str:
    """Reduce matplotlib's SVG; with a CSS class, for use in a page that sets fonts and colors."""
    root = ElementTree.fromstring(svg)
    used = set(re.findall(r"#([\w-]+)[\")]", svg))
    for element in root.iter():
        _add_tooltips(element)
        if element.get("id") not in used:
            element.attrib.pop("id", None)
        _shorten_attributes(element, is_inline=bool(css_class))
        element.text, element.tail = (element.text or "").strip() or None, None
    _flatten(root)
    width, height = root.get("viewBox", "").split()[2:]
    root.attrib = {"viewBox": root.get("viewBox", ""), "role": "img", "aria-label": label}
    title = ElementTree.Element(f"{{{SVG}}}title")
    title.text = label
    root.insert(0, title)
    if not css_class:
        root.attrib |= {"width": width, "height": height}
        return ElementTree.tostring(root, encoding="unicode")
    root.attrib |= {"class": css_class, "style": f"max-width:{width}px"}
    text = ElementTree.tostring(root, encoding="unicode")
    for color, variable in VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    return text


def _add_tooltips(group: ElementTree.Element) -> None:
    """Each mark of a group gets the tooltip that the group's id holds for it."""
    name = group.get("id", "")
    if name.startswith(TIP):
        marks = [e for e in group.iter() if e.tag in (f"{{{SVG}}}use", f"{{{SVG}}}path")]
        marks = [e for e in marks if "id" not in e.attrib]  # definitions of markers
        for mark, tip in zip(marks, name.removeprefix(TIP).split(TIP_SEPARATOR), strict=True):
            ElementTree.SubElement(mark, f"{{{SVG}}}title").text = tip


def _shorten_attributes(element: ElementTree.Element, *, is_inline: bool) -> None:
    for name in ("d", "x", "y", "width", "height", "transform"):
        if name in element.attrib and not element.tag.endswith("image"):
            value = re.sub(
                r"-?\d+\.\d+",
                lambda n: f"{float(n[0]):.1f}".removesuffix(".0"),
                element.attrib[name],
            )
            element.set(name, re.sub(r"\s*([A-Za-z])\s*", r"\1", value) if name == "d" else value)
    if element.get("transform", "").startswith(("rotate(-0 ", "rotate(0 ")):
        del element.attrib["transform"]
    style = element.get("style", "")
    if is_inline:
        style = re.sub(r"font-(size|family): [^;]*(; )?", "", style)
    if style:
        element.set("style", style.replace(": ", ":").replace("; ", ";"))


def _flatten(element: ElementTree.Element) -> None:
    """Drop style sheets, metadata, clipping (nothing is outside the axes) and bare groups."""
    element.attrib.pop("clip-path", None)
    children = []
    for child in element:
        _flatten(child)
        tag = child.tag.rpartition("}")[2]
        if tag in ("metadata", "style", "clipPath") or (tag in ("g", "defs") and not len(child)):
            continue
        children += list(child) if tag == "g" and not child.attrib else [child]
    element[:] = children
