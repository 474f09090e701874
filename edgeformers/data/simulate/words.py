"""The words of the simulated reviews: topics, products, and two ladders of praise."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Topic:
    """What a group of items is about: its products, each with its parts, and why one buys them."""

    name: str
    products: dict[str, tuple[str, ...]]  # product -> parts a review may speak of
    occasions: tuple[str, ...]  # each completes "Bought it ..."


TOPICS = (
    Topic(
        name="camping",
        products={
            "tent": ("zipper", "floor", "frame"),
            "sleeping bag": ("zipper", "lining", "hood"),
            "camp stove": ("burner", "valve", "stand"),
            "lantern": ("battery", "handle", "light"),
            "backpack": ("strap", "zipper", "pocket"),
            "hammock": ("fabric", "rope", "strap"),
        },
        occasions=("for a weekend hike", "for a trip to the lake", "before our summer camp"),
    ),
    Topic(
        name="coffee",
        products={
            "espresso blend": ("aroma", "crema", "aftertaste"),
            "dark roast": ("aroma", "flavor", "aftertaste"),
            "decaf": ("flavor", "aroma", "grind"),
            "coffee grinder": ("blade", "motor", "lid"),
            "french press": ("filter", "glass", "lid"),
            "milk frother": ("whisk", "motor", "battery"),
        },
        occasions=("for slow mornings", "for the office kitchen", "after my old one ran out"),
    ),
    Topic(
        name="board games",
        products={
            "card game": ("artwork", "rulebook", "pacing"),
            "party game": ("humor", "timer", "rulebook"),
            "dice game": ("scoring", "theme", "pacing"),
            "trivia game": ("wording", "scoring", "timer"),
            "strategy game": ("board", "rulebook", "theme"),
            "puzzle": ("picture", "cut", "box"),
        },
        occasions=("for family night", "for a rainy holiday", "for friends who love to play"),
    ),
    Topic(
        name="audio",
        products={
            "headset": ("bass", "cable", "cushion"),
            "speaker": ("bass", "volume", "remote"),
            "turntable": ("needle", "motor", "lid"),
            "microphone": ("stand", "cable", "pickup"),
            "radio": ("antenna", "display", "volume"),
            "amplifier": ("sound", "display", "remote"),
        },
        occasions=("for music at work", "for our living room", "to hear old records"),
    ),
    Topic(
        name="gardening",
        products={
            "watering can": ("spout", "handle", "rim"),
            "garden hose": ("nozzle", "valve", "length"),
            "rake": ("handle", "grip", "balance"),
            "trowel": ("blade", "grip", "tip"),
            "planter": ("drain", "rim", "color"),
            "hedge trimmer": ("blade", "motor", "battery"),
        },
        occasions=("for the roses out front", "for my small balcony", "before the spring planting"),
    ),
    Topic(
        name="cycling",
        products={
            "bike helmet": ("strap", "padding", "fit"),
            "saddle": ("padding", "seam", "shape"),
            "bike lock": ("key", "bracket", "cable"),
            "tire pump": ("gauge", "hose", "handle"),
            "rain jacket": ("hood", "zipper", "fit"),
            "bike light": ("battery", "bracket", "beam"),
        },
        occasions=(
            "for the daily ride",
            "for a tour along the coast",
            "for my son to get to school",
        ),
    ),
    Topic(
        name="cooking",
        products={
            "frying pan": ("handle", "coating", "weight"),
            "blender": ("blade", "motor", "jar"),
            "chef knife": ("edge", "balance", "grip"),
            "toaster": ("dial", "lever", "tray"),
            "rice cooker": ("lid", "timer", "bowl"),
            "pepper mill": ("gear", "grip", "finish"),
        },
        occasions=("for our new kitchen", "for quick dinners", "to cook for the whole family"),
    ),
    Topic(
        name="photography",
        products={
            "camera": ("lens", "screen", "battery"),
            "tripod": ("head", "clamp", "foot"),
            "camera bag": ("strap", "lining", "zipper"),
            "flash": ("battery", "beam", "mount"),
            "photo printer": ("ink", "tray", "screen"),
            "drone": ("camera", "remote", "battery"),
        },
        occasions=("for a friend's wedding", "to take on long walks", "for pictures of our dogs"),
    ),
)

PRODUCTS = 6  # per topic
PARTS = 3  # per product

OPENINGS = ("Bought it", "Got this", "Ordered it")  # before an occasion
SUBJECTS = ("The", "This", "My", "Our new")  # before a product
LINKS = (", the", " and the", "; the")  # before a part

#: Eight rungs from scorn to rapture, each completing "The tent is ...".
VERDICTS = (
    ("dreadful", "a waste of money", "beyond useless", "an insult to buyers"),
    ("bad", "a letdown", "rather poor", "not worth keeping"),
    ("mediocre", "a bit weak", "nothing special", "less than I hoped"),
    ("okay", "passable", "about average", "usable I suppose"),
    ("fine", "decent", "solid enough", "a fair choice"),
    ("good", "really nice", "a happy find", "well made"),
    ("great", "a delight", "very impressive", "excellent value"),
    ("perfect", "a masterpiece", "simply outstanding", "the best I have owned"),
)

#: The same rungs, each completing "... the zipper ...".
REMARKS = (
    ("is a disgrace", "is hopeless", "made me angry", "ruined it all"),
    ("disappoints", "annoys me", "is poor", "needs real work"),
    ("could be better", "is a little off", "lacks something", "is not quite right"),
    ("will do", "is so so", "is tolerable", "neither helps nor hurts"),
    ("works for me", "holds up", "is quite all right", "does its part"),
    ("is pleasant", "pleases me", "is a plus", "is nicely done"),
    ("is superb", "won me over", "deserves praise", "is a real strength"),
    ("is flawless", "amazed me", "is pure joy", "could not be better"),
)

PHRASES = 4  # per rung

#: Sentences that tell nothing about the stars; longer texts have more of them.
ASIDES = (
    "Delivery took three days.",
    "The box arrived a bit dented.",
    "My brother has the same one.",
    "I have used it for a month.",
    "I ordered it on a Monday.",
    "The seller answered my question.",
    "I paid with a gift card.",
    "It is the second one in our house.",
    "A neighbor told me about it.",
    "There was a note in the parcel.",
)

#: How reviewers use the ladder: the first starts at the bottom rung, each next one rung higher.
STYLES = ("reserved", "measured", "warm", "gushing")
