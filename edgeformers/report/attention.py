"""What the read-out token reads, as a table of shaded cells."""

from collections.abc import Sequence

from edgeformers.report.page import safe

TOKEN = "padding:1px .8rem 1px 0;border:0;white-space:nowrap;min-width:0"
LONGEST = 15  # characters of a token that are shown


def attention_table(tokens: Sequence[str], virtual: int, weights: Sequence[Sequence[float]]) -> str:
    """What the read-out token reads: a row per token, virtual ones first, a column per layer.

    Each layer's cells are as dark as their weight beside the largest of that layer.
    """
    heads = "".join(
        f'<th scope="col" style="padding:0;text-align:center">{i}</th>' for i in range(len(weights))
    )
    rows = "".join(
        _attention_row(token, i < virtual, [layer[i] for layer in weights], weights)
        for i, token in enumerate(tokens)
    )
    return (
        '<div class="scroll"><table style="width:auto;font-size:.82rem"><thead><tr>'
        f'<th scope="col" style="{TOKEN}">layer</th>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _attention_row(
    token: str, is_virtual: bool, row: Sequence[float], weights: Sequence[Sequence[float]]
) -> str:
    word = safe(token if len(token) <= LONGEST else token[:LONGEST] + "…")
    name = f"<b>{word}</b>" if is_virtual else word
    cells = "".join(_attention_cell(w, max(layer)) for w, layer in zip(row, weights, strict=True))
    return f'<tr><th scope="row" style="{TOKEN}">{name}</th>{cells}</tr>'


def _attention_cell(weight: float, largest: float) -> str:
    share = weight / largest if largest > 0 else 0.0
    return (
        f'<td style="padding:0;border:1px solid var(--paper);min-width:1.1rem;height:1.35rem;'
        f'background:rgb(11 143 128 / {share:.2f})" title="{weight:.3f}"></td>'
    )
