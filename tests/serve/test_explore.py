"""Every page of the explorer, with friendly and with hostile ids and texts."""

import re
from html.parser import HTMLParser
from shutil import copytree

import numpy as np
import pytest
from fastapi.testclient import TestClient

from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.table import EdgeTable
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.serve.app import create_app
from edgeformers.serve.explore.rendering import page_url
from edgeformers.serve.schemas import OwnEdge
from edgeformers.serve.server import serve
from edgeformers.serve.service import Service
from tests.estimators.conftest import tiny

SOURCE, TARGET = "user-000003", "item-000001"
PAGES = [
    "/",
    "/search?query=item",
    f"/node?id={SOURCE}&side=source",
    f"/node?id={TARGET}&side=target",
    "/new",
    "/playground",
    f"/playground?source={SOURCE}&target={TARGET}&text=Excellent",
    "/map",
    "/map?what=edge&color=cluster",
    "/model-card",
]
EVIL = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a\u202eb\u2066c",
    "'&#39;/../?a=b#c",
]


@pytest.fixture(autouse=True, scope="module")
def small_maps():
    """Maps of fewer points, which are projected in a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgeformers.serve.explore.map_page.SAMPLE", 40)
        yield


class Outline(HTMLParser):
    """Tags with attributes, and the visible text."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.words, self.open = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open.append(tag)

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def get(client, path, status=200):
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    return Outline(answer.text)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_accessible_and_loads_only_its_own_files(client, path):
    answer = client.get(path)
    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = Outline(answer.text)
    for _, attributes in page.tags:
        assert not any(name == "style" or name.startswith("on") for name in attributes)
        for link in (attributes.get("src"), attributes.get("href"), attributes.get("action")):
            assert not re.match(r"(?i)(\w+:|//)", link or "")
    assert [len(page.all(tag)) for tag in ("h1", "main", "header", "footer")] == [1, 1, 1, 1]
    assert page.all("html")[0]["lang"] == "en"
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    labeled = {attributes["for"] for attributes in page.all("label")}
    fields = [f for tag in ("input", "textarea", "select") for f in page.all(tag)]
    assert {field["id"] for field in fields if field.get("type") != "hidden"} == labeled


def test_style_and_script_are_served_and_nothing_else(client):
    page = Outline(client.get("/").text)
    files = [link["href"] for link in page.all("link")] + [f["src"] for f in page.all("script")]
    assert len(files) == 5
    for file in files:
        assert client.get(f"/{file}").status_code == 200
    for file in ("../pages.py", "..%2fpages.py", "pages.py", ""):
        assert client.get(f"/static/{file}").status_code == 404


def test_the_theme_of_the_cookie_is_rendered(client):
    for theme, shown in (("dark", "dark"), ("light", "light"), ("<b>", None)):
        answer = client.get("/", headers={"Cookie": f"theme={theme}"})
        assert Outline(answer.text).all("html")[0].get("data-theme") == shown


def test_a_search_finds_nodes_and_suggests_them(client):
    page = get(client, "/search?query=USER-00000")
    links = [link["href"] for link in page.all("a")]
    assert page_url("node", id=SOURCE, side="source") in links
    suggested = client.get("/suggest", params={"query": "000003", "side": "target"}).json()
    assert [node["id"] for node in suggested] == ["item-000003"]
    assert "No node" in get(client, "/search?query=nothing-like-this").text


def test_a_source_has_a_graph_of_its_edges_and_recommendations_with_reasons(client, service):
    page = get(client, f"/node?id={SOURCE}&side=source")
    edges = service.nodes.edges_of(SOURCE, side="source", limit=12).edges
    graphs = [own for own in page.all("svg") if "graph" in (own.get("class") or "")]
    assert len(graphs) == 4
    linked = [link["href"] for link in page.all("a")]
    for edge in edges:
        assert linked.count(page_url("node", id=edge.target, side="target")) >= 4
        assert edge.text[:20] in page.text
    answer = service.recommend(SOURCE, 10, explain=3)
    for item in answer.recommendations:
        assert item.node in page.text
        assert f"{item.score:.2f}".replace("-", "−") in page.text
        for reason in item.quotes:
            assert reason.text in page.text
        for value in item.components.values():
            assert not value or f"{value:+.2f}".replace("-", "−") in page.text


def test_words_are_shaded_where_the_model_looked(client, service):
    form = {"target": TARGET, "text": "My tent is excellent."}
    (attended,) = service.word_attention(edges=[OwnEdge(**form)])
    strongest = max(attended.words, key=lambda word: word.weight)
    html = client.post("/new", data=form).text
    assert "Where the model looked" in html
    assert f'<mark class="a5">{attended.text[strongest.start : strongest.end]}</mark>' in html
    form = {"source": SOURCE, "target": TARGET, "text": "An <i>excellent</i> tent."}
    html = client.post("/playground", data=form, headers={"X-Fragment": "1"}).text
    assert '<mark class="a5">' in html
    assert "<i>" not in html


def test_an_edge_is_removed_and_the_ranking_computed_again(client, service):
    page = get(client, f"/node?id={SOURCE}&side=source")
    removable = [f["value"] for f in page.all("input") if f.get("name") == "without"]
    assert removable
    path = page_url("/what-if", id=SOURCE, without=removable[0])
    fitted = service.versions.find("link-prediction").links
    change = fitted.what_if(SOURCE, 10, without=[removable[0]])
    for headers in ({}, {"X-Fragment": "1"}):
        page = Outline(client.get(path, headers=headers).text)
        for item in change.after:
            assert item.node in page.text
            assert f"{item.score:.2f}".replace("-", "−") in page.text
    assert client.get(page_url("/what-if", id=SOURCE, without="item-x")).status_code == 404


def test_the_edges_of_a_node_are_shown_in_pages(client, service):
    busiest = service.nodes.busiest("target", 1)[0]
    path, seen = page_url("/node", id=busiest.id, side="target"), 0
    while path:
        html = client.get(path).text
        seen += html.count('class="ends"')
        following = [link for link in Outline(html).all("a") if link.get("rel") == "next"]
        path = f"/{following[0]['href']}" if following else ""
    assert seen == busiest.edges


def test_someone_new_gets_recommendations_at_once(client, service):
    form = {"target": [TARGET, "", ""], "text": ["My tent is excellent.", "", ""]}
    page = Outline(client.post("/new", data=form).text)
    (value, *_) = [f.get("value") for f in page.all("input") if f.get("name") == "target"]
    assert value == TARGET
    part = client.post("/new", data=form, headers={"X-Fragment": "1"}).text
    assert "<html" not in part
    assert "Recommended" in part
    assert "Recommended" not in client.post("/new", data={"target": "", "text": " "}).text


def test_the_playground_shows_what_text_and_nodes_say_alone(client, service):
    form = {"source": SOURCE, "target": "nobody", "text": "It is excellent."}
    page = Outline(client.post("/playground", data=form, headers={"X-Fragment": "1"}).text)
    shown = [float(number) for number in re.findall(r"([\d.]+)%", page.text)]
    labels = len(service.graph("edges").label_names)
    assert len(shown) == 3 * labels
    for at in range(3):
        assert sum(shown[at * labels : (at + 1) * labels]) == pytest.approx(100, abs=0.5)
    assert "no target “nobody”" in page.text


def test_a_map_has_a_link_for_every_point_and_a_legend_for_every_color(client, simulated):
    page = get(client, "/map?what=target&color=degree")
    points = [link["href"] for link in page.all("a") if link.get("tabindex") == "-1"]
    linked = np.flatnonzero(simulated.adjacency.degrees()[simulated.num_sources :])
    names = simulated.node_names(simulated.num_sources + linked)
    assert len(points) == min(40, len(linked))
    assert set(points) <= {page_url("node", id=name, side="target") for name in names}
    legends = [own["data-legend"] for own in page.all("p") if "data-legend" in own]
    assert legends == ["label", "degree", "cluster"]
    assert client.get("/map?what=galaxies").status_code == 422


def test_documents_are_pages_without_scripts(runs, tmp_path):
    folder = tmp_path / "quickstart"
    folder.mkdir()
    (folder / "links").symlink_to(runs[1])
    service = Service([folder / "links"], device="cpu")
    client = TestClient(create_app(service))
    assert "finished run" in get(client, "/report", 422).text
    (folder / "report.html").write_text("<h1>Quickstart</h1>")
    for path, word in (("/data-card", "Data card"), ("/report", "Quickstart")):
        answer = client.get(path)
        assert answer.status_code == 200
        assert word in answer.text
        assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert "Loading it" in get(client, "/model-card?model=links").text
    service.close()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/node?id=nobody", 404),
        ("/node", 404),
        ("/node?id=user-000003&cursor=x", 422),
        ("/node?id=user-000003&model=nothing", 404),
        ("/compare", 422),
    ],
)
def test_an_error_is_a_page_with_a_sentence(client, path, status):
    page = get(client, path, status)
    assert len(page.all("h1")) == 1
    part = client.get(path, headers={"X-Fragment": "1"})
    assert (part.status_code, "<html" in part.text) == (status, False)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A client of both tasks on a network with one node type, hostile ids and hostile texts."""
    names = [*EVIL, "plain", "\u0627\u0628", "x" * 300, "中文"]
    rows = [
        {
            "source": names[i],
            "target": names[(i + step) % len(names)],
            "text": EVIL[i % len(EVIL)],
            "label": EVIL[step % 2],
        }
        for i in range(len(names))
        for step in (1, 2, 3, 5)
    ]
    table = EdgeTable.from_rows(lambda: rows, fields=list(rows[0]), origin=EVIL[0], bipartite=False)
    folder = tmp_path_factory.mktemp("hostile")
    graph = write_network(
        table, folder / "net", config=PrepareConfig(tokenizer="train:500", progress=False)
    )
    small = {"train.epochs": 1, "train.batch_size": 8}
    tiny(EdgeClassifier, **small).fit(graph, run=folder / "edges")
    tiny(LinkPredictor, **small).fit(graph, run=folder / "links")
    service = Service([folder / "edges", folder / "links"], device="cpu")
    yield TestClient(create_app(service))
    service.close()


@pytest.mark.parametrize("name", EVIL)
def test_hostile_ids_and_texts_are_only_text(hostile, name):
    paths = [
        "/",
        page_url("/search", query=name),
        page_url("/node", id=name),
        page_url("/playground", source=name, target=name, text=name),
        "/map",
        "/map?what=edge",
        page_url("/node", id=name + "?"),
    ]
    for path in paths:
        html = hostile.get(path).text
        page = Outline(html)
        assert all(script.get("src") == "static/explore.js" for script in page.all("script"))
        assert not page.all("img")
        for _, attributes in page.tags:
            assert not any(key.startswith("on") for key in attributes)
        visible = re.sub(r'value="[^"]*"', "", html)  # a form sends ids back as they are
        assert not set("\u202e\u2066") & set(visible)
    page = get(hostile, page_url("/node", id=name))
    links = [link["href"] for link in page.all("a") if link.get("class") == "node"]
    assert links
    for link in links:
        assert hostile.get(f"/{link}").status_code == 200
    form = {"source": name, "target": name, "text": name}
    assert not Outline(hostile.post("/playground", data=form).text).all("img")
    assert not Outline(hostile.post("/new", data=form).text).all("img")
    assert hostile.get("/suggest", params={"query": name}).json()[0]["id"] == name


@pytest.mark.parametrize(("kept", "missing"), [("edges", "new"), ("links", "playground")])
def test_one_kind_of_run_is_enough(runs, kept, missing):
    service = Service([run for run in runs if run.name == kept], device="cpu")
    client = TestClient(create_app(service))
    page = get(client, "/")
    assert missing not in [link["href"] for link in page.all("a")]
    for path in (f"/node?id={SOURCE}", "/map", "/data-card"):
        assert client.get(path).status_code == 200
    assert client.get(f"/{missing}").status_code == 404
    service.close()


def test_two_runs_are_compared_on_one_node(runs, tmp_path):
    others = [copytree(run, tmp_path / f"other-{run.name}") for run in runs]
    service = Service([*runs, *others], device="cpu")
    client = TestClient(create_app(service))
    page = get(client, f"/compare?id={SOURCE}&first=links&second=other-links")
    best = service.recommend(SOURCE, 10, model="links").recommendations
    assert f"{len(best)} of the same {len(best)}" in page.text
    page = get(client, f"/compare?id={SOURCE}&first=edges&second=other-edges")
    assert "agree on" in page.text
    assert "same task" in get(client, f"/compare?id={SOURCE}&first=edges&second=links").text
    assert "Compare two runs" in get(client, f"/node?id={SOURCE}").text
    service.close()


def test_with_a_token_pages_need_a_login(service):
    client = TestClient(create_app(service, tokens=["a-secret-of-many-letters"]))
    answer = client.get("/map", headers={"Accept": "text/html"})
    login = Outline(answer.text)
    assert answer.url.path == "/login"
    assert [f["name"] for f in login.all("input")] == ["token", "next"]
    assert client.get("/static/explore.css").status_code == 200
    wrong = client.post("/login", data={"token": "wrong", "next": "/map"})
    assert wrong.status_code == 401
    right = client.post("/login", data={"token": "a-secret-of-many-letters", "next": "/new"})
    assert right.url.path == "/new"
    assert "Log out" in right.text


def test_the_explorer_is_opened_in_a_browser(runs, monkeypatch):
    opened = []

    def run(self, sockets):
        sockets[0].close()
        self._service.close()

    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("edgeformers.serve.server._Server.run", run)
    for open_browser in (False, True):
        serve([runs[1]], port=0, open_browser=open_browser, device="cpu")
    assert [address.rpartition(":")[0] for address in opened] == ["http://127.0.0.1"]
